"""Models of the hub that have a name here, and where they are on this machine: in the hub's cache, or downloaded."""

from __future__ import annotations

import importlib.util
import os
import socket
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HubModel:
    """A model with a name of ours: where the hub has it, and the length of its features."""

    repository: str
    dim: int
    description: str


HUB_MODELS = {
    "clip-vit-l-14": HubModel("openai/clip-vit-large-patch14", 768, "CLIP ViT-L/14, the paper's encoder"),
    "clip-vit-b-16": HubModel("openai/clip-vit-base-patch16", 512, "CLIP ViT-B/16"),
    "clip-vit-b-32": HubModel("openai/clip-vit-base-patch32", 512, "CLIP ViT-B/32, the fastest CLIP"),
    "siglip": HubModel("google/siglip-base-patch16-224", 768, "SigLIP ViT-B/16"),
    "dinov2-small": HubModel("facebook/dinov2-small", 384, "DINOv2 ViT-S/14, trained without labels or text"),
    "dinov2-base": HubModel("facebook/dinov2-base", 768, "DINOv2 ViT-B/14, trained without labels or text"),
    "dinov2-large": HubModel("facebook/dinov2-large", 1024, "DINOv2 ViT-L/14, trained without labels or text"),
    "dinov2-giant": HubModel("facebook/dinov2-giant", 1536, "DINOv2 ViT-g/14, trained without labels or text"),
}

CONFIG = ("config.json", "preprocessor_config.json")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # one of these


def cached(repository: str, files: tuple[str, ...] = CONFIG) -> Path | None:
    """Folder of the model in the hub's cache if its weights and ``files`` are all there; needs no network.

    >>> cached("nobody/nothing") is None
    True
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    def has(file: str) -> bool:
        return isinstance(try_to_load_from_cache(repository, file), str)

    if not all(map(has, files)) or not any(map(has, WEIGHTS)):
        return None
    return Path(str(try_to_load_from_cache(repository, files[0]))).parent


def find_or_download(name: str, repository: str, files: tuple[str, ...] = CONFIG) -> Path:
    """Folder of the model in the hub's cache, downloaded (with progress) if need be and the hub can be reached."""
    folder = cached(repository, files)
    if folder is not None:
        return folder
    advice = (
        f"on a connected machine run 'hf download {repository} --local-dir {name}', copy that folder here and give its "
        "path as the encoder"
    )
    if not reachable():
        raise OSError(f"The encoder {name} is not on this machine and the model hub cannot be reached: {advice}.")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        for file in files:
            hf_hub_download(repository, file)
        try:
            path = hf_hub_download(repository, WEIGHTS[0])
        except LocalEntryNotFoundError:  # not found because the connection failed
            raise
        except EntryNotFoundError:  # an older repository without safetensors
            path = hf_hub_download(repository, WEIGHTS[1])
    except (OSError, EntryNotFoundError) as error:
        raise OSError(f"The download of {repository} failed ({first_line(error)}): {advice}.") from error
    return Path(path).parent


def reachable() -> bool:
    """Whether a download is worth trying: the hub's own client retries for half a minute before it gives up."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
        return False
    if urllib.request.getproxies():
        return True  # then it is the proxy that looks up the name
    host = urllib.parse.urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """What an error says, short enough to stand inside a sentence.

    >>> first_line(ValueError("No such thing.\\nTry another."))
    'No such thing'
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
