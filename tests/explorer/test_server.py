"""The server as a process: ``cgmcr2 explore``, Ctrl-C, and kills at random moments."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

from cgmcr2.cli import run as run_command
from cgmcr2.explorer.address import Address, read_address, write_address
from cgmcr2.explorer.server import _listen_again
from cgmcr2.runs import Edits, RunFolder

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def start(run: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cgmcr2", "explore", str(run), "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def printed_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{43}/", process.stdout.readline())
    assert address is not None
    return address[0]


def test_ctrl_c_ends_the_command(run: Path) -> None:
    with start(run) as process:
        with urllib.request.urlopen(f"{printed_address(process)}map", timeout=60) as answer:
            assert answer.status == 202  # a thread computes it
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert errors.startswith("Press Ctrl-C to stop.")


def test_the_address_stays_after_a_kill(run: Path) -> None:
    """An open page can reconnect to the next server."""
    addresses = []
    for _ in range(2):
        with start(run) as process:
            addresses.append(printed_address(process))
            process.kill()
    assert addresses[0] == addresses[1]


def test_an_address_is_used_again_for_the_same_fit_only(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "address.json"
    first = read_address(file, "fit")
    write_address(file, Address(4321, first.token, "fit"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_address(file, "fit") == Address(4321, first.token, "fit")
    other = read_address(file, "another fit")
    assert other.port == 0
    assert other.token != first.token
    file.write_text('{"port": 4321, "token": "short", "fit": "fit"}')
    assert read_address(file, "fit").port == 0


def test_a_port_in_use_is_not_used_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with _listen_again("127.0.0.1", 0, port) as listener:
            assert listener.getsockname()[1] != port
    with _listen_again("127.0.0.1", 0, port) as listener:
        assert listener.getsockname()[1] == port


def test_errors_are_one_sentence(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_command("explore", tmp_path / "none", "--no-browser") == 2
    assert "There is no folder" in capsys.readouterr().err
    assert run_command("explore", run, "--no-browser", "--images", tmp_path / "none") == 2
    assert "give the folder or archive that holds them now with --images" in capsys.readouterr().err
    assert run_command("explore", run, "--no-browser", "--host", "203.0.113.1") == 2  # an address of no machine
    assert "choose another --host or --port" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "cgmcr2.explorer.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run_command("explore", run, "--no-browser") == 2
    assert "pip install 'cgmcr2[web]'" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_to(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: RunFolder) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self.path / ".lock"))

    monkeypatch.setattr(RunFolder, "lock", refuse)
    assert run_command("explore", run, "--no-browser") == 2
    message = capsys.readouterr().err
    assert "cannot be written to" in message
    assert "explore the copy" in message


def test_a_run_that_another_process_edits(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Edits(run):
        assert run_command("explore", run, "--no-browser") == 2
    assert "Another process is writing to" in capsys.readouterr().err


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not BENCHMARKS.is_dir():
        pytest.skip("the benchmarks are not part of the source distribution")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("explorer_kills", BENCHMARKS / "explorer_kills.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "explorer_kills", module)  # the server process imports it by name
    spec.loader.exec_module(module)
    return module


def test_a_kill_loses_no_confirmed_edit(kills: ModuleType, tmp_path: Path) -> None:
    counts = kills.campaign(tmp_path, 5, n=300, k=4, seconds=0.4)
    assert counts["kills"] == 5
