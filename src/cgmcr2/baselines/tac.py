"""TAC: text-aided clustering; nouns describe the images, and an image head and a text head teach each other."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor, nn

from cgmcr2._arrays import unit_rows
from cgmcr2._optim import Adam
from cgmcr2.encoders.base import TextEncoder
from cgmcr2.features.sources import check_finite, load_feature_file
from cgmcr2.training.batches import steps_per_epoch

from .base import Float32, Int64
from .deep import MinibatchBaseline, NeighbourSampler, n_positives
from .scan import EPS, entropy

MIN_STEPS = 100  # the shortest training run of the authors, 100 epochs of one batch of UCF-101

# The seven ImageNet prompts that CLIP's authors recommend.
PROMPTS = (
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
)


def choose_nouns(centers: Tensor, text: Tensor, nouns_per_center: int) -> Tensor:
    """Select the nouns that discriminate best between the image centres.

    Each noun is assigned to its most similar centre, and each centre keeps the ``nouns_per_center`` nouns of largest
    ``softmax_c <center_c, noun>``. ``centers (c, D)`` and ``text (t, D)`` have unit rows; returns sorted indices into
    ``text``.

    >>> choose_nouns(torch.eye(2), F.normalize(torch.tensor([[3.0, 0], [2, 1], [0, 1]]), dim=1), 1).tolist()
    [0, 2]
    """
    confidence, center = (text @ centers.T).softmax(1).max(1)  # (t,)
    order = confidence.argsort(descending=True, stable=True)
    order = order[center[order].argsort(stable=True)]  # by centre, then by descending confidence
    counts = torch.bincount(center, minlength=len(centers))
    rank = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[center[order]]
    return order[rank < nouns_per_center].sort().values


def text_counterparts(X: Tensor, nouns: Tensor, tau: float) -> Tensor:
    """Text counterpart of each image: the mean of the nouns weighted by ``softmax(<image, noun> / tau)``.

    ``X (n, D)`` and ``nouns (t, D)`` have unit rows; returns unit rows (n, D).
    """
    blocks = [F.normalize((x @ nouns.T / tau).softmax(1) @ nouns, dim=1) for x in torch.split(X, 4096)]
    return torch.cat(blocks)


def distillation_loss(P: Tensor, Q: Tensor, temperature: float) -> Tensor:
    """Contrastive loss of clusters: column c of ``P (b, k)`` and column c of ``Q (b, k)`` are a positive pair.

    All other columns of both are negatives. The similarity is the cosine.

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
    """Distillation between the modalities, consistency of both on each image, and entropy of the cluster sizes.

    ``image, text``: memberships (b, k) of the rows and of one neighbour of each row in that modality.
    """
    P, P_neighbour = image
    Q, Q_neighbour = text
    distillation = distillation_loss(P, Q_neighbour, temperature) + distillation_loss(Q, P_neighbour, temperature)
    consistency = -(P * Q).sum(1).clamp_min(EPS).log().mean()
    return distillation + consistency - mu * (entropy(P) + entropy(Q))


class ImageAndTextHeads(nn.Module):
    """An image head and a text head, both Linear-BatchNorm-ReLU-Linear; ``forward`` returns the image head's logits."""

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
        logits: Tensor = self.image(F.normalize(X, dim=1))
        return logits


@dataclass(kw_only=True, eq=False, repr=False)
class TAC(MinibatchBaseline):
    """TAC: text-aided clustering of images, with nouns embedded in the space of the image features.

    1. k-means over-clusters the images; each centre keeps the ``nouns_per_center`` most confident nouns.
    2. Each image gets a text counterpart: the mean of the selected nouns, weighted by softmax(similarity / tau).
    3. An image head and a text head are trained::

        min  distill(P, Q') + distill(Q, P') - mean_i log <P_i, Q_i> - mu (H(mean P) + H(mean Q))

    where P and Q are the memberships by the image head and by the text head, P' and Q' those of a random nearest
    neighbour of each row in the same modality, and H is the entropy. Predictions use the image head only, so text is
    needed for training only.

    Without ``text``, the image centres are used as nouns, with a warning; this is an ablation without text guidance,
    not TAC.

    Differences from the authors' code (github.com/XLearning-SCU/2024-ICML-TAC): the hidden layer has 512 units (theirs:
    the width of the features, 512 for their ViT-B/32); the over-clustering is one run of scikit-learn's k-means
    (theirs: ten of faiss, spherical); the last batch of an epoch is not dropped; there are at least 100 and at most
    2,000 steps, which is the range of theirs without ImageNet; arguments of logarithms are clamped at 1e-8 (theirs:
    entropy at 1e-9, consistency at e^-100); and the number of neighbours is capped at a quarter of the mean cluster
    size.

    Parameters
    ----------
    text : array of shape (t, D) or path, optional
        Embeddings of nouns by the text model of the encoder, or a feature file of them; see ``noun_embeddings``.
    n_centers : int, optional
        Centres of the over-clustering; default: n / 300, or 3 k if clusters have fewer than 300 rows, as in the paper.
    nouns_per_center : int
        Nouns kept per centre.
    tau : float
        Temperature of the text counterparts.
    temperature : float, optional
        Temperature of the distillation; default: 0.5 below 100 clusters, 5 otherwise, as in the authors' code.
    mu : float
        Weight of the entropies.
    n_neighbors : int
        Maximum number of neighbours of a row used as positives.
    hidden_dim : int
        Width of the heads.
    epochs : int, optional
        Default: 20 below 100 clusters, 100 otherwise, as in the authors' code, but at least 100 steps. With 2,000 steps
        for any n, it is less accurate on Imagenette and Caltech-101.
    max_steps : int
        Maximum number of steps; the authors' 20 epochs of CIFAR-10 are 2,000 steps.
    batch_size : int, optional
        Default: 512 below 100 clusters, 8192 otherwise, as in the authors' code.
    lr : float
        Learning rate of Adam.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 5, axis=0)
    >>> len(set(TAC(3, text=np.eye(3), max_steps=50).fit_predict(X)))
    3
    """

    name = "tac"
    reference = "Li, Hu, Peng, Lv, Fan and Peng, ICML 2024"

    text: npt.ArrayLike | str | os.PathLike[str] | None = None
    n_centers: int | None = None
    nouns_per_center: int = 5
    tau: float = 0.005
    temperature: float | None = None
    mu: float = 5.0
    n_neighbors: int = 50
    hidden_dim: int = 512
    epochs: int | None = None
    max_steps: int = 2000
    batch_size: int | None = None

    def _build(self, D: int) -> nn.Module:
        return ImageAndTextHeads(D, self.hidden_dim, self.n_clusters)

    def _fit(self, X: Float32, seed: int) -> Int64:
        self._text = self._read_text(X.shape[1])
        try:
            return super()._fit(X, seed)
        finally:
            del self._text  # needed for training only

    def _train(self, network: nn.Module, X: Tensor, seed: int) -> None:
        assert isinstance(network, ImageAndTextHeads)
        temperature = self.temperature or (5.0 if self.n_clusters >= 100 else 0.5)
        X = F.normalize(X, dim=1)
        centers = torch.from_numpy(self._centers(X.cpu().numpy(), seed)).to(X)
        nouns = centers
        if self._text is not None:
            text = torch.from_numpy(self._text).to(X)
            self.nouns_ = choose_nouns(centers, text, self.nouns_per_center).cpu().numpy()
            nouns = text[self.nouns_]
        T = text_counterparts(X, nouns, self.tau)
        m = n_positives(len(X), self.n_clusters, self.n_neighbors)
        image_positives, text_positives = NeighbourSampler(X, m), NeighbourSampler(T, m)

        def memberships(
            head: nn.Module, rows: Tensor, data: Tensor, positives: NeighbourSampler
        ) -> tuple[Tensor, Tensor]:
            neighbours = positives(rows)
            return head(data[rows]).softmax(1), head(data[neighbours]).softmax(1)

        def loss(rows: Tensor) -> Tensor:
            image = memberships(network.image, rows, X, image_positives)
            return tac_loss(image, memberships(network.text, rows, T, text_positives), temperature, self.mu)

        batch_size, _, steps = self.training_length(len(X))
        self.history_ = self._run_training(
            network,
            loss,
            len(X),
            batch_size=batch_size,
            max_steps=min(self.max_steps, steps),
            make_optimizer=functools.partial(Adam, betas=(0.9, 0.99)),
            seed=seed,
        )

    def training_length(self, n: int) -> tuple[int, int, int]:
        """The batch size, the steps per epoch and the steps of training on n rows, without the limit ``max_steps``."""
        batch_size = self.batch_size or (8192 if self.n_clusters >= 100 else 512)
        per_epoch = steps_per_epoch(n, batch_size)
        if self.epochs is not None:
            return batch_size, per_epoch, self.epochs * per_epoch
        return batch_size, per_epoch, max(MIN_STEPS, per_epoch * (100 if self.n_clusters >= 100 else 20))

    def _centers(self, X: Float32, seed: int) -> Float32:
        """Centres of the over-clustering, as unit rows (c, D)."""
        n, k = len(X), self.n_clusters
        n_centers = self.n_centers or (n // 300 if n >= 300 * k else 3 * k)
        model = KMeans(min(max(n_centers, 1), n), n_init=1, max_iter=100, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fewer distinct rows than centres is acceptable here
            centers: Float32 = unit_rows(model.fit(X).cluster_centers_).astype(np.float32)
        return centers

    def _read_text(self, D: int) -> Float32 | None:
        """Load and check the noun embeddings; unit rows (t, D)."""
        if self.text is None:
            warnings.warn(
                "TAC has no text embeddings and uses the image centres as nouns; pass text=, for example the result of "
                "noun_embeddings.",
                stacklevel=4,
            )
            return None
        text: Any = self.text
        if isinstance(text, (str, os.PathLike)):
            source = load_feature_file(text).features
            text = source[np.arange(source.shape[0])]
        text = np.asarray(text, dtype=np.float32)
        if text.ndim != 2 or len(text) < 1 or text.shape[1] != D:
            raise ValueError(
                f"The text embeddings have shape {text.shape}, but the image features have width {D}; pass embeddings "
                f"of shape (nouns, {D}) by the text model of the same encoder."
            )
        check_finite(text)
        return np.asarray(unit_rows(text), dtype=np.float32)


def noun_embeddings(
    nouns: Sequence[str], encoder: str | os.PathLike[str] | TextEncoder, *, batch_size: int = 256
) -> Float32:
    """Mean embedding of each noun over seven prompts, for ``TAC(text=...)``.

    Parameters
    ----------
    nouns : sequence of str
        The t nouns; TAC's authors use those of WordNet.
    encoder : str, path or TextEncoder
        Encoder of the image features: name or folder of a CLIP model (requires ``pip install 'cgmcr2[clip]'``), or an
        object with ``encode_text``.
    batch_size : int
        Nouns per batch.

    Returns
    -------
    text : ndarray of shape (t, D)
        Unit rows.

    Examples
    --------
    >>> class Letters:
    ...     def encode_text(self, texts):
    ...         return np.array([[text.count("a"), text.count("b")] for text in texts], dtype=np.float32)
    >>> noun_embeddings(["bbbbb"], Letters()).round(2)
    array([[0.36, 0.93]], dtype=float32)
    """
    if not len(nouns):
        raise ValueError("The list of nouns is empty; pass at least one noun, ideally thousands.")
    if isinstance(encoder, (str, os.PathLike)):
        from cgmcr2.encoders.vit import VitEncoder

        encoder = VitEncoder(os.fspath(encoder))
    blocks = []
    for start in range(0, len(nouns), batch_size):
        block = nouns[start : start + batch_size]
        blocks.append(sum(encoder.encode_text([prompt.format(noun) for noun in block]) for prompt in PROMPTS))
    return np.asarray(unit_rows(np.concatenate(blocks)), dtype=np.float32)
