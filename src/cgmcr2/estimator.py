"""The scikit-learn face: ``CgMCR2(n_clusters=10).fit_predict(X)``."""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from cgmcr2._device import choose_device
from cgmcr2._random import seed_from
from cgmcr2.consensus import Calibration, Choice, calibrate, choose_k
from cgmcr2.features.sources import FeatureSource, check_finite, load_feature_file, read_rows
from cgmcr2.model import Network, load_network, save_network
from cgmcr2.objectives import cluster_coding_rate, coding_rate
from cgmcr2.training import Settings, paper_settings, resolve, train

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

_SETTINGS = tuple(field.name for field in dataclasses.fields(Settings))
PREDICT_BYTES = 64 << 20  # of hidden activations in one block of rows
MOST_NEIGHBOURS = 250  # in the graph of spectral_labels


class CgMCR2(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster features, and embed them so that the clusters are orthogonal subspaces.

    Minimises ``-R(Z) + Rc(Z, Pi) + Lncut(Pi; A)`` over a small network that maps features ``X (n, D)`` to an embedding
    ``Z (n, d)`` and memberships ``Pi (n, k)``: spread everything, compress each cluster, and find the clusters by a
    normalized cut of the embedding's own neighbour graph (He et al., ACCV 2024).

    Parameters
    ----------
    n_clusters : int or "auto", default=10
        k, at most the number of rows. "auto" looks for it in the data, see ``cgmcr2.training.choose_k``.
    preset : {"auto", "paper", "reference"}, default="auto"
        Where the settings below come from when they are None: ``auto`` chooses them from the data's size, ``paper`` is
        the paper's formulas and table, ``reference`` is what the authors' released code computes.
    random_state : int, default=0
        Same number, same machine: same labels.
    hidden_dim, embedding_dim, depth, n_heads, projection : network; see ``cgmcr2.training.Settings``
    eps, gamma, penalty, affinity, s, membership, temperature, cut_in_finetuning, graph, guide : objective
    cluster_module : {"head", "k-means", "spectral", "ensc"}, default=None ("head")
        What finds the clusters of a batch. All but "head" are the paper's ablation, see docs/settings.md.
    sample, batch_size, neighbours, ema, warmup_epochs, finetune_epochs, lr, weight_decay : optimisation
    device : {"auto", "cpu", "cuda", "mps", ...}, default="auto"
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        Of the network's products in training. Rates and cuts are always computed in float32, predictions too.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    labels_ : (n,) the cluster of each training row
    n_clusters_ : int, k as it was used
    choice_ : cgmcr2.training.Choice, how k was chosen; None where it was given
    calibration_ : cgmcr2.training.Calibration, how far the clusters are borne out by partitions made in other ways,
        and the temperature of ``predict_proba`` that follows from it
    history_ : list of dict, the terms, live clusters and learning rate of every step
    settings_ : cgmcr2.training.Settings, every setting as it was used
    network_ : cgmcr2.model.Network
    head_ : int, the cluster head in use
    n_features_in_ : int
    finished_ : bool, False where Ctrl-C ended the training early

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(300, n_features=16, centers=3, random_state=0)
    >>> model = CgMCR2(n_clusters=3).fit(X)
    >>> model.labels_.shape, model.transform(X).shape
    ((300,), (300, 16))
    """

    def __init__(
        self,
        n_clusters: int | str = 10,
        *,
        preset: str = "auto",
        random_state: int = 0,
        hidden_dim: int | None = None,
        embedding_dim: int | None = None,
        depth: int | None = None,
        n_heads: int | None = None,
        projection: int | None = None,
        eps: float | None = None,
        gamma: float | None = None,
        penalty: str | None = None,
        affinity: str | None = None,
        s: int | None = None,
        membership: str | None = None,
        temperature: float | None = None,
        cluster_module: str | None = None,
        cut_in_finetuning: bool | None = None,
        graph: str | None = None,
        guide: float | None = None,
        sample: int | None = None,
        batch_size: int | None = None,
        neighbours: int | None = None,
        ema: float | None = None,
        warmup_epochs: float | None = None,
        finetune_epochs: float | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        device: str = "auto",
        precision: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.preset = preset
        self.random_state = random_state
        self.hidden_dim = hidden_dim
        self.embedding_dim = embedding_dim
        self.depth = depth
        self.n_heads = n_heads
        self.projection = projection
        self.eps = eps
        self.gamma = gamma
        self.penalty = penalty
        self.affinity = affinity
        self.s = s
        self.membership = membership
        self.temperature = temperature
        self.cluster_module = cluster_module
        self.cut_in_finetuning = cut_in_finetuning
        self.graph = graph
        self.guide = guide
        self.sample = sample
        self.batch_size = batch_size
        self.neighbours = neighbours
        self.ema = ema
        self.warmup_epochs = warmup_epochs
        self.finetune_epochs = finetune_epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.device = device
        self.precision = precision
        self.verbose = verbose

    @classmethod
    def for_dataset(cls, name: str, **parameters: Any) -> CgMCR2:
        """The paper's settings for one of its nine data sets.

        >>> CgMCR2.for_dataset("cifar100").gamma
        1400
        """
        k, settings = paper_settings(name)
        return cls(**{"n_clusters": k, "preset": "paper", **settings, **parameters})

    def fit(
        self, X: Any, y: Any = None, *, folder: str | os.PathLike[str] | None = None, tensorboard: bool = False
    ) -> CgMCR2:
        """Train on ``X``: an array, memory map, tensor, path of a feature file or store, or ``FeatureStore``.

        With a ``folder``, checkpoints and ``metrics.jsonl`` are kept there, and a training that was cut short goes on.
        ``y`` is not used.
        """
        source = self._validate(X, reset=True)
        n, D = source.shape[0], source.shape[1]
        self._check_n_clusters(n)
        seed = seed_from(self.random_state)
        self.choice_ = choose_k(source, seed=seed, progress=self.verbose) if self.n_clusters == "auto" else None
        self.n_clusters_ = self.choice_.chosen if self.choice_ else int(self.n_clusters)
        self.settings_ = self._settings(n, D, self.n_clusters_)
        trained = train(
            source,
            self.n_clusters_,
            self.settings_,
            seed=seed,
            device=self.device,
            precision=self.precision,
            folder=Path(folder) if folder is not None else None,
            progress=self.verbose,
            tensorboard=tensorboard,
        )
        self.network_, self.head_, self.history_ = trained.network, trained.head, trained.history
        self.finished_ = trained.finished
        self._n_features_out = self.settings_.embedding_dim
        self.labels_ = self._predict(source)
        self.calibration_ = calibrate(source, self._logits, self.n_clusters_, seed)
        used = len(np.unique(self.labels_))
        if 2 * used < self.n_clusters_:
            warnings.warn(
                f"Only {used} of {self.n_clusters_} clusters hold any row: they have collapsed, or the rows have fewer "
                "groups; ask for fewer clusters, raise gamma, or train longer.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def plan(self, n: int, D: int) -> Settings:
        """Every setting that ``fit`` would use for n rows of width D; with ``n_clusters="auto"`` as if it chose 10.

        >>> CgMCR2(10, preset="paper").plan(50000, 768).batch_size
        512
        """
        self._check_n_clusters(n)
        return self._settings(n, D, min(10, n) if self.n_clusters == "auto" else int(self.n_clusters))

    def _settings(self, n: int, D: int, k: int) -> Settings:
        given = {name: getattr(self, name) for name in _SETTINGS if hasattr(self, name)}
        return resolve(self.preset, n, k, D, given)  # type: ignore[arg-type]

    def predict(self, X: Any) -> Int64:
        """(n,) the cluster of each row: the largest membership, without noise."""
        return self._predict(self._validate(X))

    def predict_proba(self, X: Any) -> Float32:
        """(n, k) memberships; rows sum to 1. Calibrated without labels, see docs/trust.md."""
        source = self._validate(X)
        T = self.calibration_.temperature
        return np.concatenate([(logits / T).softmax(-1).cpu().numpy() for _, logits in self._blocks(source)])

    def transform(self, X: Any) -> Float32:
        """(n, d) the embedding ``Z``, rows of unit length."""
        return np.concatenate([Z.cpu().numpy() for Z, _ in self._blocks(self._validate(X))])

    def spectral_labels(self, X: Any) -> Int64:
        """CgMCR²-SC: spectral clustering of ``P_s(ZZ')`` in place of the cluster head; it groups ``X`` itself."""
        from cgmcr2.graphs.spectral import spectral_clustering

        Z = self.transform(X)
        if self.n_clusters_ > len(Z):
            raise ValueError(f"{len(Z)} rows cannot be grouped into {self.n_clusters_} clusters; give more rows.")
        if self.settings_.graph == "batch":  # as many neighbours for a cluster of its size here as in the batches
            s = self.settings_.s * len(Z) / min(self.settings_.batch_size, len(Z))
        else:
            s = len(Z) / (2 * self.n_clusters_)
        s = min(max(round(s), 3), MOST_NEIGHBOURS)
        return spectral_clustering(Z, self.n_clusters_, s, seed=seed_from(self.random_state))

    def score(self, X: Any, y: Any = None) -> float:
        """The rate reduction ``R(Z) - Rc(Z, labels)`` of ``X`` in nats, label-free; higher is better separated."""
        source = self._validate(X)
        Z = torch.from_numpy(np.concatenate([Z.cpu().numpy() for Z, _ in self._blocks(source)]))
        Pi = torch.nn.functional.one_hot(torch.from_numpy(self._predict(source)), self.n_clusters_).float()
        return float(coding_rate(Z, self.settings_.eps) - cluster_coding_rate(Z, Pi, self.settings_.eps))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as safetensors and JSON; ``CgMCR2.load`` reads it back. No pickle."""
        check_is_fitted(self, "network_")
        parameters = {name: value for name, value in self.get_params().items() if name not in ("verbose", "device")}
        extra = {
            "parameters": {
                name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()
            },
            "settings": dataclasses.asdict(self.settings_),
            "head": self.head_,
            "finished": self.finished_,
            "calibration": dataclasses.asdict(self.calibration_),
            "choice": dataclasses.asdict(self.choice_) if self.choice_ else None,
        }
        save_network(self.network_, Path(folder), extra)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> CgMCR2:
        """The model that ``save`` wrote. It predicts the same; ``labels_`` and ``history_`` of the fit are not kept."""
        network, config = load_network(Path(folder))
        model = cls(**config["parameters"])
        model.network_, model.settings_ = network, Settings(**config["settings"])
        model.head_, model.finished_ = config["head"], config["finished"]
        model.calibration_ = Calibration(**config.get("calibration", {}))
        choice = config.get("choice")
        model.choice_ = Choice.from_dict(choice) if choice else None
        model.n_clusters_ = network.config.n_clusters
        model.n_features_in_, model._n_features_out = network.config.in_dim, network.config.embedding_dim
        return model

    def _validate(self, X: Any, reset: bool = False) -> FeatureSource:
        """``X`` as a source of float rows. What is on disk stays there, and is checked a block at a time."""
        if not reset:
            check_is_fitted(self, "network_")
        if isinstance(X, (str, os.PathLike)):
            X = load_feature_file(X).features
        if torch.is_tensor(X):
            X = X.detach().cpu().float().numpy()
        if not isinstance(X, np.memmap) and (
            hasattr(X, "__array__") or issparse(X) or not isinstance(X, FeatureSource)
        ):
            checked: FeatureSource = validate_data(
                self, X, reset=reset, dtype=[np.float32, np.float16, np.float64], ensure_min_samples=2 if reset else 1
            )
            return checked
        if len(X.shape) != 2 or X.shape[0] < 1:
            raise ValueError(
                f"The features have shape {tuple(X.shape)}; (rows, width) with at least one row is needed."
            )
        if reset:
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but CgMCR2 was fitted on {self.n_features_in_}; use the same encoder."
            )
        check_finite(X)
        source: FeatureSource = X
        return source

    def _check_n_clusters(self, n: int) -> None:
        k = self.n_clusters
        if isinstance(k, str) and k == "auto":
            return
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"n_clusters must be a whole number of at least 1, or 'auto', but is {k!r}.")
        if k > n:
            raise ValueError(f"n_clusters is {k}, but there are only n_samples={n} rows; ask for at most {n} clusters.")

    def _predict(self, source: FeatureSource) -> Int64:
        return np.concatenate([logits.argmax(-1).cpu().numpy() for _, logits in self._blocks(source)])

    def _logits(self, X: Float32) -> torch.Tensor:
        return torch.cat([logits.cpu() for _, logits in self._blocks(X)])

    def _blocks(self, source: FeatureSource) -> Any:
        """Yield (Z, logits of the head in use) for consecutive blocks of rows, in float32."""
        where = choose_device(self.device)
        network: Network = self.network_.to(where)
        width = network.config.hidden_dim * (2 + network.config.n_heads)
        block = max(256, PREDICT_BYTES // (4 * width))
        with torch.inference_mode():
            for start in range(0, source.shape[0], block):
                X = torch.from_numpy(read_rows(source, slice(start, start + block))).to(where)
                Z, logits = network.embed(X)
                yield Z, logits[self.head_]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's own type
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")
