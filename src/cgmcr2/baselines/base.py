"""What every competitor is: an estimator that clusters features, predicts where it can, and is saved without pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cgmcr2._arrays import unit_rows as unit_rows
from cgmcr2._files import replacing, write_json
from cgmcr2._random import seed_from
from cgmcr2.features.sources import FeatureSource, check_finite, load_feature_file, read_rows

if TYPE_CHECKING:
    from typing_extensions import Self

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
Arrays = dict[str, npt.NDArray[Any]]

FORMAT = 1
NOT_SAVED = ("verbose", "device")  # of this session, not of the model


class Baseline(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """The face that all methods share. A method writes its settings and four small functions:

    - ``_fit(X, seed) -> labels``: ``X (n, D)`` float32, finite, n >= 2 and n >= k; what is learned is stored on self;
    - ``_predict(X) -> labels`` of new rows, or ``can_predict = False``;
    - ``_state() -> arrays`` and ``_restore(arrays)``: what ``_predict`` needs, as named arrays (a number: 0-d).

    Attributes
    ----------
    labels_ : (n,) the cluster of each row that was fitted
    n_features_in_ : int, D
    """

    name: ClassVar[str]  # in the registry and in tables
    reference: ClassVar[str]  # the paper it is from
    can_predict: ClassVar[bool] = True

    n_clusters: Any
    random_state: Any

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster ``X``: an array, memory map, tensor, path of features, or ``FeatureStore``. ``y`` is not used."""
        X = self._read(X, reset=True)
        self._check_n_clusters(len(X))
        self.labels_ = np.asarray(self._fit(X, seed_from(self.random_state)), dtype=np.int64)
        return self

    def predict(self, X: Any) -> Int64:
        """(n,) the cluster of each row, among those that were found in the fit."""
        check_is_fitted(self, "labels_")
        if not self.can_predict:
            raise ValueError(
                f"{self.name} cannot predict rows that it was not fitted on; use fit_predict on the rows wanted."
            )
        return np.asarray(self._predict(self._read(X)), dtype=np.int64)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as safetensors and JSON; ``load`` reads it back. No pickle."""
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
        write_json(Path(folder) / "config.json", config)  # last: a folder with a config is whole

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """The model that ``save`` wrote: it predicts the same, and has the labels of the fit."""
        path = Path(folder) / "config.json"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} is not a saved model: it has no config.json; give what save made.")
        config = json.loads(path.read_text(encoding="utf-8"))
        if config.get("format") != FORMAT or config.get("method") != cls.name:
            raise ValueError(
                f"{folder} holds {config.get('method', 'another model')} in format {config.get('format')}, but "
                f"{cls.name} in format {FORMAT} was asked for; load it with the class and version that wrote it."
            )
        parameters = config["parameters"].items()
        model = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in parameters})
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
        """``X`` as float32 rows in memory, checked."""
        if isinstance(X, (str, os.PathLike)):
            X = load_feature_file(X).features
        if torch.is_tensor(X):
            X = X.detach().cpu().float().numpy()
        if isinstance(X, np.memmap) or (isinstance(X, FeatureSource) and not hasattr(X, "__array__")):
            X = read_rows(X, slice(0, X.shape[0]))  # from disk: a part of each batch would not do for most methods
        checked: Float32 = validate_data(
            self, X, reset=reset, dtype=np.float32, ensure_all_finite=False, ensure_min_samples=2 if reset else 1
        )
        check_finite(checked)
        return checked

    def _check_n_clusters(self, n: int) -> None:
        k = self.n_clusters
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"n_clusters must be a whole number of at least 1, but is {k!r}.")
        if k > n:
            raise ValueError(f"n_clusters is {k}, but there are only n_samples={n} rows; ask for at most {n} clusters.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")
