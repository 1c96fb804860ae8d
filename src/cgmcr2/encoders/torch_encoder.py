"""Base class of the encoders: preprocessing, device, and encoding in chunks of equal shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from cgmcr2._device import choose_device
from cgmcr2._threads import map_threads
from cgmcr2.encoders.preprocessing import Preprocessing

CPU_CHUNK = 8  # images per forward pass on a CPU; more would not be faster but need more memory


class TorchEncoder:
    """Encoder with square input images.

    Subclasses set ``name``, ``dim``, ``fingerprint`` and ``_network``, and define ``_features``.

    Attributes
    ----------
    image_size : int
        Shorter side in pixels to which images are resized.
    batch_size : int
        Recommended number of images per call of :meth:`encode`.
    """

    name: str
    dim: int
    fingerprint: str
    _network: nn.Module

    def __init__(self, preprocessing: Preprocessing, device: str = "auto") -> None:
        self._preprocessing = preprocessing
        self._device = choose_device(device)
        on_cpu = self._device.type == "cpu"
        self._chunk = CPU_CHUNK if on_cpu else None
        self.batch_size = max(32, 2 * CPU_CHUNK * torch.get_num_threads()) if on_cpu else 256  # two chunks per thread
        self.image_size = preprocessing.resize

    def preprocess(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """Resize and crop an RGB image to uint8 of shape (size, size, 3)."""
        return self._preprocessing(image)

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the features (n, dim) of preprocessed images (n, size, size, 3)."""
        return encode_in_chunks(self._forward, batch, self._input_shape, self.dim, self.name, self._chunk)

    @property
    def _input_shape(self) -> tuple[int, ...]:
        return self._preprocessing.shape

    def export_module(self) -> EncoderModule | None:
        """Return a module from uint8 images (n, size, size, 3) to features (n, dim), or None if it cannot be exported.

        >>> from cgmcr2.encoders import load_encoder
        >>> module = load_encoder("bundled", size=32, device="cpu").export_module()
        >>> module(torch.zeros(1, 32, 32, 3, dtype=torch.uint8)).shape
        torch.Size([1, 1280])
        """
        return EncoderModule(self._preprocessing, self._network, self._features).to(self._device).eval()

    def _forward(self, batch: npt.NDArray[Any]) -> Tensor:
        """Return the features (n, dim) of one chunk."""
        return self._features(self._preprocessing.normalize(batch, self._device))

    def _features(self, pixels: Tensor) -> Tensor:
        """Return the features (n, dim) of normalised images (n, size, size, 3)."""
        raise NotImplementedError


class EncoderModule(nn.Module):
    """Normalisation and network of an encoder; ``features`` is a function that calls ``network``."""

    mean: Tensor
    std: Tensor

    def __init__(self, preprocessing: Preprocessing, network: nn.Module, features: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self.network = network  # registers its weights
        self.features = features
        self.register_buffer("mean", torch.tensor(preprocessing.mean) * preprocessing.scale)
        self.register_buffer("std", torch.tensor(preprocessing.std) * preprocessing.scale)

    def forward(self, images: Tensor) -> Tensor:
        return self.features((images.float() - self.mean) / self.std)


def encode_in_chunks(
    forward: Callable[[npt.NDArray[Any]], Tensor],
    batch: npt.NDArray[Any],
    shape: tuple[int, ...],
    dim: int,
    name: str,
    chunk: int | None,
) -> npt.NDArray[np.float32]:
    """Apply ``forward`` to ``chunk`` images of ``batch`` (n, *shape) at a time, or to all if None; return (n, dim).

    The last chunk is padded with zeros to the same shape, and each chunk is computed by one thread. So the features of
    an image are bit for bit the same in every batch and with any number of threads.

    >>> means = lambda images: torch.from_numpy(images).float().mean(1, keepdim=True)
    >>> encode_in_chunks(means, np.array([[1, 2], [3, 4], [5, 6]]), (2,), 1, "mean", chunk=2).ravel().tolist()
    [1.5, 3.5, 5.5]
    >>> encode_in_chunks(means, np.zeros((2, 8)), (2,), 1, "mean", chunk=2)
    Traceback (most recent call last):
        ...
    ValueError: The encoder mean takes stacked outputs of its preprocess(), shape (n, 2), but got (2, 8).
    """
    if batch.ndim != len(shape) + 1 or batch.shape[1:] != shape:
        expected = ", ".join(map(str, ("n", *shape)))
        raise ValueError(
            f"The encoder {name} takes stacked outputs of its preprocess(), shape ({expected}), but got {batch.shape}."
        )
    features = np.empty((len(batch), dim), dtype=np.float32)
    size = chunk or max(1, len(batch))

    def encode(start: int) -> None:
        part = batch[start : start + size]
        count = len(part)
        if count < size:
            part = np.concatenate([part, np.zeros((size - count, *shape), part.dtype)])
        features[start : start + count] = forward(part)[:count].float().cpu().numpy()

    with torch.inference_mode():
        for _ in map_threads(encode, range(0, len(batch), size), one_thread_per_item=True):
            pass
    return features
