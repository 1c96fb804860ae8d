"""A local cache in the layout of the hub, and errors without cache or network."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from cgmcr2.encoders import hub

huggingface_hub = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")
errors = pytest.importorskip("huggingface_hub.errors")

REPOSITORY = "openai/clip-vit-base-patch32"
FILES = ("config.json", "preprocessor_config.json", "pytorch_model.bin")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--openai--clip-vit-base-patch32"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0123abcd")
    snapshot = folder / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    return snapshot


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise OSError("no network")

    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", fail)


def test_cached_model_needs_no_network(cache: Path, no_network: None) -> None:
    for file in FILES:
        assert hub.cached_folder(REPOSITORY) is None
        (cache / file).touch()
    assert hub.cached_folder(REPOSITORY) == cache
    assert hub.find_or_download("clip-vit-b-32", REPOSITORY) == cache
    assert hub.cached_folder(REPOSITORY, hub.TOKENIZER) is None


def test_error_without_a_network(cache: Path, no_network: None) -> None:
    with pytest.raises(
        OSError, match=r"clip-vit-b-32 is not on this machine .* run 'hf download openai/clip.* path as"
    ):
        hub.find_or_download("clip-vit-b-32", REPOSITORY)


def test_offline_mode(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.hub_is_reachable()


@pytest.mark.parametrize("has_safetensors", [True, False])
def test_only_the_required_files_are_downloaded(
    cache: Path, has_safetensors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = []

    def download(repository: str, file: str) -> str:
        requests.append(file)
        if file == "model.safetensors" and not has_safetensors:
            raise errors.EntryNotFoundError("404")
        return str(cache / file)

    monkeypatch.setattr(hub, "hub_is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert hub.find_or_download("clip-vit-b-32", REPOSITORY) == cache
    weights = ["model.safetensors"] if has_safetensors else ["model.safetensors", "pytorch_model.bin"]
    assert requests == ["config.json", "preprocessor_config.json", *weights]


def test_failed_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repository: str, file: str) -> str:
        raise errors.LocalEntryNotFoundError("The connection broke.\nMore lines.")

    monkeypatch.setattr(hub, "hub_is_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(
        OSError, match=r"^The download of openai/\S+ failed \(The connection broke\): on a machine with .*\.$"
    ):
        hub.find_or_download("clip-vit-b-32", REPOSITORY)
