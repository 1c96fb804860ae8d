"""CLIP, SigLIP and DINOv2 through transformers: from a local folder, the hub's cache, or a download."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from cgmcr2.encoders.common import default_batch_size, encode_in_chunks, fingerprint_of, pick_device, weights_digest
from cgmcr2.encoders.hub import CONFIG, HUB_MODELS, TOKENIZER, find_or_download, first_line
from cgmcr2.encoders.pixels import Preprocessing


@dataclass(frozen=True)
class _Family:
    model: str  # class of transformers
    output: str  # which of its outputs is the feature
    preprocessing: Preprocessing  # where the folder does not say its own


_CLIP_PREPROCESSING = Preprocessing(mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711))
_SIGLIP_PREPROCESSING = Preprocessing(square=True, mean=(0.5,) * 3, std=(0.5,) * 3)
_CLIP = _Family("CLIPVisionModelWithProjection", "image_embeds", _CLIP_PREPROCESSING)
_SIGLIP = _Family("SiglipVisionModel", "pooler_output", _SIGLIP_PREPROCESSING)
_DINOV2 = _Family("Dinov2Model", "pooler_output", Preprocessing(resize=256))
# by the model_type of config.json
_FAMILIES = {
    "clip": _CLIP,
    "clip_vision_model": _CLIP,
    "siglip": _SIGLIP,
    "siglip_vision_model": _SIGLIP,
    "dinov2": _DINOV2,
}


_CHUNK = 8  # images at once on the CPU: enough for full speed, and memory stays bounded whatever the batch
_PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class VitEncoder:
    """A vision transformer of the CLIP, SigLIP or DINOv2 family.

    Features are CLIP's projected ``image_embeds``, SigLIP's ``pooler_output``, and DINOv2's class token after its last
    norm (also ``pooler_output``). Preprocessing is the model's own ``preprocessor_config.json``: for CLIP that is the
    paper's, shorter side to 224, bicubic, centre crop.

    ``name`` is a key of ``hub.HUB_MODELS`` or a folder in the hub's format. ``precision`` is ``"float32"``,
    ``"bfloat16"``, ``"float16"`` or ``"auto"``: half where the hardware computes with it, float32 elsewhere.
    """

    def __init__(self, name: str, *, device: str | None = None, precision: str = "auto") -> None:
        transformers = _import_transformers()
        model = HUB_MODELS.get(name)
        folder = find_or_download(name, model.repository) if model else Path(name)
        config = _read_json(folder / "config.json", folder)
        kind = str(config.get("model_type"))
        if kind not in _FAMILIES:
            raise ValueError(
                f"The folder {folder} holds a model of type {kind!r}, and the encoder can be {', '.join(_FAMILIES)}."
            )
        family = _FAMILIES[kind]
        self.name = name if model else str(folder.resolve())
        self._folder, self._kind, self._repository = folder, kind, model.repository if model else None
        self._device = pick_device(device)
        self.batch_size = default_batch_size(self._device)
        self._dtype = _dtype(precision, self._device)
        self._output = family.output
        self._preprocessing = read_preprocessing(folder, family.preprocessing)
        self._model = _load(transformers, family.model, folder).to(self._device)
        vision = self._model.config
        self.dim = int(self._model.visual_projection.out_features if family is _CLIP else vision.hidden_size)
        self.image_size = self._preprocessing.resize
        self.fingerprint = fingerprint_of(
            network=family.model,
            # what the shapes of the weights do not say
            config=[getattr(vision, key, None) for key in ("patch_size", "num_attention_heads", "hidden_act")],
            weights=weights_digest(self._model.parameters()),
            preprocessing=self._preprocessing.as_dict(),
        )

    def preprocess(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """RGB image -> uint8 (h, w, 3)."""
        return self._preprocessing(image)

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """uint8 (n, h, w, 3) -> float32 (n, dim)."""
        chunk = _CHUNK if self._device.type == "cpu" else None
        return encode_in_chunks(self._run, batch, self._preprocessing.shape, self.dim, self.name, chunk)

    def _run(self, batch: npt.NDArray[Any]) -> torch.Tensor:
        pixels = self._preprocessing.normalize(batch, self._device).permute(0, 3, 1, 2)
        with self._autocast():
            output: torch.Tensor = getattr(self._model(pixel_values=pixels), self._output)
        return output

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._device.type, self._dtype, enabled=self._dtype != torch.float32)

    def encode_text(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """CLIP only: texts -> float32 (n, dim) in the space of the image features, to be compared by cosine."""
        if self._kind != "clip":
            raise ValueError(f"The encoder {self.name} has no text part: encode_text needs a whole CLIP model.")
        tokenizer, model = self._text
        tokens = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            features: npt.NDArray[np.float32] = model(**tokens).text_embeds.float().cpu().numpy()
        return features

    @functools.cached_property
    def _text(self) -> tuple[Any, Any]:
        """Tokenizer and text model, loaded when first needed."""
        transformers = _import_transformers()
        if self._repository is not None:
            find_or_download(self.name, self._repository, (*CONFIG, *TOKENIZER))
        tokenizer = transformers.CLIPTokenizer.from_pretrained(str(self._folder))
        return tokenizer, _load(transformers, "CLIPTextModelWithProjection", self._folder).to(self._device)


def read_preprocessing(folder: Path, default: Preprocessing) -> Preprocessing:
    """The preprocessing that ``preprocessor_config.json`` of a model folder asks for."""
    path = folder / "preprocessor_config.json"
    if not path.exists():
        return default
    config = _read_json(path, folder)
    size, crop = config.get("size", default.resize), config.get("crop_size", default.crop)
    # old files have a number, newer ones {"shortest_edge": 224} or {"height": 224, "width": 224}
    square = isinstance(size, dict) and "height" in size
    resize = int(size.get("shortest_edge") or size["height"]) if isinstance(size, dict) else int(size)
    crop = int(crop["height"]) if isinstance(crop, dict) else int(crop)
    if square or not config.get("do_center_crop", True):
        square, crop = True, resize
    return replace(
        default,
        resize=resize,
        crop=crop,
        square=square,
        resample=int(config.get("resample", default.resample)),
        scale=1 / float(config.get("rescale_factor", 1 / 255)),
        mean=tuple(float(value) for value in config.get("image_mean", default.mean)),
        std=tuple(float(value) for value in config.get("image_std", default.std)),
    )


def _import_transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ImportError("CLIP, SigLIP and DINOv2 encoders need transformers: pip install 'cgmcr2[clip]'.") from error
    return transformers


def _load(transformers: Any, model: str, folder: Path) -> Any:
    """The model with all its weights, quietly; transformers would fill missing ones with random numbers."""
    with _quiet(transformers):
        try:
            network, info = getattr(transformers, model).from_pretrained(
                str(folder), local_files_only=True, output_loading_info=True
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(f"The model in {folder} cannot be loaded as {model} ({first_line(error)}).") from error
    missing = sorted(info["missing_keys"])
    if missing:
        raise ValueError(
            f"The weights in {folder} lack {len(missing)} tensors that {model} needs, such as {missing[0]}: "
            "give the folder of a whole model."
        )
    return network.float().eval().requires_grad_(False)


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    logging = transformers.utils.logging
    verbosity, progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if progress:
            logging.enable_progress_bar()


def _dtype(precision: str, device: torch.device) -> torch.dtype:
    if precision != "auto" and precision not in _PRECISIONS:
        raise ValueError(f"The precision is one of auto, {', '.join(_PRECISIONS)}, got {precision!r}.")
    if precision != "auto":
        return _PRECISIONS[precision]
    if device.type == "cuda":
        return torch.float16
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if device.type == "cpu" and native() else torch.float32


def _read_json(path: Path, folder: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The folder {folder} has no {path.name}: an encoder's folder holds config.json, model.safetensors and "
            "preprocessor_config.json, as 'hf download' leaves it."
        ) from error
    except ValueError as error:
        raise ValueError(f"The file {path} is not JSON ({error}).") from error
    if not isinstance(config, dict):
        raise ValueError(f"The file {path} should hold a JSON object, and holds a {type(config).__name__}.")
    return config
