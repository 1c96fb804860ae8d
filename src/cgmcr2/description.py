"""What is derived from a trained network, without labels: calibration, mean features of the clusters, and levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2.consensus.choose_k import Choice
from cgmcr2.consensus.levels import DEFAULT as LEVELS
from cgmcr2.consensus.levels import build_levels
from cgmcr2.consensus.stability import Calibration, calibrate, stability_rows, temperature_for
from cgmcr2.consensus.views import Views
from cgmcr2.features.sources import FeatureSource, read_rows
from cgmcr2.inference import TrainedModel
from cgmcr2.model import ClusterMeans, Network, unit_spaces
from cgmcr2.model.levels import Levels

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

MEANS_ROWS = 20_000  # sample size of the mean features of the clusters, or 100 per cluster if that is more


class Description(NamedTuple):
    """What is derived from a trained network."""

    calibration: Calibration
    cluster_means: ClusterMeans
    levels: Levels | None  # None if the number of clusters was given


def describe(
    model: TrainedModel,
    source: FeatureSource,
    rows: Int64,
    seed: int,
    *,
    guided: bool,
    choice: Choice | None,
    views: Views | None,
    labels: Int64 | None = None,
    confidence: float | None = None,
) -> Description:
    """Describe a trained model from samples of the ``rows`` of ``source (n, D)``.

    Args:
        model: the trained model, not calibrated yet.
        source: features (n, D).
        rows: the rows to sample from.
        seed: random seed.
        guided: whether the consensus partition guided the training.
        choice: how the number of clusters was chosen, if it was.
        views: the views of the training, if it had any.
        labels: the clusters (n,), if they are known.
        confidence: the mean confidence after calibration, if it is known.
    """
    return Description(
        _calibrate(model, source, rows, seed, guided, views, confidence),
        _cluster_means(model, source, rows, seed, labels),
        _levels(model, source, rows, seed, choice) if choice is not None else None,
    )


def _calibrate(
    model: TrainedModel,
    source: FeatureSource,
    rows: Int64,
    seed: int,
    guided: bool,
    views: Views | None,
    confidence: float | None,
) -> Calibration:
    """Calibrate the mean confidence of a sample to ``confidence``, or else as ``calibrate`` does."""
    k = model.n_clusters
    X = read_rows(source, rows[stability_rows(len(rows), k, seed)])
    logits = model.forward(X)[1]
    if confidence is not None:
        return Calibration(temperature_for(logits, confidence), confidence)
    X = _projected_columns(model.network, X) if views is None else X
    return calibrate(X, logits, k, seed, guided=guided, views=views)


def _cluster_means(
    model: TrainedModel, source: FeatureSource, rows: Int64, seed: int, labels: Int64 | None
) -> ClusterMeans:
    """The mean features of the clusters, from a sample; 0 in a space that the network does not read."""
    k = model.n_clusters
    rows = rows[sample_rows(len(rows), max(MEANS_ROWS, 100 * k), generator(seed, Stream.CLUSTER_MEANS))]
    X = read_rows(source, rows)
    clusters = model.forward(X)[1].argmax(-1) if labels is None else torch.from_numpy(labels[rows])
    U = unit_spaces(torch.from_numpy(X), model.network.config.spaces) * _read_columns(model.network)
    return ClusterMeans.of(U, clusters, k)


def _levels(model: TrainedModel, source: FeatureSource, rows: Int64, seed: int, choice: Choice) -> Levels | None:
    """The tree of coarser and finer clusters, from a sample."""
    X = read_rows(source, rows[sample_rows(len(rows), LEVELS.rows, generator(seed, Stream.LEVELS))])
    Z, logits = model.forward(X)
    return build_levels(
        _projected_columns(model.network, X),
        Z.numpy(),
        logits.argmax(-1).numpy(),
        model.n_clusters,
        stable=(choice.chosen, *choice.runners_up),
        seed=seed,
    )


def _projected_columns(network: Network, X: Float32) -> Float32:
    """The columns of ``X (n, D)`` that the network reads, of unit rows if there are several feature spaces."""
    spaces = network.config.spaces
    return unit_spaces(torch.from_numpy(X), spaces)[:, _read_columns(network)].numpy() if len(spaces) > 1 else X


def _read_columns(network: Network) -> Tensor:
    """(D,) whether the network reads a column: of several feature spaces, it may read one only."""
    if len(network.config.spaces) < 2 or network.linear_path is None:
        return torch.ones(network.config.in_dim, dtype=torch.bool)
    return network.input_map.cpu().any(1)
