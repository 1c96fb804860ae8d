"""Learn from the clusters that a person has given some rows.

The answers spread over the neighbour graph of the features, starting from the memberships of the trained network. A
linear classifier of the features, trained towards the result, has different errors, so the mean of both is better than
either. Finally, the cluster head of the network continues training towards the mean, to label new rows. The embedding
stays as it is, so outlier scores, maps and similarities keep their meaning.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from cgmcr2._random import Stream, generator, sample_rows
from cgmcr2.consensus.ensemble import neighbourhood
from cgmcr2.consensus.views import COMPONENTS, Views, neighbour_walk, space_views, unit_views
from cgmcr2.features.sources import FeatureSource, Subset, read_rows, row_blocks, space_widths
from cgmcr2.model import Network

Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]

UNUSED_LOGIT = -1e4  # bias of clusters that no row may be assigned to


@dataclasses.dataclass(frozen=True)
class RefinementConfig:
    """Constants of the refinement, chosen on digits, Imagenette, Pets, DTD and CIFAR-20."""

    alpha: float = 0.9  # weight of the neighbours; the rest is the row's prior
    iterations: int = 30  # of the propagation; 0.9^30 is below 5 %
    trust: float = 5.0  # number of answers that weigh as much as the fit in what a cluster stands for
    answer_weight: float = 5.0  # weight of an answer in training, relative to a row of margin 1
    max_rows: int = 20_000  # rows that are trained on, besides the answers
    penalty: float = 1e-4  # of the squared weights of the classifier
    iterations_classifier: int = 30  # of L-BFGS
    steps: int = 150  # of Adam, for the cluster head
    batch_size: int = 512
    lr: float = 3e-3  # of Adam; decays to 0


DEFAULT = RefinementConfig()


@dataclasses.dataclass(frozen=True)
class Constraints:
    """What is known about n rows in k clusters."""

    labels: Int64  # (n,) the cluster of each row that someone has placed; -1 for others
    rejected: tuple[Int64, Int64]  # rows and, for each, a cluster that it does not belong to
    excluded: Int64  # rows that belong to no cluster
    unused: Int64  # clusters without rows: merged ones, and that of excluded rows
    reviewed: Int64 | None = None  # answers that tell how often a cluster is right; default: all answers

    @property
    def answers(self) -> Int64:
        """The rows that someone has placed."""
        return np.flatnonzero(self.labels >= 0)

    def impose(self, P: Float32) -> Float32:
        """Make ``P (n, k)`` satisfy the constraints, in place; rows sum to 1, or are 0 if no cluster remains."""
        P[:, self.unused] = 0
        P[self.rejected] = 0
        P[self.answers] = 0
        P[self.answers, self.labels[self.answers]] = 1
        P[self.excluded] = 0
        P /= np.maximum(P.sum(axis=1, keepdims=True), 1e-12)
        return P


@dataclasses.dataclass(frozen=True)
class FeatureGraph:
    """Features (n, D), their linear views, and a random walk over the neighbours in these views."""

    source: FeatureSource
    views: list[Views]  # of each feature space
    walk: sp.csr_array  # (n, n), row-stochastic

    @classmethod
    def of(cls, source: FeatureSource, k: int, seed: int = 0) -> FeatureGraph:
        """The graph for k clusters."""
        views = space_views(source, COMPONENTS, seed, space_widths(source))
        return cls(source, views, neighbour_walk(source, views, neighbourhood(source.shape[0], k), seed))

    def read(self, rows: slice | Int64) -> Tensor:
        """The views of some rows, side by side."""
        return torch.cat(unit_views(self.views, torch.from_numpy(read_rows(self.source, rows))), dim=1)


def refine_memberships(
    memberships: Float32,
    graph: FeatureGraph,
    constraints: Constraints,
    *,
    seed: int = 0,
    config: RefinementConfig = DEFAULT,
) -> Float32:
    """(n, k) memberships after learning from ``constraints``: the mean of propagation and classification."""
    P = propagate(memberships, graph.walk, constraints, config)
    if not len(constraints.answers):
        return P
    P = (P + classify(P, graph, constraints, seed=seed, config=config)) / np.float32(2)
    return constraints.impose(P)


def propagate(
    memberships: Float32, walk: sp.csr_array, constraints: Constraints, config: RefinementConfig = DEFAULT
) -> Float32:
    """(n, k) memberships after spreading the answers of ``constraints`` over the neighbours.

    Label spreading (Zhou et al., 2004) with a prior: repeats ``P = alpha walk P + (1 - alpha) Q`` with the answers held
    fixed, where ``Q`` is ``memberships (n, k)`` after correcting each cluster by the reviewed answers to its rows: if a
    cluster was often wrong, its memberships move to the clusters that were right.
    """
    reviewed = constraints.answers if constraints.reviewed is None else constraints.reviewed
    correction = config.trust * np.eye(memberships.shape[1], dtype=np.float32)  # (k, k), from fitted to answered
    np.add.at(correction, (memberships[reviewed].argmax(1), constraints.labels[reviewed]), 1)
    correction /= correction.sum(axis=1, keepdims=True)
    Q = constraints.impose(memberships @ correction)
    P = Q
    for _ in range(config.iterations):
        P = constraints.impose(config.alpha * (walk @ P) + (1 - config.alpha) * Q)
    return P


def classify(
    targets: Float32, graph: FeatureGraph, constraints: Constraints, *, seed: int, config: RefinementConfig = DEFAULT
) -> Float32:
    """(n, k) probabilities of a softmax regression of the features that is trained towards ``targets (n, k)``."""
    rows, weights = _training_rows(targets, constraints, seed, config)
    X, Y = graph.read(rows), torch.from_numpy(targets[rows])
    W = torch.zeros(X.shape[1], Y.shape[1], requires_grad=True)
    b = torch.zeros(Y.shape[1], requires_grad=True)
    optimizer = torch.optim.LBFGS([W, b], max_iter=config.iterations_classifier, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = weights @ F.cross_entropy(X @ W + b, Y, reduction="none") + config.penalty * W.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return torch.cat([(graph.read(rows) @ W + b).softmax(1) for rows in row_blocks(len(targets))]).numpy()


def _training_rows(
    targets: Float32, constraints: Constraints, seed: int, config: RefinementConfig
) -> tuple[Int64, Tensor]:
    """The rows to train on, all answers and a sample of the others, and their weights, which sum to 1.

    A row weighs as much as the margin between its two largest ``targets (n, k)``, an answer ``config.answer_weight``.
    """
    answers = constraints.answers
    others = np.setdiff1d(np.arange(len(targets)), answers)
    sample = sample_rows(len(others), config.max_rows, generator(seed, Stream.TRAINING_ROWS))
    rows = np.concatenate([answers, others[sample]])
    weights = _margins(targets[rows])
    weights[: len(answers)] = config.answer_weight
    return rows, torch.from_numpy(weights / max(weights.sum(), 1e-12))


def _margins(P: Float32) -> Float32:
    """(n,) difference of the two largest entries of each row of ``P (n, k)``."""
    largest = np.partition(np.pad(P, ((0, 0), (0, 1))), -2, axis=1)[:, -2:]  # a second entry, even if k is 1
    return np.asarray(largest[:, 1] - largest[:, 0])


def review_order(memberships: Float32, walk: sp.csr_array, settled: Int64, count: int) -> Int64:
    """The ``count`` rows to ask about, most useful first; ``settled`` rows are not asked about.

    A row is useful if its two best clusters are close and if that is also true of the rows that would follow it: those
    within two steps of the lazy ``walk``. After each choice, the rows that would follow it count less, so
    near-duplicates are asked about once.
    """
    doubt = (1 - _margins(memberships)) ** 2  # squared, so that many small doubts do not outweigh a large one
    doubt[settled] = 0
    steps, backward = (sp.csr_array((sp.eye_array(len(doubt)) + W) / 2) for W in (walk, walk.T))
    rows: list[int] = []
    available = np.ones(len(doubt), np.bool_)
    available[settled] = False
    for _ in range(min(count, int(available.sum()))):
        usefulness = doubt * (backward @ (backward @ doubt))
        row = int(np.where(available, usefulness, -1).argmax())
        reach = steps @ (steps @ np.eye(1, len(doubt), row, dtype=np.float32)[0])  # how much each row follows it
        doubt = doubt * (1 - np.minimum(reach / reach[row], 1))
        available[row] = False
        rows.append(row)
    return np.array(rows, np.int64)


def train_head(
    network: Network,
    head: int,
    source: FeatureSource,
    targets: Float32,
    constraints: Constraints,
    *,
    seed: int = 0,
    config: RefinementConfig = DEFAULT,
) -> Network:
    """A copy of ``network`` with a cluster head ``head`` that is trained towards ``targets (n, k)``.

    Only the cluster head is trained, so the embedding is unchanged.
    """
    rows, weights = _training_rows(targets, constraints, seed, config)
    refined = _with_clusters(network, targets.shape[1])
    device = refined.pre_feature.weight.device
    T, Y, weights = (
        _trunk(refined, Subset(source, rows)),
        torch.from_numpy(targets[rows]).to(device),
        weights.to(device),
    )
    rng = generator(seed, Stream.TRAINING_ROWS)
    parameters = _head_parameters(refined, head)
    weights_and_biases = [tensor.clone().requires_grad_() for tensor in parameters]
    layers = list(zip(weights_and_biases[::2], weights_and_biases[1::2], strict=True))
    optimizer = torch.optim.Adam(weights_and_biases, lr=config.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.steps)
    for _ in range(config.steps):
        batch = torch.from_numpy(rng.choice(len(rows), min(config.batch_size, len(rows)), replace=False)).to(device)
        H = T[batch]
        for weight, bias in layers[:-1]:
            H = F.relu(F.linear(H, weight, bias))
        losses = F.cross_entropy(F.linear(H, *layers[-1]), Y[batch], reduction="none")
        optimizer.zero_grad()
        (weights[batch] @ losses / weights[batch].sum().clamp_min(1e-12)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        for parameter, trained in zip(parameters, weights_and_biases, strict=True):
            parameter.copy_(trained)
        refined.cluster_out.bias[head, 0, torch.from_numpy(constraints.unused).to(device)] = UNUSED_LOGIT
    return refined


def _head_parameters(network: Network, head: int) -> list[Tensor]:
    """Weight and bias of each layer of a cluster head in turn, as views of the network's parameters."""
    part, width = 1 + head, network.config.hidden_dim  # part 0 is the feature head
    first, out, block = network.first_hidden, network.cluster_out, slice(part * width, (part + 1) * width)
    hidden = [
        tensor
        for layer in network.hidden
        for tensor in (layer.get_parameter("weight")[part], layer.get_parameter("bias")[part, 0])
    ]
    tensors = [first.weight[block], first.bias[block], *hidden, out.weight[head], out.bias[head, 0]]
    return [tensor.detach() for tensor in tensors]


@torch.no_grad()
def _trunk(network: Network, source: FeatureSource) -> Tensor:
    """(n, h) input of the heads, from the layers that are not trained."""
    device = network.pre_feature.weight.device
    inputs: list[Tensor] = []
    for rows in row_blocks(source.shape[0]):
        X = torch.from_numpy(read_rows(source, rows)).to(device)
        inputs.append(F.relu(network.batch_norm(network.pre_feature(network.project(X)))))
    return torch.cat(inputs)


@torch.no_grad()
def _with_clusters(network: Network, k: int) -> Network:
    """A copy of ``network`` with k clusters; the logits of additional ones start at the lowest bias."""
    state = dict(network.state_dict())
    weight, bias = state["cluster_out.weight"], state["cluster_out.bias"]  # (h, k, width), (h, 1, k)
    missing = k - weight.shape[1]
    state["cluster_out.weight"] = F.pad(weight, (0, 0, 0, missing))
    state["cluster_out.bias"] = F.pad(bias, (0, missing), value=float(bias.min()))
    refined = Network(dataclasses.replace(network.config, n_clusters=k)).to(weight.device)
    refined.load_state_dict(state)
    return refined.eval()
