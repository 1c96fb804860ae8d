"""Base class of all baselines: a scikit-learn estimator that is saved without pickle."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cgmcr2._arrays import unit_rows
from cgmcr2._files import replacing, write_json
from cgmcr2._random import seed_from
from cgmcr2.features.sources import FeatureSource, check_finite, load_feature_file, read_rows

if TYPE_CHECKING:
    from typing_extensions import Self

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]

FORMAT = 1
NOT_SAVED = ("verbose", "device")  # these parameters do not affect the model


@dataclass(eq=False, repr=False)
class Baseline(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of all baselines.

    Subclasses are dataclasses, ``@dataclass(kw_only=True, eq=False, repr=False)``, whose fields are the method's
    parameters; the generated ``__init__`` stores them unchanged, as scikit-learn requires. Subclasses implement

    - ``_fit(X, seed) -> labels`` for ``X (n, D)``, float32 and finite, with n >= 2 and n >= k;
    - ``_predict(X) -> labels`` of new rows;
    - ``_state() -> arrays`` and ``_restore(arrays)``: everything that ``_predict`` needs, as named arrays.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    random_state : int
        Random seed.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each training row.
    n_features_in_ : int
        Width D of the features.
    """

    name: ClassVar[str]  # key in METHODS, and the name shown in tables
    reference: ClassVar[str]  # the paper that proposed the method
    requires: ClassVar[str] = ""  # module of an optional dependency, from the extra "compare"

    n_clusters: int = 10
    _: KW_ONLY
    random_state: int = 0
    verbose: bool = False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster ``X``: an array, memory map, tensor, feature file, or ``FeatureStore``. ``y`` is ignored."""
        X = self._read(X, reset=True)
        self._check_n_clusters(len(X))
        self.labels_ = np.asarray(self._fit(X, seed_from(self.random_state)), dtype=np.int64)
        return self

    def predict(self, X: Any) -> Int64:
        """Return the cluster (n,) of each row of ``X``."""
        check_is_fitted(self, "labels_")
        return np.asarray(self._predict(self._read(X)), dtype=np.int64)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model to ``folder`` as safetensors and JSON."""
        check_is_fitted(self, "labels_")
        arrays = {name: np.asarray(array, order="C") for name, array in self._state().items()}
        parameters = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params().items()
            if name not in NOT_SAVED and not isinstance(value, np.ndarray)
        }
        config = {"format": FORMAT, "method": self.name, "width": self.n_features_in_, "parameters": parameters}
        with replacing(Path(folder) / "model.safetensors") as temporary:
            save_file({"labels_": self.labels_, **arrays}, temporary)
        write_json(Path(folder) / "config.json", config)  # written last: its presence marks a complete model

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Load a model written by ``save``."""
        path = Path(folder) / "config.json"
        if not path.is_file():
            raise FileNotFoundError(
                f"{folder} is not a saved model: it has no config.json; pass the folder that save() wrote."
            )
        config = json.loads(path.read_text(encoding="utf-8"))
        if config.get("format") != FORMAT or config.get("method") != cls.name:
            raise ValueError(
                f"{folder} contains a {config.get('method', 'different')} model in format {config.get('format')}, but "
                f"{cls.name} reads {cls.name} models in format {FORMAT}; load it with the class that wrote it."
            )
        parameters = config["parameters"].items()
        model = cls()
        model.set_params(**{name: tuple(value) if isinstance(value, list) else value for name, value in parameters})
        arrays = load_file(Path(folder) / "model.safetensors")
        model.labels_, model.n_features_in_ = arrays.pop("labels_"), config["width"]
        model._restore(arrays)
        return model

    def _fit(self, X: Float32, seed: int) -> Int64:
        raise NotImplementedError

    def _predict(self, X: Float32) -> Int64:
        raise NotImplementedError

    def _state(self) -> Arrays:
        return {}

    def _restore(self, arrays: Arrays) -> None:
        pass

    def _read(self, X: Any, reset: bool = False) -> Float32:
        """Load ``X`` into memory as float32 and check it."""
        if isinstance(X, (str, os.PathLike)):
            X = load_feature_file(X).features
        if torch.is_tensor(X):
            X = X.detach().cpu().float().numpy()
        if isinstance(X, np.memmap) or (isinstance(X, FeatureSource) and not hasattr(X, "__array__")):
            X = read_rows(X, slice(0, X.shape[0]))  # most methods need all rows at once
        checked: Float32 = validate_data(
            self, X, reset=reset, dtype=np.float32, ensure_all_finite=False, ensure_min_samples=2 if reset else 1
        )
        check_finite(checked)
        return checked

    def _check_n_clusters(self, n: int) -> None:
        k = self.n_clusters
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"n_clusters must be an integer of at least 1, but is {k!r}.")
        if k > n:
            raise ValueError(f"n_clusters is {k}, but there are only n_samples={n} rows; use at most {n} clusters.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")


@dataclass(kw_only=True, eq=False, repr=False)
class UnitCentroids(Baseline):
    """Base class of methods that assign rows to the centroid of largest cosine similarity, ``cluster_centers_``."""

    def _predict(self, X: Float32) -> Int64:
        return np.asarray((unit_rows(X) @ self.cluster_centers_.T).argmax(axis=1))

    def _state(self) -> Arrays:
        return {"cluster_centers_": self.cluster_centers_}

    def _restore(self, arrays: Arrays) -> None:
        self.cluster_centers_ = arrays["cluster_centers_"]


@dataclass(kw_only=True, eq=False, repr=False)
class CentroidBaseline(UnitCentroids):
    """Base class of methods that label the training rows only. Subclasses implement

    - ``_fit_rows(U, seed) -> labels`` for unit rows ``U (n, D)``; -1 marks noise.

    Noise and new rows are assigned to the centroid of largest cosine similarity, so that every row has a cluster.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (number of clusters found, D)
        Means of the unit rows of each cluster, without noise, scaled to unit length.
    noise_ : float
        Fraction of the training rows that the method left without a cluster.
    """

    def _fit_rows(self, U: Float32, seed: int) -> Int64:
        raise NotImplementedError

    def _fit(self, X: Float32, seed: int) -> Int64:
        U = unit_rows(X)
        labels = np.asarray(self._fit_rows(U, seed), dtype=np.int64)
        noise = labels < 0
        self.noise_ = float(noise.mean())
        if noise.all():
            labels, noise = np.zeros_like(labels), np.zeros_like(noise)
        labels[~noise] = np.unique(labels[~noise], return_inverse=True)[1]
        self.cluster_centers_ = centroids(U[~noise], labels[~noise])
        labels[noise] = self._predict(U[noise])
        return labels


def centroids(U: Float32, labels: Int64) -> Float32:
    """Mean of the rows of ``U (n, D)`` with each label 0 to k - 1, as unit rows (k, D).

    >>> centroids(np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]), np.array([0, 1, 1])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    n, k = len(U), int(labels.max()) + 1
    indicator = sp.csr_array((np.ones(n, dtype=U.dtype), (labels, np.arange(n))), shape=(k, n))
    return unit_rows(indicator @ U)  # (k, n) x (n, D) -> (k, D)


def missing_package(method: type[Baseline]) -> str:
    """Why ``method`` cannot run on this machine, or an empty string if its optional dependency is installed."""
    if not method.requires or importlib.util.find_spec(method.requires):
        return ""
    return f"needs the package {method.requires}; install it with: pip install 'cgmcr2[compare]'"
