"""Kill the server of the explorer at random moments of an editing session, and compare the run with what it confirmed.

    python benchmarks/explorer_kills.py             # 200 kills
    python benchmarks/explorer_kills.py --kills 5

A client sends random edits, one after the other, to a server process that is killed (SIGKILL) after a random time. Then

- the log must hold every edit that was confirmed, in this order, and at most one more: the edit that was being sent;
- the clustering that is loaded from the folder must equal that of the same edits in another folder without a server;
- the server must start again, show this state and serve a thumbnail.

The exit code is 1 if one of these fails.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cgmcr2 import Clustering
from cgmcr2.clustering.edits import read_edits
from cgmcr2.explorer.verbs import apply_edit
from cgmcr2.runs import Edits
from synthetic_run import write_run

START_SECONDS = 300  # on a busy machine
Edit = tuple[str, dict[str, Any]]


def serve(run: str, address: Any) -> None:
    """Run the server in this process."""
    from cgmcr2.explorer.server import explore

    explore(run, browser=False, on_start=address.put)


class Server:
    """A server in a process of its own, and a connection to it."""

    def __init__(self, run: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["cgmcr2.explorer.server"])  # each start would import it again
        addresses = context.Queue()
        self.process: BaseProcess = context.Process(target=serve, args=(str(run), addresses), daemon=True)
        self.process.start()
        url = urlsplit(addresses.get(timeout=START_SECONDS))
        self.path, self.origin = url.path, f"http://{url.netloc}"
        self.connection = http.client.HTTPConnection(url.netloc, timeout=START_SECONDS)

    def get(self, path: str) -> bytes:
        """The body of an answer; raise ``OSError`` or ``HTTPException`` if there is none."""
        return self._request("GET", path)

    def edit(self, verb: str, arguments: dict[str, Any], state: str) -> dict[str, Any]:
        """The new state, once the server has confirmed the edit."""
        body = json.dumps({"verb": verb, "arguments": arguments, "state": state})
        answer: dict[str, Any] = json.loads(self._request("POST", "edit", body))
        return answer

    def _request(self, method: str, path: str, body: str | None = None) -> bytes:
        headers = {"Origin": self.origin, "Content-Type": "application/json"}
        self.connection.request(method, self.path + path, body, headers)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{method} {path}: status {answer.status}, {data[:300]!r}")
        return data

    def kill(self) -> None:
        """Kill the process (SIGKILL) and wait for its end."""
        self.process.kill()
        self.process.join()


def random_edit(state: dict[str, Any], rng: random.Random) -> Edit:
    """An edit that is valid in ``state``; it moves one image, some, or hundreds."""
    n, history = state["n"], state["history"]
    clusters = [cluster["number"] for cluster in state["clusters"]]
    rows = rng.sample(range(n), rng.choice([1, 10, n // 10]))
    choices: list[Edit] = [
        ("rename", {"cluster": rng.choice(clusters), "name": f"name {rng.random()}"}),
        ("move", {"rows": rows, "cluster": rng.choice(clusters)}),
        ("move", {"rows": rows, "cluster": rng.choice(clusters)}),
        ("new", {"rows": rows, "name": f"new {rng.random()}"}),
        (
            "batch",
            {
                "edits": [
                    ["move", {"rows": rows, "cluster": clusters[0]}],
                    ["rename", {"cluster": 0, "name": f"b {rng.random()}"}],
                ]
            },
        ),
    ]
    if len(clusters) > 12:
        choices += [("merge", {"clusters": rng.sample(clusters, 2)})] * 2
    if history["can_undo"]:
        choices += [("undo", {}), ("back", {"line": rng.randint(0, len(history["log"]))})]
    if history["can_redo"]:
        choices += [("redo", {})] * 2
    return rng.choice(choices)


def edit_until_killed(server: Server, seconds: float, rng: random.Random) -> tuple[list[Edit], Edit | None]:
    """Edit until the server is killed after ``seconds``; return the confirmed edits and the one that was not."""
    confirmed: list[Edit] = []
    state = json.loads(server.get("state"))
    timer = threading.Timer(seconds, server.process.kill)
    timer.start()
    try:
        while True:
            edit = random_edit(state, rng)
            try:
                state = server.edit(*edit, state["state"])
            except (OSError, http.client.HTTPException):
                return confirmed, edit
            confirmed.append(edit)
    finally:
        timer.join()


def campaign(
    folder: Path, kills: int, *, n: int = 5000, k: int = 20, seconds: float = 2, seed: int = 0
) -> Counter[str]:
    """Kill the server ``kills`` times, each within ``seconds``, and check the run; return what was counted."""
    run = write_run(folder, n, k)
    reference = Path(shutil.copytree(run, folder / "reference"))
    rng, counts = random.Random(seed), Counter[str]()
    fitted = Clustering.load(run, edits=False)
    written: list[Edit] = []
    for kill in range(kills):
        server = Server(run)
        try:
            assert server.get("thumbnails/0")[:4] == b"RIFF"
            confirmed, unconfirmed = edit_until_killed(server, rng.uniform(0, seconds), rng)
        finally:
            server.kill()
        torn = not (run / "edits.jsonl").read_bytes().endswith(b"\n")
        log = [(edit.verb, edit.arguments) for edit in read_edits(run / "edits.jsonl", fitted)[0]]
        new = log[len(written) :]
        extra = new[len(confirmed) :]
        assert [verb for verb, _ in log[: len(written)]] == [verb for verb, _ in written]
        assert len(new) >= len(confirmed), f"kill {kill}: {len(confirmed) - len(new)} confirmed edits were lost"
        assert len(extra) <= 1, f"kill {kill}: {len(extra)} edits that nobody has confirmed"
        applied = confirmed + ([unconfirmed] if extra and unconfirmed else [])
        with Edits(reference) as edits:
            for edit in applied:
                apply_edit(edits, *edit)
            expected = edits.clustering
        assert Clustering.load(run) == expected, f"kill {kill}: the clustering differs"
        written += applied
        counts.update(kills=1, confirmed=len(confirmed), saved_but_unconfirmed=len(extra), torn_lines=torn)
        counts.update(f"{verb} edits" for verb, _ in confirmed)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = campaign(Path(folder), arguments.kills, seed=arguments.seed)
    for name, count in sorted(counts.items()):
        print(f"{name.replace('_', ' '):24} {count:6,}")
    print(f"No confirmed edit was lost in {counts['kills']} kills ({time.monotonic() - start:.0f} s).")


if __name__ == "__main__":
    main()
