"""Clustering of images from pixels: a network and its clusters are trained together, with scikit-learn's interface."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from cgmcr2._random import seed_from
from cgmcr2.encoders.preprocessing import Preprocessing

from .method import Method

if TYPE_CHECKING:
    from typing_extensions import Self

    from cgmcr2.encoders.resnet import ResNet18

    from .loop import Images, Pretrained
    from .settings import Settings

PREDICT_IMAGES = 256  # images per prediction batch


class ClusteringMethod(Method):
    """A method that learns clusters. Its option ``n_clusters`` is their number."""

    training_only: ClassVar[frozenset[str]] = frozenset()  # names of tensors that predictions do not need

    def logits(self, features: Tensor) -> Tensor:
        """Cluster logits (n, k) of features (n, D) of the backbone."""
        raise NotImplementedError


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

    n_clusters: int = 10
    _: KW_ONLY
    settings: Mapping[str, Any] | None = None
    random_state: int = 0
    device: str = "auto"
    precision: str = "auto"
    verbose: bool = False
    on_epoch: Callable[[int, ImageClusterer], None] | None = None

    def fit(self, images: Images, y: Any = None) -> Self:
        """Cluster ``images``. ``y`` is ignored."""
        from .loop import check_images

        images = check_square(images)
        if not 1 <= self.n_clusters <= len(images):
            raise ValueError(
                f"n_clusters must be from 1 to the number of images, {len(images)}, not {self.n_clusters}."
            )
        settings = {"size": images.shape[1], **(self.settings or {})}
        check_images(images, settings["size"])
        self.history_: list[dict[str, Any]] = []
        self.seed_ = seed_from(self.random_state)
        self._fit(images, settings, self.seed_)
        self.labels_ = self._fitted_labels(images)
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
        check_is_fitted(self, "labels_")
        images, size = check_square(images), self._settings.size
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
        """All settings of the training, with defaults."""
        from .registry import resolve

        settings, options = resolve(self.name, {**(self.settings or {}), "n_clusters": self.n_clusters})
        return {**dataclasses.asdict(settings), **options}

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

        options = {**(self.settings or {}), "size": self._settings.size, "n_clusters": self.n_clusters}
        network = build(self.name, options, 1, 0, backbone)[0]
        assert isinstance(network, ClusteringMethod)
        return network

    def _state(self) -> dict[str, npt.NDArray[Any]]:
        """What predictions need besides the network, as named arrays."""
        return {}

    def _restore(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Set what ``_state`` returned."""

    def _train(self, model: Method, settings: Settings, images: Images, seed: int) -> Pretrained:
        """Train a stage in place; a stage that clusters becomes ``model_``."""
        from .loop import train_method

        if isinstance(model, ClusteringMethod):
            self.model_, self._settings = model, settings
        trained = train_method(
            model,
            images,
            settings,
            seed=seed,
            device=self.device,
            precision=self.precision,
            progress=self.verbose,
            on_epoch=self._after_epoch if self.on_epoch and isinstance(model, ClusteringMethod) else None,
        )
        self.history_ += trained.history
        if not trained.finished:  # Ctrl-C
            raise KeyboardInterrupt
        return trained

    def _after_epoch(self, epoch: int, backbone: nn.Module) -> None:
        assert self.on_epoch is not None
        self.on_epoch(epoch, self)

    def _labels(self, images: Images) -> npt.NDArray[np.int64]:
        logits = self._map(images, lambda pixels: self.model_.logits(self.model_.backbone(pixels)))
        return np.asarray(logits.argmax(1).numpy(), dtype=np.int64)

    @torch.no_grad()
    def _recalibrate(self, images: Images, seed: int) -> None:
        """Set the statistics of BatchNorm to those of the images as they are, in random order."""
        layers = [layer for layer in self.model_.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # the mean over all batches
        order = np.random.default_rng(seed).permutation(len(images))
        for rows in np.array_split(order, -(-len(order) // PREDICT_IMAGES)):  # of equal size: each has the same weight
            self._map(images[rows], lambda pixels: self.model_.logits(self.model_.backbone(pixels)), training=True)
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum

    @torch.no_grad()
    def _map(self, images: Images, function: Callable[[Tensor], Tensor], *, training: bool = False) -> Tensor:
        """Apply ``function`` of the network, by default in evaluation mode, to batches of images; result on the CPU."""
        from .loop import default_augmentation

        augmentation = default_augmentation(self._settings)
        size = self._settings.size
        preprocessing = Preprocessing(size, size, mean=augmentation.mean, std=augmentation.std)
        device = next(self.model_.parameters()).device
        was_training = self.model_.training
        self.model_.train(training)
        chunks = [
            function(preprocessing.normalize(images[i : i + PREDICT_IMAGES], device).permute(0, 3, 1, 2)).float().cpu()
            for i in range(0, len(images), PREDICT_IMAGES)
        ]
        self.model_.train(was_training)
        return torch.cat(chunks)


def check_square(images: Any) -> Images:
    """``images`` if they are uint8 and square."""
    array: Images = np.asarray(images)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[1] != array.shape[2] or array.shape[3] != 3:
        raise ValueError(
            f"images must be uint8 of shape (n, size, size, 3), but are {array.dtype} of shape {array.shape}."
        )
    return array
