"""TAC: nouns describe the images, and image and text heads teach each other."""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor, nn

from cgmcr2.consensus.views import among_themselves
from cgmcr2.features.sources import check_finite, load_feature_file

from .base import Float32, Int64, unit_rows
from .deep import DeepBaseline, train
from .scan import EPS, entropy

# seven of CLIP's prompts for ImageNet, those that its authors found to be enough
PROMPTS = (
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
)


def choose_nouns(centers: Tensor, text: Tensor, each: int) -> Tensor:
    """The nouns that tell the image centres apart: a noun belongs to the centre it is most similar to, and each centre
    keeps the ``each`` nouns of largest ``softmax_c <center_c, noun>``.

    ``centers (c, D)``, ``text (t, D)``, unit rows; -> sorted indices into ``text``.

    >>> choose_nouns(torch.eye(2), F.normalize(torch.tensor([[3.0, 0], [2, 1], [0, 1]]), dim=1), 1).tolist()
    [0, 2]
    """
    confidence, owner = (text @ centers.T).softmax(1).max(1)  # (t,)
    order = confidence.argsort(descending=True, stable=True)
    order = order[owner[order].argsort(stable=True)]  # by centre, the surest first
    counts = torch.bincount(owner, minlength=len(centers))
    rank = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[owner[order]]
    return order[rank < each].sort().values


def text_counterparts(X: Tensor, nouns: Tensor, tau: float) -> Tensor:
    """(n, D) unit rows: for each image the mean of the nouns, weighted by ``softmax(<image, noun> / tau)``."""
    blocks = [F.normalize((x @ nouns.T / tau).softmax(1) @ nouns, dim=1) for x in torch.split(X, 4096)]
    return torch.cat(blocks)


def distillation_loss(P: Tensor, Q: Tensor, temperature: float) -> Tensor:
    """Contrast of clusters: column c of ``P (b, k)`` is to be most similar to column c of ``Q (b, k)`` by cosine,
    among all other columns of both.

    >>> P = torch.eye(3)
    >>> float(distillation_loss(P, P, 0.01)) < 1e-6 < float(distillation_loss(P, P.roll(1, 0), 0.01))
    True
    """
    k = P.shape[1]
    columns = F.normalize(torch.cat([P, Q], dim=1).T, dim=1)  # (2 k, b)
    similarity = columns @ columns.T / temperature
    similarity = similarity.masked_fill(torch.eye(2 * k, dtype=torch.bool, device=P.device), -torch.inf)
    return F.cross_entropy(similarity, torch.arange(2 * k, device=P.device).roll(k))


def tac_loss(image: tuple[Tensor, Tensor], text: tuple[Tensor, Tensor], temperature: float, mu: float) -> Tensor:
    """Each modality learns from the other's neighbours, both agree on each image, and all clusters are used.

    ``image, text``: memberships (b, k) of the rows and of a neighbour of each in that modality.
    """
    P, P_near = image
    Q, Q_near = text
    distill = distillation_loss(P, Q_near, temperature) + distillation_loss(Q, P_near, temperature)
    agree = -(P * Q).sum(1).clamp_min(EPS).log().mean()
    return distill + agree - mu * (entropy(P) + entropy(Q))


class TwoHeads(nn.Module):
    """An image head and a text head, each Linear-BatchNorm-ReLU-Linear; scores (n, k) are the image head's."""

    def __init__(self, D: int, hidden: int, k: int) -> None:
        super().__init__()
        self.image, self.text = (
            nn.Sequential(nn.Linear(D, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, k))
            for _ in range(2)
        )
        for head in (self.image, self.text):
            for layer in (head[0], head[3]):
                nn.init.trunc_normal_(layer.weight, std=0.02)  # type: ignore[arg-type]

    def forward(self, X: Tensor) -> Tensor:
        scores: Tensor = self.image(F.normalize(X, dim=1))
        return scores


class TAC(DeepBaseline):
    """TAC: text-aided clustering of images, with nouns whose text embeddings are in the space of the image features.

    1. k-means makes more centres than clusters; each keeps the ``nouns_each`` nouns that are surest of it.
    2. Each image gets a counterpart in text: the mean of the chosen nouns, weighted by softmax(similarity / tau).
    3. An image head P and a text head Q are trained, with P', Q' of a random nearest neighbour in either modality::

        min  distill(P, Q') + distill(Q, P') - mean_i log <P_i, Q_i> - mu (H(mean P) + H(mean Q))

    Rows are predicted by the image head alone, so text is needed in the fit only.

    ``text (t, D)``, an array or a path of a feature file, holds the nouns' embeddings by the encoder's own text model
    (``noun_embeddings`` makes them with CLIP). Without it the image centres stand in for nouns, with a warning: that is
    the method without its guidance, not TAC.

    Where ours differs from the authors' code (github.com/XLearning-SCU/2024-ICML-TAC): the heads' hidden layer has 512
    units where theirs has as many as features (512 with their ViT-B/32), the over-clustering is one k-means of
    scikit-learn in place of ten of faiss, and small data is trained for at least ``min_steps`` steps and with fewer
    neighbours than 50: a quarter of a cluster's mean size.

    Parameters
    ----------
    text : (t, D) embeddings of nouns, or a path of them
    n_centers : of the over-clustering; None: n / 300, or 3 k where clusters have fewer than 300 rows, as in the paper
    nouns_each : nouns that a centre keeps
    tau : temperature of the counterparts
    temperature : of the distillation; None: 0.5, and 5 from 100 clusters on, as the authors have it
    mu : weight of the entropies
    n_neighbors : at most so many neighbours of each row are its positives
    hidden_dim : of the heads
    epochs, batch_size : None: 20 of 512 rows, and 100 of 8192 rows from 100 clusters on, as the authors have it
    lr : Adam's
    min_steps : epochs are added until there are so many steps

    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(TAC(3, text=np.eye(3), min_steps=50).fit_predict(X)))
    3
    """

    name = "tac"
    reference = "Li, Hu, Peng, Lv, Fan and Peng, ICML 2024"

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        random_state: int = 0,
        text: npt.ArrayLike | str | os.PathLike[str] | None = None,
        n_centers: int | None = None,
        nouns_each: int = 5,
        tau: float = 0.005,
        temperature: float | None = None,
        mu: float = 5.0,
        n_neighbors: int = 50,
        hidden_dim: int = 512,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float = 1e-3,
        min_steps: int = 200,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.text = text
        self.n_centers = n_centers
        self.nouns_each = nouns_each
        self.tau = tau
        self.temperature = temperature
        self.mu = mu
        self.n_neighbors = n_neighbors
        self.hidden_dim = hidden_dim
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.min_steps = min_steps
        self.device = device
        self.verbose = verbose

    def _build(self, D: int) -> nn.Module:
        return TwoHeads(D, self.hidden_dim, self.n_clusters)

    def _fit(self, X: Float32, seed: int) -> Int64:
        self._text = self._read_text(X.shape[1])
        try:
            return super()._fit(X, seed)
        finally:
            del self._text  # an estimator keeps what predict needs

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, TwoHeads)
        n, k = len(X), self.n_clusters
        many = k >= 100
        temperature = self.temperature or (5.0 if many else 0.5)
        batch_size = self.batch_size or (8192 if many else 512)
        X = F.normalize(X, dim=1)
        centers = torch.from_numpy(self._centers(X.cpu().numpy(), seed)).to(X)
        nouns = centers
        if self._text is not None:
            text = torch.from_numpy(self._text).to(X)
            self.nouns_ = choose_nouns(centers, text, self.nouns_each).cpu().numpy()
            nouns = text[self.nouns_]
        T = text_counterparts(X, nouns, self.tau)
        m = min(self.n_neighbors, n - 1, max(1, n // (4 * k)))
        near_image, near_text = among_themselves(X, m), among_themselves(T, m)

        def memberships(head: nn.Module, rows: Tensor, data: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
            positive = near[rows, torch.randint(m, rows.shape, device=X.device)]
            return head(data[rows]).softmax(1), head(data[positive]).softmax(1)

        def loss(rows: Tensor) -> Tensor:
            image = memberships(network.image, rows, X, near_image)
            return tac_loss(image, memberships(network.text, rows, T, near_text), temperature, self.mu)

        steps = max(1, min(math.ceil(n / batch_size), n // 2))
        self.history_ = train(
            network,
            loss,
            n,
            epochs=max(self.epochs or (100 if many else 20), math.ceil(self.min_steps / steps)),
            batch_size=batch_size,
            lr=self.lr,
            optimizer=functools.partial(torch.optim.Adam, betas=(0.9, 0.99)),
            seed=seed,
            verbose=self.verbose,
            title="tac",
        )

    def _centers(self, X: Float32, seed: int) -> Float32:
        """(c, D) unit rows: the centres of the over-clustering."""
        n, k = len(X), self.n_clusters
        wanted = self.n_centers or (n // 300 if n >= 300 * k else 3 * k)
        model = KMeans(min(max(wanted, 1), n), n_init=1, max_iter=100, random_state=seed % 2**32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct rows than centres is no fault here
            centers: Float32 = unit_rows(model.fit(X).cluster_centers_).astype(np.float32)
        return centers

    def _read_text(self, D: int) -> Float32 | None:
        if self.text is None:
            warnings.warn(
                "TAC was given no text embeddings, so that its image centres stand in for nouns; give text=, such as "
                "noun_embeddings makes.",
                stacklevel=4,
            )
            return None
        given: Any = self.text
        if isinstance(given, (str, os.PathLike)):
            source = load_feature_file(given).features
            given = source[np.arange(source.shape[0])]
        text = np.asarray(given, dtype=np.float32)
        if text.ndim != 2 or len(text) < 1 or text.shape[1] != D:
            raise ValueError(
                f"The text embeddings have shape {text.shape}, but the image features have width {D}; give (nouns, "
                f"{D}), by the text part of the same encoder."
            )
        check_finite(text)
        return np.asarray(unit_rows(text), dtype=np.float32)


class TextEncoder(Protocol):
    """What makes embeddings of texts: ``cgmcr2.encoders.vit.VitEncoder`` of a CLIP model."""

    def encode_text(self, texts: list[str]) -> npt.NDArray[np.float32]: ...


def noun_embeddings(
    nouns: Sequence[str], encoder: str | os.PathLike[str] | TextEncoder, *, batch_size: int = 256
) -> Float32:
    """(t, D) unit rows: the mean embedding of each noun in seven prompts, for ``TAC(text=...)``.

    ``encoder``: a CLIP model by name or folder (needs ``pip install 'cgmcr2[clip]'``), or anything with
    ``encode_text``. It must be the one whose image features are clustered. TAC's authors take the nouns of WordNet.

    >>> class Letters:
    ...     def encode_text(self, texts):
    ...         return np.array([[text.count("a"), text.count("b")] for text in texts], dtype=np.float32)
    >>> noun_embeddings(["bbbbb"], Letters()).round(2)
    array([[0.36, 0.93]], dtype=float32)
    """
    if not len(nouns):
        raise ValueError("There are no nouns; give at least one, and for good guidance thousands.")
    if isinstance(encoder, (str, os.PathLike)):
        from cgmcr2.encoders.vit import VitEncoder

        encoder = VitEncoder(os.fspath(encoder))
    blocks = []
    for start in range(0, len(nouns), batch_size):
        block = nouns[start : start + batch_size]
        blocks.append(sum(encoder.encode_text([prompt.format(noun) for noun in block]) for prompt in PROMPTS))
    return np.asarray(unit_rows(np.concatenate(blocks)), dtype=np.float32)
