"""Encoders on the Hugging Face Hub: find them in the local cache or download them."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HubModel:
    """Repository of a model on the hub, its number of features, a description, and whether it has a text encoder."""

    repository: str
    dim: int
    description: str
    reads_text: bool = False


HUB_MODELS = {
    "clip-vit-l-14": HubModel("openai/clip-vit-large-patch14", 768, "CLIP ViT-L/14, the paper's encoder", True),
    "clip-vit-b-16": HubModel("openai/clip-vit-base-patch16", 512, "CLIP ViT-B/16", True),
    "clip-vit-b-32": HubModel("openai/clip-vit-base-patch32", 512, "CLIP ViT-B/32, the fastest CLIP", True),
    "siglip": HubModel("google/siglip-base-patch16-224", 768, "SigLIP ViT-B/16", True),
    "dinov2-small": HubModel("facebook/dinov2-small", 384, "DINOv2 ViT-S/14, trained without labels or text"),
    "dinov2-base": HubModel("facebook/dinov2-base", 768, "DINOv2 ViT-B/14, trained without labels or text"),
    "dinov2-large": HubModel("facebook/dinov2-large", 1024, "DINOv2 ViT-L/14, trained without labels or text"),
    "dinov2-giant": HubModel("facebook/dinov2-giant", 1536, "DINOv2 ViT-g/14, trained without labels or text"),
}

CONFIG = ("config.json", "preprocessor_config.json")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # either of them


def cached_folder(repository: str, files: tuple[str, ...] = CONFIG) -> Path | None:
    """Return the folder of a model in the local cache, None if weights or ``files`` are missing; needs no network.

    >>> cached_folder("nobody/nothing") is None
    True
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    def is_cached(file: str) -> bool:
        return isinstance(try_to_load_from_cache(repository, file), str)

    if not all(map(is_cached, files)) or not any(map(is_cached, WEIGHTS)):
        return None
    return Path(str(try_to_load_from_cache(repository, files[0]))).parent


def find_or_download(name: str, repository: str, files: tuple[str, ...] = CONFIG) -> Path:
    """Return the folder of a model in the local cache, after downloading it if necessary."""
    folder = cached_folder(repository, files)
    if folder is not None:
        return folder
    instructions = (
        f"on a machine with internet access run 'hf download {repository} --local-dir {name}', copy that folder here, "
        "and use its path as the encoder"
    )
    if not hub_is_reachable():
        raise OSError(
            f"The encoder {name} is not on this machine and the Hugging Face Hub cannot be reached: {instructions}."
        )
    logger.info("Downloading the encoder %s (%s)", name, repository)
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        for file in files:
            hf_hub_download(repository, file)
        try:
            path = hf_hub_download(repository, WEIGHTS[0])
        except LocalEntryNotFoundError:  # the connection failed
            raise
        except EntryNotFoundError:  # older repositories have no safetensors
            path = hf_hub_download(repository, WEIGHTS[1])
    except (OSError, EntryNotFoundError) as error:
        raise OSError(f"The download of {repository} failed ({first_line(error)}): {instructions}.") from error
    return Path(path).parent


def hub_is_reachable() -> bool:
    """Return whether the hub's name resolves; its client would retry for half a minute before failing."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return False
    if urllib.request.getproxies():
        return True  # the proxy resolves names
    host = urllib.parse.urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """Return the first line of an error message without its full stop, for use within a sentence.

    >>> first_line(ValueError("No such thing.\\nTry another."))
    'No such thing'
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
