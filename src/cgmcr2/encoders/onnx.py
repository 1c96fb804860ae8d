"""Image encoders exported to ONNX."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cgmcr2.encoders.fingerprint import fingerprint_of
from cgmcr2.encoders.hub import first_line
from cgmcr2.encoders.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from cgmcr2.encoders.torch_encoder import CPU_CHUNK, TorchEncoder

_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_DATA_SUFFIXES = (".data", "_data")  # files with weights that are too large for the model file


class OnnxEncoder(TorchEncoder):
    """ONNX model with one float input of shape (n, 3, h, w).

    Images are resized (shorter side, bicubic), cropped, scaled to 0...1 and normalised.

    Parameters
    ----------
    file : str or Path
        The ONNX file.
    size : int, optional
        Side of the input in pixels; default: the fixed size of the model, otherwise 224.
    mean, std : tuple of 3 floats
        Mean and standard deviation of the channels; default: those of ImageNet.
    output : str, optional
        Name of the output; default: the first one of shape (n, D).
    """

    def __init__(
        self,
        file: str | Path,
        *,
        size: int | None = None,
        mean: tuple[float, float, float] = IMAGENET_MEAN,
        std: tuple[float, float, float] = IMAGENET_STD,
        output: str | None = None,
    ) -> None:
        path = Path(file)
        self._session = _session(path)
        self._input, fixed_size, self._dtype, fixed_batch = _read_input(self._session, path)
        if size is not None and fixed_size is not None and size != fixed_size:
            raise ValueError(f"The model {path} takes images of {fixed_size} pixels, got size={size}.")
        side = fixed_size or size or 224
        super().__init__(Preprocessing(side, side, mean=tuple(mean), std=tuple(std)), device="cpu")
        self._chunk = fixed_batch or CPU_CHUNK
        self._output = _select_output(self._session, path, output)
        blank = np.zeros((self._chunk, *self._input_shape), np.uint8)
        self.dim = int(self._forward(blank).shape[1])
        self.name = f"onnx:{path.resolve()}" + _options(size, fixed_size, mean, std, output)
        self.fingerprint = fingerprint_of(
            network="onnx",
            weights=_file_digest(path),
            output=self._output,
            preprocessing=self._preprocessing.as_dict(),
        )

    def export_module(self) -> None:
        """Return None: the encoder is not a torch module."""

    def _forward(self, batch: npt.NDArray[Any]) -> torch.Tensor:
        pixels = self._preprocessing.normalize(batch, self._device).permute(0, 3, 1, 2).contiguous()
        features = self._session.run([self._output], {self._input: pixels.numpy().astype(self._dtype, copy=False)})[0]
        return torch.from_numpy(features).flatten(1)


def _session(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"There is no model {path}: give the path of an ONNX file after onnx:.")
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("ONNX encoders need onnxruntime: pip install 'cgmcr2[onnx]'.") from error
    available = onnxruntime.get_available_providers()
    providers = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]
    try:
        return onnxruntime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # the errors of onnxruntime have no common base class
        raise ValueError(f"The file {path} cannot be loaded by onnxruntime ({first_line(error)[:160]}).") from error


def _read_input(session: Any, path: Path) -> tuple[str, int | None, Any, int | None]:
    """Return name, fixed side, dtype and fixed batch size of the image input; None where not fixed."""
    inputs = session.get_inputs()
    actual = ", ".join(f"{item.name} {item.type} {item.shape}" for item in inputs)
    message = f"The model {path} must have one float input of shape (n, 3, h, w) with h = w, but has {actual}."
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _FLOATS:
        raise ValueError(message)
    batch, channels, height, width = (side if isinstance(side, int) else None for side in inputs[0].shape)
    if channels not in (3, None) or height != width:
        raise ValueError(message)
    return inputs[0].name, height, _FLOATS[inputs[0].type], batch


def _select_output(session: Any, path: Path, output: str | None) -> str:
    """Return the name of the requested output, or of the first of shape (n, D) or (n, D, 1, 1)."""
    outputs = session.get_outputs()
    for item in outputs:
        if item.name == output if output is not None else len(item.shape) == 2 or item.shape[2:] == [1, 1]:
            return str(item.name)
    actual = ", ".join(f"{item.name} {item.shape}" for item in outputs)
    expected = f"an output named {output!r}" if output is not None else "an output of shape (n, D)"
    raise ValueError(f"The model {path} must have {expected}, but has {actual}.")


def _options(size: int | None, fixed_size: int | None, mean: Any, std: Any, output: str | None) -> str:
    options = {
        "size": size if fixed_size is None else None,
        "mean": None if tuple(mean) == IMAGENET_MEAN else ",".join(map(str, mean)),
        "std": None if tuple(std) == IMAGENET_STD else ",".join(map(str, std)),
        "output": output,
    }
    texts = [f"{key}={value}" for key, value in options.items() if value is not None]
    return "?" + "&".join(texts) if texts else ""


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    for part in (path, *(path.with_name(path.name + suffix) for suffix in _DATA_SUFFIXES)):
        if part.is_file():
            with part.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()
