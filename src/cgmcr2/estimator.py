"""The scikit-learn estimator: ``CgMCR2(n_clusters=10).fit_predict(X)``."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from cgmcr2._arrays import plain
from cgmcr2._random import seed_from
from cgmcr2.consensus.choose_k import Choice, ChoiceRequest, choose_k, read_choice, write_choice
from cgmcr2.consensus.stability import Calibration
from cgmcr2.consensus.views import Views
from cgmcr2.description import describe
from cgmcr2.distributed import Group, process_group
from cgmcr2.features.duplicates import distinct_rows
from cgmcr2.features.sources import (
    FeatureSource,
    SideBySide,
    Subset,
    check_finite,
    load_feature_file,
    space_widths,
)
from cgmcr2.inference import Inference, TrainedModel
from cgmcr2.model import load_cluster_means, load_network, save_cluster_means, save_network
from cgmcr2.model.levels import FILE_NAME as LEVELS_FILE
from cgmcr2.model.levels import read_levels, write_levels
from cgmcr2.objectives import cluster_coding_rate, coding_rate
from cgmcr2.training import Settings, check_rows, paper_settings, resolve, train
from cgmcr2.training.checkpoint import remove_checkpoints

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]

MAX_SPECTRAL_NEIGHBOURS = 250  # neighbours in the graph of spectral_labels


class CgMCR2(TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster features and embed them so that the clusters are orthogonal subspaces.

    Minimises ``-R(Z) + Rc(Z, Pi) + Lncut(Pi; A)`` over a small network that maps features ``X (n, D)`` to an embedding
    ``Z (n, d)`` and memberships ``Pi (n, k)``: expand the embedding, compress each cluster, and find the clusters by a
    normalized cut of a neighbour graph (He et al., ACCV 2024).

    Parameters
    ----------
    n_clusters : int or "auto", default=10
        Number of clusters, at most the number of rows. "auto" chooses it from the data.
    preset : {"auto", "paper", "reference"}, default="auto"
        Preset of the training settings. ``auto`` derives them from the size of the data; it trains on a sample of at
        most 20,000 rows (or 100 per cluster) and starts from a consensus of k-means partitions, see
        ``ConsensusClustering``. ``paper`` is the published algorithm with the paper's settings,
        ``reference`` reproduces the authors' released code.
    random_state : int, RandomState or None, default=0
        Random seed. Results are reproducible on the same machine.
    settings : mapping, default=None
        Training settings that replace the preset's, such as ``{"gamma": 5, "hidden_dim": 512}``. See
        ``cgmcr2.training.Settings`` for all of them.
    device : {"auto", "cpu", "cuda", "mps", ...}, default="auto"
        Device to run on.
    precision : {"auto", "float32", "bfloat16"}, default="auto"
        Type of the network's matrix products in training. "auto" is bfloat16 on CUDA devices that support it, and on
        CPUs that do if the hidden layers have at least 4096 units; otherwise float32. Rates, cuts and predictions are
        always computed in float32.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    labels_ : (n,) cluster of each training row
    n_clusters_ : int, the number of clusters used
    choice_ : cgmcr2.consensus.Choice, how the number of clusters was chosen; None if it was given
    levels_ : cgmcr2.model.levels.Levels, the tree of coarser and finer clusters; None if the number was given or is 1
    calibration_ : cgmcr2.consensus.Calibration, stability of the clusters and temperature of ``predict_proba``
    cluster_means_ : cgmcr2.model.ClusterMeans, mean features of the clusters, for ``outlier_scores``
    history_ : list of dict, per step: stage, epoch, learning rate, loss and its terms, live clusters, balance, seconds
    settings_ : cgmcr2.training.Settings, every setting used
    network_ : cgmcr2.model.Network
    head_ : int, the cluster head used for prediction
    n_features_in_ : int
    seed_ : int, the random seed used
    finished_ : bool, whether training completed; False after Ctrl-C

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
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        precision: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.preset = preset
        self.random_state = random_state
        self.settings = settings
        self.device = device
        self.precision = precision
        self.verbose = verbose

    @classmethod
    def for_dataset(cls, name: str, *, settings: Mapping[str, Any] | None = None, **parameters: Any) -> CgMCR2:
        """An estimator with the paper's settings for one of the paper's nine data sets.

        >>> CgMCR2.for_dataset("cifar100").settings["gamma"]
        1400
        """
        k, table = paper_settings(name)
        return cls(**{"n_clusters": k, "preset": "paper", "settings": {**table, **(settings or {})}, **parameters})

    def fit(
        self, X: Any, y: Any = None, *, folder: str | os.PathLike[str] | None = None, tensorboard: bool = False
    ) -> CgMCR2:
        """Train on ``X``: an array, memory map, tensor, ``FeatureStore``, or path of a feature file or store.

        A list of these is the features of the same rows in several spaces, such as those of two encoders. Predictions
        then need the same list of spaces.

        With a ``folder``, checkpoints and ``metrics.jsonl`` are written there, and an interrupted training is resumed.
        ``y`` is ignored.

        In a script started by ``torchrun``, the processes train together; each must be given all rows.
        """
        source = self._validate(X, reset=True)
        with process_group() as group:
            views = self._train(source, folder, tensorboard, group)
            labels = group.on_first(lambda: self._labels(source))
            self._describe(source, np.arange(source.shape[0]), group, views, labels=labels)
            self._set_labels(labels)
            if folder is not None and self.finished_ and group.rank == 0:
                remove_checkpoints(Path(folder))
        return self

    def fit_source(
        self,
        source: FeatureSource,
        *,
        groups: Int64 | None = None,
        memberships: Float32 | None = None,
        folder: str | os.PathLike[str] | None = None,
        tensorboard: bool = False,
    ) -> Inference:
        """Train on ``source`` and return the predictions for all its rows; the rows must be finite (not checked).

        ``groups (n,)`` holds the first row of each row's group of near-duplicates, see ``cgmcr2.features.duplicates``.
        Each group then counts once: k is chosen, the network trained and the confidence calibrated on its first row.
        The presets of published results train on all rows. Groups are ignored if there are fewer than 4, or fewer than
        clusters.

        ``memberships (n, k)``, if they are known, guide the training instead of the consensus partition, and their mean
        maximum is the mean confidence after calibration.

        Ctrl-C raises ``KeyboardInterrupt`` after a checkpoint has been written to ``folder``.

        If ``torchrun`` started several processes, they train together, and only the first returns predictions: the
        arrays of the others are empty.
        """
        n = source.shape[0]
        self.n_features_in_ = source.shape[1]
        k = self._checked_n_clusters(n)
        distinct = np.arange(n) if groups is None else distinct_rows(groups, 1 if k == "auto" else int(k))
        with process_group() as group:
            partition = None if memberships is None else memberships.argmax(axis=1)
            views = self._train(source, folder, tensorboard, group, distinct, partition)
            if not self.finished_:
                raise KeyboardInterrupt
            confidence = None if memberships is None else float(memberships.max(axis=1).mean())
            self._describe(source, distinct, group, views, confidence=confidence)
            with group.all_threads():
                inference = self.infer(source if group.rank == 0 else Subset(source, np.arange(0)))
            self._set_labels(group.on_first(lambda: inference.labels))
        return inference

    def infer(self, source: FeatureSource) -> Inference:
        """Labels, probabilities, embedding and outlier scores in one pass; the rows must be finite (not checked)."""
        return self._model.infer(source)

    def resolve_settings(self, n: int, D: int) -> Settings:
        """Every setting that ``fit`` uses for n rows of D features; k = 10 is assumed for ``n_clusters="auto"``.

        >>> CgMCR2(10, preset="paper").resolve_settings(50000, 768).batch_size
        512
        """
        k = self._checked_n_clusters(n)
        return resolve(self.preset, n, min(10, n) if k == "auto" else int(k), D, self.settings)  # type: ignore[arg-type]

    def predict(self, X: Any, *, level: int | None = None) -> Int64:
        """(n,) the cluster of each row: the largest membership, without Gumbel noise.

        After ``n_clusters="auto"``, ``level`` asks for coarser or finer clusters: the tree ``levels_``, cut at so many.
        """
        source = self._validate(X)
        if level is None:
            return self._labels(source)
        if self.levels_ is None:
            raise ValueError(
                "There are no levels, because n_clusters was given or only one cluster was found; they need "
                'n_clusters="auto" and several clusters.'
            )
        Z, logits = self._model.forward(source)
        return self.levels_.labels(Z.numpy(), logits.argmax(-1).numpy(), level)

    def predict_proba(self, X: Any) -> Float32:
        """(n, k) memberships, calibrated without labels; rows sum to 1."""
        model = self._model
        return np.concatenate([model.calibrate(logits) for _, _, logits in model.blocks(self._validate(X))])

    def transform(self, X: Any) -> Float32:
        """(n, d) the embedding ``Z``, rows of unit length."""
        return np.concatenate([Z.cpu().numpy() for _, Z, _ in self._model.blocks(self._validate(X))])

    def outlier_scores(self, X: Any) -> Float32:
        """(n,) how unusual each row is: the share of fitted rows that are nearer to their nearest cluster mean.

        The means are those of the features. A row of another kind than the fitted ones scores close to 1.
        """
        model, source = self._model, self._validate(X)
        return np.concatenate([model.outlier_scores(block).cpu().numpy() for block, _, _ in model.blocks(source)])

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """(d,) the names of the columns of ``transform``: ``cgmcr2_0``, ``cgmcr2_1``, ..."""
        check_is_fitted(self, "network_")
        return np.array([f"cgmcr2_{i}" for i in range(self.settings_.embedding_dim)], dtype=object)

    def spectral_labels(self, X: Any) -> Int64:
        """CgMCR²-SC: spectral clustering of ``P_s(ZZ')`` for the rows of ``X``, without the cluster head."""
        from cgmcr2.graphs.spectral import spectral_clustering

        Z = self.transform(X)
        if self.n_clusters_ > len(Z):
            raise ValueError(f"{len(Z)} rows cannot be grouped into {self.n_clusters_} clusters; give more rows.")
        if self.n_clusters_ == 1:
            return np.zeros(len(Z), dtype=np.int64)
        if self.settings_.graph == "batch":  # scale s from the batch size to n
            s = self.settings_.s * len(Z) / min(self.settings_.batch_size, len(Z))
        else:
            s = len(Z) / (2 * self.n_clusters_)
        s = min(max(round(s), 3), MAX_SPECTRAL_NEIGHBOURS)
        return spectral_clustering(Z, self.n_clusters_, s, seed=self.seed_)

    def score(self, X: Any, y: Any = None) -> float:
        """The rate reduction ``R(Z) - Rc(Z, labels)`` of ``X`` in nats, label-free; higher is better separated."""
        Z, logits = self._model.forward(self._validate(X))
        Pi = torch.nn.functional.one_hot(logits.argmax(-1), self.n_clusters_).float()
        eps = self.settings_.eps
        return float(coding_rate(Z, eps) - cluster_coding_rate(Z, Pi, eps))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as safetensors and JSON, without pickle; ``CgMCR2.load`` reads it back."""
        check_is_fitted(self, "network_")
        parameters = {name: value for name, value in self.get_params().items() if name not in ("verbose", "device")}
        parameters["random_state"] = self.seed_
        extra = {
            "parameters": plain(parameters),
            "settings": dataclasses.asdict(self.settings_),
            "head": self.head_,
            "finished": self.finished_,
            "calibration": dataclasses.asdict(self.calibration_),
            "choice": dataclasses.asdict(self.choice_) if self.choice_ else None,
            "labels": self.labels_.tolist(),
        }
        (Path(folder) / LEVELS_FILE).unlink(missing_ok=True)  # of a model that this one replaces
        if self.levels_ is not None:
            write_levels(Path(folder), self.levels_)
        save_cluster_means(Path(folder), self.cluster_means_)
        save_network(self.network_, Path(folder), extra)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, device: str = "auto") -> CgMCR2:
        """Load a model that ``save`` wrote. Predictions are identical; ``history_`` is not saved."""
        network, config = load_network(Path(folder))
        try:
            saved = msgspec.convert(config, _SavedModel)
            model = cls(**saved.parameters, device=device)
        except (msgspec.ValidationError, TypeError) as error:
            raise ValueError(
                f"{Path(folder) / 'config.json'} is damaged ({error}); restore the file, or train the model again."
            ) from None
        model.network_, model.settings_, model.head_ = network, saved.settings, saved.head
        model.finished_, model.calibration_, model.choice_ = saved.finished, saved.calibration, saved.choice
        model.labels_, model.seed_ = np.array(saved.labels, dtype=np.int64), seed_from(model.random_state)
        model.cluster_means_ = load_cluster_means(Path(folder), network.config.in_dim)
        model.levels_ = read_levels(Path(folder)) if (Path(folder) / LEVELS_FILE).is_file() else None
        model.n_clusters_ = network.config.n_clusters
        model.n_features_in_ = network.config.in_dim
        return model

    def _train(
        self,
        source: FeatureSource,
        folder: str | os.PathLike[str] | None,
        tensorboard: bool,
        group: Group,
        distinct: Int64 | None = None,
        partition: Int64 | None = None,
    ) -> Views | None:
        """Choose k if asked to, resolve the settings and train the network, on the ``distinct`` rows if given.

        Return the views of the features that were used, if any.
        """
        n_clusters = self._checked_n_clusters(source.shape[0])
        self.seed_ = group.on_first(lambda: seed_from(self.random_state))
        run_folder = Path(folder) if folder is not None else None
        rows = source if distinct is None or len(distinct) == source.shape[0] else Subset(source, distinct)
        self.choice_ = group.on_first(lambda: self._choose_k(rows, run_folder)) if n_clusters == "auto" else None
        source = rows if self.preset == "auto" else source
        if partition is not None and distinct is not None and source.shape[0] < len(partition):
            partition = partition[distinct]
        n, D = source.shape[0], source.shape[1]
        self.n_clusters_ = self.choice_.chosen if self.choice_ else int(n_clusters)
        self.settings_ = resolve(self.preset, n, self.n_clusters_, D, self.settings)  # type: ignore[arg-type]
        trained = train(
            source,
            self.n_clusters_,
            self.settings_,
            partition=partition,
            seed=self.seed_,
            device=self.device,
            precision=self.precision,
            folder=run_folder,
            progress=self.verbose,
            tensorboard=tensorboard,
            group=group,
        )
        self.network_, self.head_, self.history_ = trained.network, trained.head, trained.history
        self.finished_ = trained.finished
        return trained.views

    def _choose_k(self, source: FeatureSource, folder: Path | None) -> Choice:
        """Choose k, or reuse the choice that an earlier call for the same data left in ``folder``."""
        if folder is None:
            return choose_k(source, seed=self.seed_, progress=self.verbose)
        request = ChoiceRequest(check_finite(source), self.seed_)
        choice = read_choice(folder, request)
        if choice is None:
            choice = choose_k(source, seed=self.seed_, progress=self.verbose)
            write_choice(folder, choice, request)
        return choice

    def _describe(
        self,
        source: FeatureSource,
        rows: Int64,
        group: Group,
        views: Views | None,
        *,
        labels: Int64 | None = None,
        confidence: float | None = None,
    ) -> None:
        """Set the calibration, the cluster means and the levels of the trained network."""
        self.calibration_, self.cluster_means_, self.levels_ = group.on_first(
            lambda: describe(
                self._model,
                source,
                rows,
                self.seed_,
                guided=self.settings_.consensus_weight > 0,
                choice=self.choice_,
                views=views,
                labels=labels,
                confidence=confidence,
            )
        )

    def _set_labels(self, labels: Int64) -> None:
        """Set the labels, and warn about a collapse."""
        self.labels_ = labels
        used = len(np.unique(labels))
        if 2 * used < self.n_clusters_:
            warnings.warn(
                f"Only {used} of {self.n_clusters_} clusters are non-empty: they have collapsed, or the data has fewer "
                "groups; ask for fewer clusters, raise gamma, or train longer.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _validate(self, X: Any, reset: bool = False) -> FeatureSource:
        """``X`` as a source of finite rows. Sources on disk are not loaded but checked in blocks."""
        if not reset:
            check_is_fitted(self, "network_")
        X = SideBySide([_checked_array(_as_source(part)) for part in X]) if _is_list_of_spaces(X) else _as_source(X)
        if not reset and len(self._spaces) > 1 and space_widths(X) not in (self._spaces, (sum(self._spaces),)):
            raise ValueError(
                f"The features have the widths {_listed(space_widths(X))}, but CgMCR2 was fitted on feature spaces of "
                f"widths {_listed(self._spaces)}; give one array for each of them, in this order."
            )
        if not isinstance(X, np.memmap) and (
            hasattr(X, "__array__") or issparse(X) or not isinstance(X, FeatureSource)
        ):
            kind = getattr(getattr(X, "dtype", None), "kind", "f")
            first = np.float32 if kind in "biu" else np.float64  # what types other than floats are converted to
            checked: FeatureSource = validate_data(
                self, X, reset=reset, dtype=[first, np.float16, np.float32, np.float64]
            )
            if reset:
                check_rows(checked.shape[0])
            return checked
        if len(X.shape) != 2 or X.shape[0] < 1:
            raise ValueError(
                f"Expected features of shape (n_samples, n_features), n_samples >= 1, but got shape {tuple(X.shape)}."
            )
        if reset:
            check_rows(X.shape[0])
            self.n_features_in_ = X.shape[1]
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but CgMCR2 was fitted on {self.n_features_in_}; use the same encoder."
            )
        check_finite(X)
        source: FeatureSource = X
        return source

    @property
    def _spaces(self) -> tuple[int, ...]:
        """The widths of the feature spaces that the model was fitted on."""
        return self.network_.config.spaces or (self.n_features_in_,)

    def _checked_n_clusters(self, n: int) -> int | str:
        k = self.n_clusters
        if isinstance(k, str) and k == "auto":
            return k
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"n_clusters must be an integer of at least 1, or 'auto', but is {k!r}.")
        if k > n:
            raise ValueError(f"n_clusters is {k}, but there are only n_samples={n} rows; ask for at most {n} clusters.")
        return k

    def _labels(self, source: FeatureSource) -> Int64:
        return np.concatenate([logits.argmax(-1).cpu().numpy() for _, _, logits in self._model.blocks(source)])

    @property
    def _model(self) -> TrainedModel:
        check_is_fitted(self, "network_")
        temperature = self.calibration_.temperature if hasattr(self, "calibration_") else 1.0
        return TrainedModel(self.network_, self.head_, getattr(self, "cluster_means_", None), temperature, self.device)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]  # the network's output
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")


@dataclasses.dataclass(frozen=True)
class _SavedModel:
    """The entries of ``config.json`` that ``CgMCR2`` adds to the network's."""

    parameters: dict[str, Any]
    settings: Settings
    head: int
    finished: bool
    calibration: Calibration
    choice: Choice | None
    labels: list[int]


def _is_list_of_spaces(X: Any) -> bool:
    """Whether ``X`` is a list of feature files, stores or matrices rather than a list of rows."""
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all(isinstance(part, (str, os.PathLike)) or len(getattr(part, "shape", ())) == 2 for part in X)
    )


def _as_source(X: Any) -> Any:
    """``X`` with paths opened and tensors converted to arrays."""
    if isinstance(X, (str, os.PathLike)):
        X = load_feature_file(X).features
    if torch.is_tensor(X):
        X = X.detach().cpu().to_dense()
        X = (X.float() if X.is_floating_point() and X.dtype != torch.float64 else X).numpy()
    if getattr(getattr(X, "dtype", None), "kind", "f") == "c":
        raise ValueError("Complex data not supported; give real features, such as the absolute values.")
    return X


def _checked_array(X: Any) -> Any:
    """``X`` as an array of finite numbers; sources on disk are returned as they are."""
    on_disk = isinstance(X, np.memmap) or not (hasattr(X, "__array__") or issparse(X))
    return X if on_disk else check_array(X, dtype=[np.float32, np.float16, np.float64])


def _listed(widths: tuple[int, ...]) -> str:
    return " and ".join(map(str, widths))
