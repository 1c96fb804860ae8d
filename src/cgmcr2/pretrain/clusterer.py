"""Clustering of images from pixels: a network and its clusters are trained together, with scikit-learn's interface."""

from __future__ import annotations

import dataclasses
import numbers
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import xxhash
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from cgmcr2._arrays import plain
from cgmcr2._random import seed_from

from .features import map_images
from .images import Images, check_images, check_number
from .method import Method, check_positive
from .registry import convert, resolve, unknown_setting
from .settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self

    from cgmcr2.encoders.resnet import ResNet18

    from .loop import Pretrained

NOT_OF_THE_MODEL = ("device", "verbose", "on_epoch", "folder")  # parameters that do not affect the trained model


class ClusteringMethod(Method):
    """A method that learns clusters. Its option ``n_clusters`` is their number."""

    training_only: ClassVar[frozenset[str]] = frozenset()  # names of tensors that predictions do not need
    cluster_head: nn.Module

    def logits(self, features: Tensor) -> Tensor:
        """Cluster logits (n, k) of features (n, D) of the backbone; by default, those of ``cluster_head``."""
        logits: Tensor = self.cluster_head(features)
        return logits

    def forward(self, pixels: Tensor) -> Tensor:
        """Cluster logits (n, k) of normalised images (n, 3, h, w)."""
        return self.logits(super().forward(pixels))


class HeadMethod(ClusteringMethod):
    """A method whose cluster logits are those of a ``head``."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__(backbone)
        self.head = head

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features)
        return logits


@dataclass(eq=False, repr=False)
class ImageClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of estimators that cluster images, uint8 of shape (n, size, size, 3), from their pixels.

    By default, ``fit`` trains the method ``name`` of the registry. Methods in several stages override ``_fit``.

    Parameters
    ----------
    n_clusters : int
        Number of clusters k.
    settings : mapping, optional
        Settings of the training and options of the method that differ from its defaults, such as ``{"epochs": 50,
        "width": 16}``; see ``resolve``.
    random_state : int
        Random seed.
    device : str
        As for ``CgMCR2``.
    precision : {"auto", "float32", "bfloat16"}
        Type of the network's products in training; "auto" uses bfloat16 where the device has it, CPUs included.
    verbose : bool
        Show progress bars.
    on_epoch : callable, optional
        Called as ``on_epoch(epoch, estimator)`` after each epoch; ``estimator.predict`` then uses the current network.
    folder : str, optional
        Where to keep checkpoints until ``fit`` has finished; an interrupted fit is resumed when it is repeated.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each training image.
    model_ : ClusteringMethod
        The trained network.
    history_ : list of dict
        Metrics of each step.
    """

    name: ClassVar[str]  # in the registry, and in tables
    reference: ClassVar[str]
    may_be_zero: ClassVar[frozenset[str]] = frozenset()  # parameters; all other numbers must be above 0
    fractions: ClassVar[frozenset[str]] = frozenset()  # parameters that must be at most 1

    n_clusters: int = 10
    _: KW_ONLY
    settings: Mapping[str, Any] | None = None
    random_state: int = 0
    device: str = "auto"
    precision: str = "auto"
    verbose: bool = False
    on_epoch: Callable[[int, ImageClusterer], None] | None = None
    folder: str | os.PathLike[str] | None = None

    def fit(self, images: Images, y: Any = None) -> Self:
        """Cluster ``images``. ``y`` is ignored."""
        images = check_images(images)
        self._check()
        if not 1 <= self.n_clusters <= len(images):
            raise ValueError(
                f"n_clusters must be from 1 to the number of images, {len(images)}, not {self.n_clusters}."
            )
        settings = {"size": images.shape[1], **(self.settings or {})}
        check_images(images, settings["size"])
        check_number(images)
        self.history_: list[dict[str, Any]] = []
        self.seed_ = seed_from(self.random_state)
        self._stage_folders: list[Path] = []
        self._fit(images, settings, self.seed_)
        self.labels_ = self._fitted_labels(images)
        for folder in self._stage_folders:
            shutil.rmtree(folder)
        used = len(np.unique(self.labels_))
        if 2 * used < self.n_clusters:
            warnings.warn(
                f"Only {used} of {self.n_clusters} clusters of {self.name} are non-empty: they have collapsed; train "
                "longer, or with a lower learning rate.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, images: Images) -> npt.NDArray[np.int64]:
        """Return the cluster (n,) of each image."""
        check_is_fitted(self, "model_")
        images, size = check_images(images), self._settings.size
        if images.shape[1] != size:
            raise ValueError(
                f"The network was trained on images of {size} pixels, but these have {images.shape[1]}; resize them."
            )
        return self._labels(images) if len(images) else np.empty(0, dtype=np.int64)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as safetensors and JSON, without pickle; ``load`` reads it back."""
        from .weights import save_clusterer

        check_is_fitted(self, "labels_")
        save_clusterer(self, Path(folder))

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, device: str = "auto") -> Self:
        """Load a model that ``save`` wrote; ``ImageClusterer.load`` reads those of all methods.

        Predictions are identical; ``history_`` is not saved.
        """
        from .weights import load_clusterer

        model = load_clusterer(Path(folder), device)
        if not isinstance(model, cls):
            kind = type(model).__name__
            raise ValueError(f"{folder} holds a model of {kind}, not of {cls.__name__}; load it with {kind}.load.")
        return model

    def training_settings(self) -> dict[str, Any]:
        """All settings of the training, with defaults; the size of the images is known after ``fit``."""
        self._check()
        settings, options = resolve(self.name, {**self._given_settings(), "n_clusters": self.n_clusters})
        return {**dataclasses.asdict(settings), **options}

    @classmethod
    def setting_names(cls) -> list[str]:
        """The names of the ``settings``."""
        return [*(field.name for field in dataclasses.fields(Settings)), *resolve(cls.name)[1]]

    def _check(self) -> None:
        """Raise ``ValueError`` if a parameter or the name of a setting is invalid."""
        names = self.setting_names()
        for name in self.settings or {}:
            if name not in names:
                raise unknown_setting(name, self.name, [*names, *self.get_params()])
        for field in dataclasses.fields(self):
            default, value = field.default, getattr(self, field.name)
            if isinstance(default, bool) or not isinstance(default, (int, float)) or field.name == "random_state":
                continue
            convert(field.name, value, default)
            if isinstance(default, int) and not isinstance(value, numbers.Integral):
                raise ValueError(f"{field.name} must be an integer, but is {value!r}.")
            check_positive(field.name, value, may_be_zero=field.name in self.may_be_zero)
            if field.name in self.fractions and value > 1:
                raise ValueError(f"{field.name} must be at most 1, but is {value!r}.")

    def _given_settings(self) -> dict[str, Any]:
        """The ``settings`` and, after ``fit``, the size of the images."""
        size = {"size": self._settings.size} if hasattr(self, "_settings") else {}
        return {**size, **(self.settings or {})}

    def _fit(self, images: Images, settings: dict[str, Any], seed: int) -> None:
        """Set ``model_`` to a trained network."""
        from .loop import build

        self._train(*build(self.name, {**settings, "n_clusters": self.n_clusters}, len(images), seed), images, seed)

    def _fitted_labels(self, images: Images) -> npt.NDArray[np.int64]:
        """The cluster (n,) of each training image."""
        return self._labels(images)

    def _untrained(self, backbone: ResNet18) -> ClusteringMethod:
        """A network like ``model_`` around ``backbone``, whose weights are to be loaded."""
        from .loop import build

        options = {**self._given_settings(), "n_clusters": self.n_clusters}
        network = build(self.name, options, 1, 0, backbone)[0]
        assert isinstance(network, ClusteringMethod)
        return network

    def _state(self) -> dict[str, npt.NDArray[Any]]:
        """What predictions need besides the network, as named arrays."""
        return {}

    def _restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Set what ``_state`` returned."""

    def _train(
        self, model: Method, settings: Settings, images: Images, seed: int, description: str = "Training"
    ) -> Pretrained:
        """Train the next stage in place; a stage that clusters becomes ``model_``."""
        from .loop import train_method

        folder = None
        if self.folder is not None:
            folder = Path(self.folder) / f"stage-{len(self._stage_folders)}"
            folder.mkdir(parents=True, exist_ok=True)
            self._stage_folders.append(folder)
        if isinstance(model, ClusteringMethod):
            self.model_, self._settings = model, settings
        trained = train_method(
            model,
            images,
            settings,
            identity=None if folder is None else self._identity(settings, images),
            seed=seed,
            device=self.device,
            precision=self.precision,
            folder=folder,
            progress=self.verbose,
            on_epoch=self._after_epoch if isinstance(model, ClusteringMethod) else None,
            description=description,
        )
        self.history_ += trained.history
        if not trained.finished:  # Ctrl-C
            raise KeyboardInterrupt
        return trained

    def _parameters(self) -> dict[str, Any]:
        """The parameters that affect the model, as values of JSON."""
        parameters = {name: value for name, value in self.get_params().items() if name not in NOT_OF_THE_MODEL}
        return {**plain(parameters), "random_state": self.seed_}

    def _identity(self, settings: Settings, images: Images) -> dict[str, Any]:
        """What the checkpoints of a stage depend on."""
        parameters = self._parameters()
        given = parameters.pop("settings") or {}
        return {
            "settings": {"method": self.name, **parameters, **given, **dataclasses.asdict(settings)},
            "data": xxhash.xxh3_128(np.ascontiguousarray(images).data).hexdigest(),
        }

    def _after_epoch(self, epoch: int) -> None:
        if self.on_epoch is not None:
            self.on_epoch(epoch, self)

    def _labels(self, images: Images) -> npt.NDArray[np.int64]:
        logits = map_images(self.model_, images, self._settings)
        return np.asarray(logits.argmax(1).numpy(), dtype=np.int64)
