"""Base class of all baselines: a scikit-learn estimator that is saved without pickle."""

from __future__ import annotations

import json
import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

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
    - ``_predict(X) -> labels`` of new rows, or ``can_predict = False``;
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
    can_predict: ClassVar[bool] = True  # False if the method clusters the training rows only

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
        if not self.can_predict:
            raise ValueError(
                f"{self.name} cannot predict the clusters of new rows; use fit_predict on all rows together."
            )
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
