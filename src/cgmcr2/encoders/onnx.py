"""Any image encoder that was exported to ONNX: one image input, one feature vector out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from cgmcr2.encoders.common import encode_in_chunks, fingerprint_of
from cgmcr2.encoders.hub import first_line
from cgmcr2.encoders.pixels import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

_CHUNK = 8
_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_DATA_SUFFIXES = (".data", "_data")  # where exporters put weights that do not fit into the file itself


class OnnxEncoder:
    """An ONNX file with one input (n, 3, h, w) of floats; its features are the first output of shape (n, D).

    ``size`` is read from the model where it is fixed, 224 otherwise. Images are resized (shorter side, bicubic),
    cropped, scaled to 0...1 and normalised with ``mean`` and ``std``, ImageNet's if not given. ``output`` names another
    output.
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
        self._preprocessing = Preprocessing(side, side, mean=tuple(mean), std=tuple(std))
        self._chunk = fixed_batch or _CHUNK
        self._output = _pick_output(self._session, path, output)
        self.image_size = side
        blank = np.zeros((self._chunk, *self._preprocessing.shape), np.uint8)
        self.dim = int(self._run(blank).shape[1])
        self.name = f"onnx:{path.resolve()}" + _options(size, fixed_size, mean, std, output)
        self.fingerprint = fingerprint_of(
            network="onnx",
            weights=_file_digest(path),
            output=self._output,
            preprocessing=self._preprocessing.as_dict(),
        )

    def preprocess(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """RGB image -> uint8 (size, size, 3)."""
        return self._preprocessing(image)

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """uint8 (n, size, size, 3) -> float32 (n, dim)."""
        return encode_in_chunks(self._run, batch, self._preprocessing.shape, self.dim, self.name, self._chunk)

    def _run(self, batch: npt.NDArray[Any]) -> torch.Tensor:
        pixels = self._preprocessing.normalize(batch, torch.device("cpu")).permute(0, 3, 1, 2).contiguous()
        features = self._session.run([self._output], {self._input: pixels.numpy().astype(self._dtype, copy=False)})[0]
        return torch.from_numpy(features).flatten(1)


def _session(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"There is no model {path}: give onnx: and the path of an ONNX file.")
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("ONNX encoders need onnxruntime: pip install 'cgmcr2[onnx]'.") from error
    here = onnxruntime.get_available_providers()
    providers = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in here]
    try:
        return onnxruntime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # onnxruntime's errors have no common class
        raise ValueError(f"The file {path} cannot be loaded by onnxruntime ({first_line(error)[:160]}).") from error


def _read_input(session: Any, path: Path) -> tuple[str, int | None, Any, int | None]:
    """Name, fixed side, dtype and fixed batch size of the one image input."""
    inputs = session.get_inputs()
    found = ", ".join(f"{item.name} {item.type} {item.shape}" for item in inputs)
    needed = f"The model {path} should take one input of floats (n, 3, h, w) with h = w, and takes {found}."
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _FLOATS:
        raise ValueError(needed)
    batch, channels, height, width = (side if isinstance(side, int) else None for side in inputs[0].shape)
    if channels not in (3, None) or height != width:
        raise ValueError(needed)
    return inputs[0].name, height, _FLOATS[inputs[0].type], batch


def _pick_output(session: Any, path: Path, output: str | None) -> str:
    """The output asked for, or the first that is (n, D) or (n, D, 1, 1)."""
    outputs = session.get_outputs()
    for item in outputs:
        if item.name == output if output is not None else len(item.shape) == 2 or item.shape[2:] == [1, 1]:
            return str(item.name)
    found = ", ".join(f"{item.name} {item.shape}" for item in outputs)
    asked = f"an output named {output!r}" if output is not None else "an output of shape (n, D)"
    raise ValueError(f"The model {path} should have {asked}, and has {found}.")


def _options(size: int | None, fixed: int | None, mean: Any, std: Any, output: str | None) -> str:
    options = {
        "size": size if fixed is None else None,
        "mean": None if tuple(mean) == IMAGENET_MEAN else ",".join(map(str, mean)),
        "std": None if tuple(std) == IMAGENET_STD else ",".join(map(str, std)),
        "output": output,
    }
    given = [f"{key}={value}" for key, value in options.items() if value is not None]
    return "?" + "&".join(given) if given else ""


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    for part in (path, *(path.with_name(path.name + suffix) for suffix in _DATA_SUFFIXES)):
        if part.is_file():
            with part.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()
