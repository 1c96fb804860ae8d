"""Fault injection at scale: damaged files, ``kill -9`` and a full disk.

    python benchmarks/faults.py mutate --count 2000   # damaged files x seven commands
    python benchmarks/faults.py kill --count 500      # commands killed at random moments, then repeated
    python benchmarks/faults.py disk --count 50       # needs root: mounts a small tmpfs

Each prints the number of trials and every failure; the exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cgmcr2.cli import run
from cgmcr2.encoders import register_encoder
from fault_injection import MUTATIONS, files_of, inject

SETTINGS = ("hidden_dim=8", "warmup_epochs=20", "finetune_epochs=10", "n_heads=1", "lr=0.01")
QUICK = ["--encoder", "colours", *(word for setting in SETTINGS for word in ("--set", setting))]


class Colours:
    """A fast encoder: the mean colour of each quarter of an image."""

    name, dim, fingerprint, image_size = "colours", 12, "colours-1", 8

    def preprocess(self, image: Image.Image) -> np.ndarray[Any, Any]:
        return np.asarray(image.resize((2, 2), Image.Resampling.BOX), dtype=np.uint8)

    def encode(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return batch.reshape(len(batch), 12).astype(np.float32) / 255 + 0.1


register_encoder("colours", lambda **_: Colours())


def write_photos(folder: Path, count: int = 24) -> Path:
    """Reddish, greenish and bluish images, and one broken file."""
    folder.mkdir()
    noise = np.random.default_rng(0)
    for number in range(count):
        pixels = noise.integers(0, 60, (16, 16, 3))
        pixels[..., number % 3] += 180
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.png")
    (folder / "broken.jpg").write_text("not an image")
    return folder


def words(command: str, photos: Path, work: Path) -> list[object]:
    """The words of a command that writes into ``work``."""
    cluster = ["cluster", photos, "-k", 3, "-o", work / "run", *QUICK]
    return {
        "embed": ["embed", photos, "--encoder", "colours", "-o", work / "store"],
        "cluster": cluster,
        "report": ["report", work / "run", "--map", "pca"],
        "predict": ["predict", work / "run", photos, "--cache", work / "cache", "-o", work / "new.csv"],
        "export": ["export", work / "run", "-o", work / "sorted"],
    }[command]


def in_child(command: list[object]) -> int:
    """Fork, run a command quietly in the child, and return its process id."""
    child = os.fork()
    if child:
        return child
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    code = 99
    with contextlib.suppress(BaseException):
        code = run(*command, "-q")
    os._exit(code)


def wait(child: int) -> int:
    """The exit code of a child, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of all files, without locks and temporary files of killed processes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in files
        if not p.name.startswith(".") and "cache" not in p.parts
    }


def prepared(work: Path, photos: Path, finished: Path, command: str) -> None:
    """Give ``work`` what ``command`` needs: nothing, or the finished run."""
    work.mkdir()
    if command not in ("embed", "cluster"):
        shutil.copytree(finished, work / "run")


def kill(count: int, seed: int, base: Path) -> Iterator[str]:
    """Kill commands at random moments, repeat them until they finish, and compare with undisturbed runs."""
    rng = random.Random(seed)
    photos = write_photos(base / "photos")
    finished = base / "finished" / "run"
    assert wait(in_child(words("cluster", photos, base / "finished"))) == 0
    names = ("embed", "cluster", "report", "predict", "export")
    reference, seconds = {}, {}
    for name in names:
        work = base / f"reference-{name}"
        prepared(work, photos, finished, name)
        start = time.perf_counter()
        assert wait(in_child(words(name, photos, work))) == 0, name
        seconds[name] = time.perf_counter() - start
        reference[name] = content(work)
    kills = dict.fromkeys(names, 0)
    trial = 0
    while sum(kills.values()) < count:
        name = names[trial % len(names)]
        work = base / f"trial-{trial}"
        prepared(work, photos, finished, name)
        for attempt in range(4):  # up to three kills, then undisturbed
            child = in_child(words(name, photos, work))
            if attempt < 3:
                time.sleep(rng.uniform(0, seconds[name]))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            code = wait(child)
            if code == -signal.SIGKILL:
                kills[name] += 1
            elif code == 0:
                break
            elif not (name == "export" and code == 2):
                yield f"{name}: exit code {code} after a kill"
                break
        if name == "export" and code == 2:
            shutil.rmtree(work / "sorted")  # finished before the kill: an export never overwrites
            code = wait(in_child(words(name, photos, work)))
        result = content(work)
        if result != reference[name]:
            different = sorted(
                k for k in result.keys() | reference[name].keys() if result.get(k) != reference[name].get(k)
            )
            yield f"{name}: {different[:5]} differ after a kill"
        shutil.rmtree(work)
        trial += 1
    print(f"{sum(kills.values())} kills: {kills}")


def mutations(count: int, seed: int, base: Path) -> Iterator[str]:
    """Damage files of a finished run and run seven commands on each copy."""
    rng = random.Random(seed)
    photos = write_photos(base / "photos")
    assert run("cluster", photos, "-k", 3, "-o", base / "run", "-q", *QUICK) == 0
    files = files_of(base / "run")
    faults = [(rng.choice(files), rng.choice(MUTATIONS), rng.randrange(2**31)) for _ in range(count)]
    for failure in inject(base / "run", photos, QUICK, base / "work", faults):
        yield str(failure)
    print(f"{count} mutations of {len(files)} files, seven commands each")


def disk(count: int, seed: int, base: Path) -> Iterator[str]:
    """Run ``cluster`` on a file system that becomes full, free the space, and repeat it."""
    rng = random.Random(seed)
    photos = write_photos(base / "photos")
    undisturbed = base / "large" / "0"  # as deep as the trials: the page links to the images by a relative path
    undisturbed.mkdir(parents=True)
    assert wait(in_child(words("cluster", photos, undisturbed))) == 0
    reference = content(undisturbed / "run")
    size = sum(map(len, reference.values()))
    mount = base / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={3 * size + (1 << 20)}", "tmpfs", mount], check=True)
    full = 0
    try:
        for trial in range(count):
            work = mount / str(trial)
            work.mkdir()
            ballast = mount / "ballast"
            free = shutil.disk_usage(mount).free
            ballast.write_bytes(bytes(max(0, free - rng.randrange(1, 2 * size))))
            process = subprocess.run(
                [sys.executable, __file__, "_run", *map(str, words("cluster", photos, work))],
                capture_output=True,
                text=True,
                check=False,
            )
            if process.returncode:
                full += 1
                if "Traceback" in process.stderr or "No space left" not in process.stderr:
                    yield f"full disk: {process.stderr.strip()[-300:]}"
            ballast.unlink()
            if wait(in_child(words("cluster", photos, work))) != 0 or content(work / "run") != reference:
                yield f"trial {trial}: another result after space was freed"
            shutil.rmtree(work)
    finally:
        subprocess.run(["umount", mount], check=True)
    print(f"{count} runs, {full} of them ended by a full disk")


def main() -> None:
    if sys.argv[1:2] == ["_run"]:
        sys.exit(run(*sys.argv[2:], "-q"))
    modes: dict[str, Callable[[int, int, Path], Iterator[str]]] = {"mutate": mutations, "kill": kill, "disk": disk}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for failure in modes[arguments.mode](arguments.count, arguments.seed, Path(folder)):
            failures += 1
            print(failure, flush=True)
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
