"""The paper's network: a pre-feature layer, a feature head and one or more cluster heads (paper, Table A.2)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.distributed import ONE_PROCESS, Group, batch_norm


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """Architecture of a :class:`Network`."""

    in_dim: int  # D, the width of the features
    n_clusters: int  # k
    hidden_dim: int = 4096  # the paper's; it reports no loss of accuracy down to 1024
    embedding_dim: int = 128  # d
    depth: int = 1  # hidden layers in each head
    n_heads: int = 1  # cluster heads on the shared trunk
    projection: int | None = None  # p, output dimension of the fixed input projection; None disables it
    centroids: bool = False  # use cosine similarities with k centroids in place of cluster heads
    bn_momentum: float = 0.1  # weight of the newest batch in BatchNorm's running statistics
    spaces: tuple[int, ...] = ()  # widths of the feature spaces in a row, which are scaled to unit length each

    def __post_init__(self) -> None:
        for name in ("in_dim", "n_clusters", "hidden_dim", "embedding_dim", "depth", "n_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but is {getattr(self, name)}.")
        if self.spaces and sum(self.spaces) != self.in_dim:
            raise ValueError(f"The widths {self.spaces} of the feature spaces must add up to in_dim, {self.in_dim}.")


def unit_spaces(X: Tensor, spaces: Sequence[int] = ()) -> Tensor:
    """Scale the part of each feature space in the rows of ``X (n, D)`` to the same length, and the rows to length 1.

    ``spaces`` are the widths of the feature spaces; none or one is a single space.

    >>> unit_spaces(torch.tensor([[3.0, 4.0, 100.0]]), [2, 1])
    tensor([[0.4243, 0.5657, 0.7071]])
    """
    if len(spaces) < 2:
        return F.normalize(X, dim=1)
    parts = torch.split(X, list(spaces), dim=1)
    return torch.cat([F.normalize(part, dim=1) for part in parts], dim=1) / math.sqrt(len(parts))


class Network(nn.Module):
    """Map features ``X (n, D)`` to the embedding ``Z (n, d)`` and the logits ``(h, n, k)`` of h cluster heads.

    ::

        X -> Linear-BatchNorm-ReLU -+-> (Linear-ReLU) x depth -> Linear -> Z
                                    +-> (Linear-ReLU) x depth -> Linear -> logits   (one per cluster head)

    Features of several encoders are concatenated in each row; ``spaces`` are their widths.

    With a ``projection``, the input is first scaled to unit rows, centred and projected to p dimensions by a fixed
    matrix (``set_projection``). A skip connection makes the initial ``Z`` equal to the first d of these dimensions,
    because a random initial embedding discards the geometry of the features, and small data sets never recover it.

    With ``centroids``, there are no cluster heads: the logits (1, n, k) are the cosine similarities of ``Z`` with the k
    centroids passed to ``set_centroids``.

    The hidden layers of all heads have the same shape and are computed together. ``forward`` returns ``Z`` without
    normalisation; ``embed`` returns unit rows.

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
        c = config
        m = self.n_parts = 1 if c.centroids else 1 + c.n_heads  # number of heads, including the feature head
        width = c.projection or c.in_dim
        self.linear_path: nn.Linear | None = None
        if c.projection:
            self.register_buffer("input_mean", torch.zeros(c.in_dim))
            # torch.eye would import torch._dynamo when a saved network is built on the meta device
            self.register_buffer("input_map", torch.zeros(c.in_dim, c.projection).fill_diagonal_(1))
            self.linear_path = nn.Linear(c.projection, c.embedding_dim, bias=False)
        self.pre_feature = nn.Linear(width, c.hidden_dim)
        self.batch_norm = nn.BatchNorm1d(c.hidden_dim, momentum=c.bn_momentum)
        self.first_hidden = nn.Linear(c.hidden_dim, m * c.hidden_dim)  # first hidden layers of all heads
        self.hidden = nn.ModuleList(StackedLinear(m, c.hidden_dim, c.hidden_dim) for _ in range(c.depth - 1))
        self.feature_out = nn.Linear(c.hidden_dim, c.embedding_dim)
        if c.centroids:
            self.register_buffer("centroids", torch.zeros(c.n_clusters, c.embedding_dim))
        else:
            self.cluster_out = StackedLinear(c.n_heads, c.hidden_dim, c.n_clusters)
        if self.linear_path is not None:  # makes the initial embedding the projection alone
            nn.init.zeros_(self.linear_path.weight).data.fill_diagonal_(1)
            nn.init.zeros_(self.feature_out.weight)
            nn.init.zeros_(self.feature_out.bias)

    def forward(self, X: Tensor, group: Group = ONE_PROCESS) -> tuple[Tensor, Tensor]:
        """Return ``Z (n, d)``, not normalised, and ``logits (h, n, k)`` for ``X (n, D)``.

        In training, BatchNorm uses the statistics of the rows of all processes in ``group``.
        """
        return self.from_projected(self.project(X), group)

    def project(self, X: Tensor) -> Tensor:
        """The fixed part of the network, from ``X (n, D)`` to the input (n, p) of its first layer."""
        with torch.autocast(X.device.type, enabled=False):  # directions of small variance need full precision
            if self.linear_path is not None or len(self.config.spaces) > 1:
                X = unit_spaces(X, self.config.spaces)
            if self.linear_path is not None:
                X = (X - self.input_mean) @ self.input_map  # (n, D) x (D, p) -> (n, p)
        return X

    def from_projected(self, X: Tensor, group: Group = ONE_PROCESS) -> tuple[Tensor, Tensor]:
        """The trained part of the network, from the projected rows ``X (n, p)``."""
        n, m = X.shape[0], self.n_parts  # len(X) would fix n in an exported graph
        T = F.relu(batch_norm(self.batch_norm, self.pre_feature(X), group))  # (n, h)
        H = F.relu(self.first_hidden(T)).view(n, m, self.config.hidden_dim).transpose(0, 1)  # (m, n, h)
        for layer in self.hidden:
            H = F.relu(layer(H))
        Z = self.feature_out(H[0])  # (n, h) x (h, d) -> (n, d)
        if self.linear_path is not None:
            Z = Z + self.linear_path(X)
        if self.config.centroids:
            return Z, (F.normalize(Z, dim=1) @ self.centroids.to(Z.dtype).T).unsqueeze(0)
        return Z, self.cluster_out(H[1:])

    def embed(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Like ``forward``, but with unit rows ``Z`` in at least float32."""
        Z, logits = self(X)
        return F.normalize(Z if Z.dtype == torch.float64 else Z.float(), dim=1), logits

    @torch.no_grad()
    def set_projection(self, mean: Tensor, matrix: Tensor) -> None:
        """Set the input projection to ``(x / |x| - mean) @ matrix`` with ``mean (D,)`` and ``matrix (D, p)``."""
        if self.linear_path is None:
            raise ValueError("This network has no projection; build it with NetworkConfig(projection=p).")
        self.input_mean.copy_(mean)
        self.input_map.copy_(matrix)

    @torch.no_grad()
    def set_centroids(self, centroids: Tensor) -> None:
        """Set the centroids to the rows of ``centroids (k, d)``, scaled to unit length."""
        if not self.config.centroids:
            raise ValueError("This network has cluster heads; build it with NetworkConfig(centroids=True).")
        self.centroids.copy_(F.normalize(centroids, dim=1))


class StackedLinear(nn.Module):
    """``m`` linear layers of the same shape, computed together: (m, n, in) -> (m, n, out)."""

    def __init__(self, m: int, in_dim: int, out_dim: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_dim)  # the initialisation of nn.Linear
        self.weight = nn.Parameter(torch.empty(m, out_dim, in_dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(m, 1, out_dim).uniform_(-bound, bound))

    def forward(self, X: Tensor) -> Tensor:
        if len(self.weight) == 1:  # faster than a batched product with one batch
            return F.linear(X[0], self.weight[0], self.bias[0, 0]).unsqueeze(0)
        return torch.baddbmm(self.bias, X, self.weight.transpose(1, 2))
