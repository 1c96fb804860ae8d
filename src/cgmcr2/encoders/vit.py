"""CLIP, SigLIP and DINOv2 with transformers, from a local folder or the Hugging Face Hub."""

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

from cgmcr2._device import autocast, supports_bfloat16
from cgmcr2.encoders.fingerprint import fingerprint_of, weights_digest
from cgmcr2.encoders.hub import CONFIG, HUB_MODELS, TOKENIZER, find_or_download, first_line
from cgmcr2.encoders.preprocessing import Preprocessing
from cgmcr2.encoders.torch_encoder import TorchEncoder


@dataclass(frozen=True)
class _Family:
    model: str  # class in transformers
    output: str  # attribute of its output
    preprocessing: Preprocessing  # if the folder has no preprocessor_config.json
    text_model: str = ""  # class in transformers
    text_output: str = ""
    text_padding: bool | str = True  # SigLIP was trained with texts of maximum length


_CLIP_PREPROCESSING = Preprocessing(mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711))
_SIGLIP_PREPROCESSING = Preprocessing(square=True, mean=(0.5,) * 3, std=(0.5,) * 3)
_CLIP = _Family(
    "CLIPVisionModelWithProjection", "image_embeds", _CLIP_PREPROCESSING, "CLIPTextModelWithProjection", "text_embeds"
)
_SIGLIP = _Family(
    "SiglipVisionModel", "pooler_output", _SIGLIP_PREPROCESSING, "SiglipTextModel", "pooler_output", "max_length"
)
_DINOV2 = _Family("Dinov2Model", "pooler_output", Preprocessing(resize=256))
_FAMILIES = {  # keys: model_type in config.json
    "clip": _CLIP,
    "clip_vision_model": _CLIP,
    "siglip": _SIGLIP,
    "siglip_vision_model": _SIGLIP,
    "dinov2": _DINOV2,
}

_WITH_TEXT = ("clip", "siglip")  # the other model types are vision models alone
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "spiece.model")
TEXT_BATCH = 256  # texts per forward pass

_PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class VitEncoder(TorchEncoder):
    """Vision transformer of the CLIP, SigLIP or DINOv2 family.

    The features are CLIP's projected ``image_embeds``, SigLIP's ``pooler_output``, or DINOv2's class token after the
    last layer norm (``pooler_output``). Preprocessing follows the model's ``preprocessor_config.json``. For CLIP this
    is the paper's: shorter side to 224 pixels, bicubic, centre crop.

    Parameters
    ----------
    name : str
        Key of ``hub.HUB_MODELS``, or a folder in the format of the hub.
    device : str
        Device, or ``"auto"``.
    precision : {"auto", "float32", "float16", "bfloat16"}
        Precision of the network; ``"auto"`` is half precision if the hardware supports it, otherwise float32.
    """

    def __init__(self, name: str, *, device: str = "auto", precision: str = "auto") -> None:
        transformers = _import_transformers()
        model = HUB_MODELS.get(name)
        folder = find_or_download(name, model.repository) if model else Path(name)
        config = _read_json(folder / "config.json", folder)
        kind = str(config.get("model_type"))
        if kind not in _FAMILIES:
            raise ValueError(
                f"The folder {folder} contains a model of type {kind!r}, but an encoder must be one of "
                f"{', '.join(_FAMILIES)}."
            )
        family = _FAMILIES[kind]
        super().__init__(read_preprocessing(folder, family.preprocessing), device)
        self.name = name if model else str(folder.resolve())
        self._folder, self._kind, self._repository = folder, kind, model.repository if model else None
        self._dtype = _choose_dtype(precision, self._device)
        self._family = family
        self._network = network = _load(transformers, family.model, folder).to(self._device)
        vision = network.config
        self.dim = int(network.visual_projection.out_features if family is _CLIP else vision.hidden_size)
        self.fingerprint = fingerprint_of(
            network=family.model,
            # settings that the shapes of the weights do not determine
            config=[getattr(vision, key, None) for key in ("patch_size", "num_attention_heads", "hidden_act")],
            weights=weights_digest(network.parameters()),
            preprocessing=self._preprocessing.as_dict(),
        )

    def _forward(self, batch: npt.NDArray[Any]) -> torch.Tensor:
        with autocast(self._device, self._dtype):
            return super()._forward(batch)

    def _features(self, pixels: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = getattr(self._network(pixel_values=pixels.permute(0, 3, 1, 2)), self._family.output)
        return output

    @property
    def reads_text(self) -> bool:
        """Whether the model has a text encoder: complete CLIP and SigLIP models do."""
        return self._kind in _WITH_TEXT

    def encode_text(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Return the embeddings (m, dim) of texts, comparable to image features by cosine similarity."""
        if not self.reads_text:
            raise ValueError(
                f"The encoder {self.name} has no text encoder: encode_text needs a complete CLIP or SigLIP model."
            )
        tokenizer, model = self._text
        features = np.empty((len(texts), self.dim), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(texts), TEXT_BATCH):
                tokens = tokenizer(
                    texts[start : start + TEXT_BATCH],
                    padding=self._family.text_padding,
                    max_length=model.config.max_position_embeddings,
                    truncation=True,
                    return_tensors="pt",
                ).to(self._device)
                output = getattr(model(**tokens), self._family.text_output)
                features[start : start + TEXT_BATCH] = output.float().cpu().numpy()
        return features

    @functools.cached_property
    def _text(self) -> tuple[Any, Any]:
        """Tokenizer and text model, loaded at first use."""
        transformers = _import_transformers()
        if self._repository is not None:
            find_or_download(self.name, self._repository, (*CONFIG, *TOKENIZER))
        if not any((self._folder / file).exists() for file in _TOKENIZER_FILES):  # transformers would make an empty one
            raise ValueError(
                f"The folder {self._folder} has no tokenizer for text: it must also contain "
                f"{' or '.join(_TOKENIZER_FILES)}."
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(self._folder), local_files_only=True)
        return tokenizer, _load(transformers, self._family.text_model, self._folder).to(self._device)


def read_preprocessing(folder: Path, default: Preprocessing) -> Preprocessing:
    """Read ``preprocessor_config.json`` in a model folder; return ``default`` if there is none."""
    path = folder / "preprocessor_config.json"
    if not path.exists():
        return default
    config = _read_json(path, folder)
    size, crop = config.get("size", default.resize), config.get("crop_size", default.crop)
    # older files contain a number, newer ones {"shortest_edge": 224} or {"height": 224, "width": 224}
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
    """Load a model, and refuse missing weights, which transformers would initialise randomly."""
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
            f"The weights in {folder} lack {len(missing)} tensors of {model}, such as {missing[0]}: "
            "give the folder of a complete model."
        )
    return network.float().eval().requires_grad_(False)


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Suppress messages and progress bars of transformers."""
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


def _choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    if precision == "auto":
        if device.type == "cuda":
            return torch.float16
        return torch.bfloat16 if supports_bfloat16(device) else torch.float32
    if precision not in _PRECISIONS:
        raise ValueError(f"precision must be one of auto, {', '.join(_PRECISIONS)}, got {precision!r}.")
    return _PRECISIONS[precision]


def _read_json(path: Path, folder: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The folder {folder} has no {path.name}: it must contain config.json, model.safetensors and "
            "preprocessor_config.json, as created by 'hf download'."
        ) from error
    except ValueError as error:
        raise ValueError(f"The file {path} is not JSON ({error}).") from error
    if not isinstance(config, dict):
        raise ValueError(f"The file {path} must contain a JSON object, but contains a {type(config).__name__}.")
    return config
