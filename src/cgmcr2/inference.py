"""Predictions of a trained network. Imports no scikit-learn, so that ``cgmcr2 predict`` starts quickly."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgmcr2._arrays import confidence_and_margin
from cgmcr2._device import choose_device
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.model import ClusterMeans, Network, load_cluster_means, load_network, unit_spaces

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

BLOCK_BYTES = 64 << 20  # hidden activations of one block of rows
MAX_MEMBERSHIPS = 1 << 27  # in memory and in a run folder, 512 MB; a million rows in 1,000 clusters have more


class Inference(NamedTuple):
    """Predictions for n rows."""

    labels: Int64  # (n,)
    confidence: Float32  # (n,), calibrated probability of the label
    margin: Float32  # (n,), confidence minus the largest other probability
    probabilities: Float32 | None  # (n, k), calibrated; None above MAX_MEMBERSHIPS
    embedding: Float32  # (n, d), unit rows
    outlier: Float32  # (n,), share of the fitted rows that are nearer to their nearest cluster mean


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained network, and what is needed to predict with it."""

    network: Network
    head: int  # the cluster head in use
    cluster_means: ClusterMeans | None = None  # None while it is trained
    temperature: float = 1.0  # of the calibrated probabilities
    device: str = "auto"

    @classmethod
    def load(cls, folder: Path, *, device: str = "auto") -> TrainedModel:
        """Load the model that ``CgMCR2.save`` wrote."""
        network, config = load_network(folder)
        try:
            saved = msgspec.convert(config, _Saved)
        except msgspec.ValidationError as error:
            raise ValueError(
                f"{folder / 'config.json'} is damaged ({error}); restore the file, or train the model again."
            ) from None
        return cls(
            network,
            saved.head,
            load_cluster_means(folder, network.config.in_dim),
            saved.calibration.temperature,
            device,
        )

    @property
    def n_clusters(self) -> int:
        return self.network.config.n_clusters

    @property
    def n_features(self) -> int:
        return self.network.config.in_dim

    def blocks(self, source: FeatureSource) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield the features, the embedding and the logits of consecutive blocks of rows, in float32."""
        device = choose_device(self.device)
        network = self.network.to(device)
        width = network.config.hidden_dim * (2 + network.config.n_heads)
        block = max(256, BLOCK_BYTES // (4 * width))
        with torch.inference_mode():
            for start in range(0, source.shape[0], block):
                X = torch.from_numpy(read_rows(source, slice(start, start + block))).to(device)
                Z, logits = network.embed(X)
                yield X, Z, logits[self.head]

    def forward(self, source: FeatureSource) -> tuple[Tensor, Tensor]:
        """The embedding (n, d) and the logits (n, k) of all rows, on the CPU."""
        blocks = [(Z.cpu(), logits.cpu()) for _, Z, logits in self.blocks(source)]
        Z, logits = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        return Z, logits

    def calibrate(self, logits: Tensor) -> Float32:
        """Calibrated probabilities (n, k) of logits (n, k)."""
        return (logits / self.temperature).softmax(-1).cpu().numpy()

    def outlier_scores(self, X: Tensor) -> Tensor:
        """(n,) how unusual each row of ``X (n, D)`` is among the fitted rows, 0 to 1."""
        assert self.cluster_means is not None
        return self.cluster_means.outlier_scores(unit_spaces(X, self.network.config.spaces))

    def infer(self, source: FeatureSource, *, max_memberships: int = MAX_MEMBERSHIPS) -> Inference:
        """Labels, probabilities, embedding and outlier scores in one pass; the rows must be finite (not checked).

        More than ``max_memberships`` probabilities are not returned, only the confidence and margin of each row.
        """
        n, k = source.shape[0], self.n_clusters
        labels, (confidence, margin, outlier) = np.empty(n, np.int64), np.empty((3, n), np.float32)
        probabilities = np.empty((n, k), np.float32) if n * k <= max_memberships else None
        embedding = np.empty((n, self.network.config.embedding_dim), np.float32)
        start = 0
        for X, Z, logits in self.blocks(source):
            rows = slice(start, start := start + len(Z))
            block = self.calibrate(logits)
            labels[rows] = logits.argmax(-1).cpu().numpy()
            confidence[rows], margin[rows] = confidence_and_margin(labels[rows], block)
            embedding[rows] = Z.cpu().numpy()
            outlier[rows] = self.outlier_scores(X).cpu().numpy()
            if probabilities is not None:
                probabilities[rows] = block
        return Inference(labels, confidence, margin, probabilities, embedding, outlier)


@dataclasses.dataclass(frozen=True)
class _SavedCalibration:
    temperature: float


@dataclasses.dataclass(frozen=True)
class _Saved:
    """The entries of ``config.json`` that prediction needs."""

    head: int
    calibration: _SavedCalibration
