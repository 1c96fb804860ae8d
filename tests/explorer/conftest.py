"""A finished run on small images, and a client of its explorer."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cgmcr2 import CgMCR2
from cgmcr2.runs import fit_features, fit_images
from cgmcr2.runs.names import suggest_run_names
from cgmcr2.words import Vocabulary

from .. import reading  # noqa: F401 - registers an encoder that reads text
from ..colours import QUICK, write_photos

pytest.importorskip("starlette", reason="the explorer needs cgmcr2[web]")
pytest.importorskip("httpx", reason="the client of starlette needs httpx")

from starlette.testclient import TestClient

from cgmcr2.explorer.app import Explorer
from cgmcr2.explorer.security import Guard
from cgmcr2.explorer.session import Session

TOKEN = "the-token"
ORIGIN = "http://127.0.0.1:8000"


class Client(TestClient):
    """Client of an explorer at port 8000, with the headers of its own page."""

    session: Session
    explorer: Explorer

    def json(self, path: str, **body: Any) -> Any:
        """POST ``body`` as JSON, or GET if there is none; assert success and return the answer."""
        answer = self.post(path, json=body) if body else self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def edit(self, verb: str, **arguments: Any) -> Any:
        """Apply an edit to the current state and return the new state."""
        return self.json("edit", verb=verb, arguments=arguments, state=self.session.snapshot.state)


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty small images, the last of which is a copy of the first."""
    folder = write_photos(tmp_path_factory.mktemp("images") / "photos", 60)
    shutil.copyfile(folder / "00.png", folder / "59.png")
    return folder


@pytest.fixture(scope="session")
def fitted(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished run on ``photos``; tests must not change it."""
    folder = tmp_path_factory.mktemp("fitted") / "run"
    fit_images(CgMCR2(3, settings=QUICK), photos, folder, encoder="colours")
    return folder


@pytest.fixture(scope="session")
def reading_run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished run on ``photos`` with an encoder that reads text, and suggested names; tests must not change it."""
    folder = tmp_path_factory.mktemp("reading") / "run"
    fit_images(CgMCR2(3, settings=QUICK), photos, folder, encoder="reading-colours")
    suggest_run_names(folder, vocabulary=Vocabulary.from_lines(["red", "green", "blue"]))
    return folder


@pytest.fixture(scope="session")
def fitted_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished run on a feature file; tests must not change it."""
    folder = tmp_path_factory.mktemp("features")
    np.save(folder / "features.npy", np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32) + np.eye(8)[0])
    return fit_features(CgMCR2(3, settings=QUICK), folder / "features.npy", folder / "run").folder.path


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> Path:
    """A copy of the run on images."""
    return Path(shutil.copytree(fitted, tmp_path / "run"))


@contextmanager
def open_client(
    run: Path, images: Path | None = None, text: Path | None = None, *, host: str = "127.0.0.1", **options: Any
) -> Iterator[Client]:
    """Open a run and yield a client of its explorer."""
    with Session(run, images, text) as session:
        explorer = Explorer(session)
        guard = Guard(explorer.application(), TOKEN, host, 8000, **options)
        with Client(guard, f"{ORIGIN}/{TOKEN}/", raise_server_exceptions=False) as client:
            client.headers["Origin"] = ORIGIN
            client.session, client.explorer = session, explorer
            yield client


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """A function that opens a run and returns a client of its explorer."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(open_client(*arguments, **options))


@pytest.fixture
def client(run: Path) -> Iterator[Client]:
    """A client of the explorer of ``run``."""
    with open_client(run) as client:
        yield client


@pytest.fixture(scope="session")
def reader(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client for requests that change nothing."""
    with open_client(Path(shutil.copytree(fitted, tmp_path_factory.mktemp("read") / "run"))) as client:
        yield client
