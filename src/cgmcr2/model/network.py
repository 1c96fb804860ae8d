"""The paper's network: a pre-feature layer, a feature head and one or more cluster heads (paper, Table A.2)."""

from __future__ import annotations

import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """Every size of the network; ``Network(NetworkConfig(...))`` builds it."""

    in_dim: int  # D, the width of the features
    n_clusters: int  # k
    hidden_dim: int = 4096  # the paper's; it reports no loss down to 1024
    embedding_dim: int = 128  # d
    depth: int = 1  # hidden layers in each head
    n_heads: int = 1  # cluster heads on the one trunk
    projection: int | None = None  # the input is scaled to unit rows and mapped to so many directions first
    centroids: bool = False  # logits are cosines of Z with k directions, in place of cluster heads
    bn_momentum: float = 0.1  # weight of the newest batch in BatchNorm's running statistics

    def __post_init__(self) -> None:
        for name in ("in_dim", "n_clusters", "hidden_dim", "embedding_dim", "depth", "n_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}.")


class Network(nn.Module):
    """``X (n, D)`` to the embedding ``Z (n, d)`` and the logits ``(h, n, k)`` of h cluster heads.

    ::

        X -> Linear-BatchNorm-ReLU -+-> (Linear-ReLU) x depth -> Linear -> Z
                                    +-> (Linear-ReLU) x depth -> Linear -> logits   (h of these)

    With a ``projection`` the input is first scaled to unit rows, centred and mapped to p directions by a fixed matrix
    (``set_projection``), and ``Z`` starts as the first d of them: a random embedding forgets the geometry that is
    already in the features, and small data never recovers it.

    With ``centroids`` there is no cluster head: the logits (1, n, k) are the cosines of ``Z`` with k directions that
    ``set_centroids`` gives.

    The heads' hidden layers have the same shape, so they are computed together: one product for the first layers of
    all heads, batched products after that. ``Z`` is returned as the head gives it; ``embed`` gives unit rows.

    >>> network = Network(NetworkConfig(in_dim=8, n_clusters=3, hidden_dim=16, embedding_dim=4, n_heads=2))
    >>> Z, logits = network(torch.randn(5, 8))
    >>> Z.shape, logits.shape
    (torch.Size([5, 4]), torch.Size([2, 5, 3]))
    """

    input_mean: Tensor
    input_map: Tensor
    centroids: Tensor

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        c, self.n_parts = config, 1 if config.centroids else 1 + config.n_heads  # heads, the feature head too
        m = self.n_parts
        width = c.projection or c.in_dim  # p, of what the layers see
        self.linear_path: nn.Linear | None = None
        if c.projection:
            self.register_buffer("input_mean", torch.zeros(c.in_dim))
            self.register_buffer("input_map", torch.eye(c.in_dim, c.projection))
            self.linear_path = nn.Linear(c.projection, c.embedding_dim, bias=False)
        self.pre_feature = nn.Linear(width, c.hidden_dim)
        self.batch_norm = nn.BatchNorm1d(c.hidden_dim, momentum=c.bn_momentum)
        self.first_hidden = nn.Linear(c.hidden_dim, m * c.hidden_dim)  # the feature head's, then each cluster head's
        self.hidden = nn.ModuleList(StackedLinear(m, c.hidden_dim, c.hidden_dim) for _ in range(c.depth - 1))
        self.feature_out = nn.Linear(c.hidden_dim, c.embedding_dim)
        if c.centroids:
            self.register_buffer("centroids", torch.zeros(c.n_clusters, c.embedding_dim))
        else:
            self.cluster_out = StackedLinear(c.n_heads, c.hidden_dim, c.n_clusters)
        if self.linear_path is not None:  # the embedding starts as the projection alone
            nn.init.eye_(self.linear_path.weight)
            nn.init.zeros_(self.feature_out.weight)
            nn.init.zeros_(self.feature_out.bias)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """``X (n, D)`` -> ``Z (n, d)`` not normalised, ``logits (h, n, k)``."""
        n, m = len(X), self.n_parts
        if self.linear_path is not None:
            with torch.autocast(X.device.type, enabled=False):  # directions of small variance need all their digits
                X = (F.normalize(X, dim=1) - self.input_mean) @ self.input_map  # (n, D) x (D, p) -> (n, p)
        T = F.relu(self.batch_norm(self.pre_feature(X)))  # (n, h)
        H = F.relu(self.first_hidden(T)).view(n, m, -1).transpose(0, 1)  # (m, n, h)
        for layer in self.hidden:
            H = F.relu(layer(H))
        Z = self.feature_out(H[0])  # (n, h) x (h, d) -> (n, d)
        if self.linear_path is not None:
            Z = Z + self.linear_path(X)
        if self.config.centroids:
            return Z, (F.normalize(Z, dim=1) @ self.centroids.to(Z.dtype).T).unsqueeze(0)
        return Z, self.cluster_out(H[1:])

    def embed(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """As ``forward``, with ``Z`` in at least float32 and its rows scaled to unit length."""
        Z, logits = self(X)
        return F.normalize(Z if Z.dtype == torch.float64 else Z.float(), dim=1), logits

    @torch.no_grad()
    def set_projection(self, mean: Tensor, matrix: Tensor) -> None:
        """From now on the input is ``(x / |x| - mean) matrix``: ``mean (D,)``, ``matrix (D, p)``. Both are saved."""
        if self.linear_path is None:
            raise ValueError("This network has no projection; build it with NetworkConfig(projection=p).")
        self.input_mean.copy_(mean)
        self.input_map.copy_(matrix)

    @torch.no_grad()
    def set_centroids(self, centroids: Tensor) -> None:
        """From now on the logits are cosines with the rows of ``centroids (k, d)``, which are saved."""
        if not self.config.centroids:
            raise ValueError("This network has cluster heads; build it with NetworkConfig(centroids=True).")
        self.centroids.copy_(F.normalize(centroids, dim=1))


class StackedLinear(nn.Module):
    """``m`` linear maps of one shape in one batched product: (m, n, in) -> (m, n, out)."""

    def __init__(self, m: int, in_dim: int, out_dim: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_dim)  # nn.Linear's own start
        self.weight = nn.Parameter(torch.empty(m, out_dim, in_dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(m, 1, out_dim).uniform_(-bound, bound))

    def forward(self, X: Tensor) -> Tensor:
        if len(self.weight) == 1:  # a plain product is faster than a batch of one
            return F.linear(X[0], self.weight[0], self.bias[0, 0]).unsqueeze(0)
        return torch.baddbmm(self.bias, X, self.weight.transpose(1, 2))
