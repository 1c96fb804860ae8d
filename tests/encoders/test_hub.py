"""The hub's cache, made by hand in its own layout, and what is said where there is neither cache nor network."""

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


def test_a_cached_model_is_found_without_a_network(cache: Path, no_network: None) -> None:
    for file in FILES:
        assert hub.cached(REPOSITORY) is None
        (cache / file).touch()
    assert hub.cached(REPOSITORY) == cache
    assert hub.find_or_download("clip-vit-b-32", REPOSITORY) == cache
    assert hub.cached(REPOSITORY, hub.TOKENIZER) is None


def test_without_a_network_one_sentence_says_what_to_do(cache: Path, no_network: None) -> None:
    with pytest.raises(
        OSError, match=r"clip-vit-b-32 is not on this machine .* run 'hf download openai/clip.* path as"
    ):
        hub.find_or_download("clip-vit-b-32", REPOSITORY)


def test_offline_by_choice(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.reachable()


@pytest.mark.parametrize("has_safetensors", [True, False])
def test_downloads_what_is_needed_and_no_more(
    cache: Path, has_safetensors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(repository: str, file: str) -> str:
        asked.append(file)
        if file == "model.safetensors" and not has_safetensors:
            raise errors.EntryNotFoundError("404")
        return str(cache / file)

    monkeypatch.setattr(hub, "reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert hub.find_or_download("clip-vit-b-32", REPOSITORY) == cache
    weights = ["model.safetensors"] if has_safetensors else ["model.safetensors", "pytorch_model.bin"]
    assert asked == ["config.json", "preprocessor_config.json", *weights]


def test_a_failed_download_is_one_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(repository: str, file: str) -> str:
        raise errors.LocalEntryNotFoundError("The connection broke.\nMore lines.")

    monkeypatch.setattr(hub, "reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(
        OSError, match=r"^The download of openai/\S+ failed \(The connection broke\): on a connected .*\.$"
    ):
        hub.find_or_download("clip-vit-b-32", REPOSITORY)
