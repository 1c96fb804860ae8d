"""Fault injection at scale: damaged files, ``kill -9``, a full disk and small random sets of photos.

    python benchmarks/faults.py mutate --count 2000   # damaged files of runs and stores, four commands each
    python benchmarks/faults.py kill --count 500      # commands killed at random moments, then repeated
    python benchmarks/faults.py disk --count 50       # needs root: mounts a small tmpfs
    python benchmarks/faults.py draws --count 200 --photos DIR   # cluster -k auto on 2 to 60 random photos

Each prints the number of trials and every failure; the exit code is 1 if there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cgmcr2.cli import run
from cgmcr2.encoders import load_encoder, register_encoder
from colours import write_photos
from fault_injection import MUTATIONS, inject, make_targets

SETTINGS = ("hidden_dim=8", "warmup_epochs=20", "finetune_epochs=10", "n_heads=1", "lr=0.01")
KILLED = ("embed", "cluster", "refit", "fit", "choose-k", "predict", "report", "export", "repair")
QUICK = ["--encoder", "colours", *(word for setting in SETTINGS for word in ("--set", setting))]


def make_photos(folder: Path) -> Path:
    """Write 24 images and a broken one."""
    write_photos(folder, 24)
    (folder / "broken.jpg").write_text("not an image")
    return folder


def words(command: str, photos: Path, work: Path) -> list[object]:
    """The words of a command that writes into ``work``."""
    cluster = ["cluster", photos, "-k", 3, "-o", work / "run", *QUICK]
    more = photos.with_name("more")
    return {
        "embed": ["embed", photos, "--encoder", "colours", "-o", work / "store"],
        "cluster": cluster,
        "refit": ["cluster", more, "-k", 3, "-o", work / "run", "--refit", *QUICK],
        "fit": ["fit", photos.with_name("store"), "-k", "auto", "-o", work / "run", *QUICK[2:]],
        "choose-k": ["choose-k", photos, "-o", work / "run", "--encoder", "colours", "--most", 4],
        "repair": ["doctor", work / "run", "--repair"],
        "report": ["report", work / "run", "--map", "pca"],
        "predict": ["predict", work / "run", photos, "--cache", work / "cache", "-o", work / "new.csv"],
        "export": ["export", work / "run", "-o", work / "sorted"],
    }[command]


def in_child(command: list[object], messages: Path | None = None) -> int:
    """Fork, run a command quietly in the child, and return its process id; its messages go to a file, if given."""
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    if messages:
        os.dup2(os.open(messages, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    code = 99
    try:
        code = run(*command, "-q")
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def wait(child: int) -> int:
    """The exit code of a child, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of all files, without locks and single temporary files of killed processes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in files
        if not p.name.startswith(".") and "cache" not in p.parts
    }


def prepared(work: Path, finished: Path, command: str) -> None:
    """Give ``work`` what ``command`` needs: nothing, the finished run, or a damaged one."""
    work.mkdir()
    if command not in ("embed", "cluster", "fit", "choose-k"):
        shutil.copytree(finished, work / "run")
    if command == "repair":
        for name in ("labels.csv", "errors.csv", "report.html", "features/shard-00000.npy"):
            (work / "run" / name).write_bytes(b"damaged")


def kill(count: int, seed: int, base: Path, names: Sequence[str]) -> Iterator[str]:
    """Kill commands at random moments, repeat them until they finish, and compare with undisturbed runs."""
    rng = random.Random(seed)
    photos = make_photos(base / "photos")
    write_photos(base / "more", 27)
    finished = base / "finished" / "run"
    # in this process, so that the children need not import anything
    assert run("embed", photos, "--encoder", "colours", "-o", base / "store", "-q") == 0
    assert run(*words("cluster", photos, base / "finished"), "-q") == 0
    assert run("predict", finished, photos, "--no-cache", "-o", base / "new.csv", "-q") == 0
    reference, seconds = {}, {}
    for name in names:
        work = base / f"reference-{name}"
        prepared(work, finished, name)
        start = time.perf_counter()
        assert wait(in_child(words(name, photos, work))) == 0, name
        seconds[name] = time.perf_counter() - start
        reference[name] = content(work)
    kills = dict.fromkeys(names, 0)
    trial = 0
    while sum(kills.values()) < count:
        name = names[trial % len(names)]
        work = base / f"trial-{trial:04}"
        prepared(work, finished, name)
        code = _run_killed(name, photos, work, rng, seconds[name], kills)
        if name == "export" and code == 2:
            shutil.rmtree(work / "sorted")  # finished before the kill: an export never overwrites
            code = wait(in_child(words(name, photos, work)))
        if code:
            yield f"{name}: exit code {code} after a kill"
        result = content(work)
        if result != reference[name]:
            different = sorted(
                k for k in result.keys() | reference[name].keys() if result.get(k) != reference[name].get(k)
            )
            yield f"{name}: {different[:5]} differ after a kill"
        shutil.rmtree(work)
        trial += 1
    print(f"{sum(kills.values())} kills: {kills}")


def _run_killed(name: str, photos: Path, work: Path, rng: random.Random, seconds: float, kills: dict[str, int]) -> int:
    """Run a command, kill it up to three times, repeat it until it ends, and return its exit code."""
    for attempt in range(4):
        child = in_child(words(name, photos, work))
        if attempt < 3:
            time.sleep(rng.uniform(0, seconds))
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        code = wait(child)
        if code != -signal.SIGKILL:
            return code
        kills[name] += 1
    return code


def mutations(count: int, seed: int, base: Path, commands: int) -> Iterator[str]:
    """Damage files of runs and stores, and run a random sample of the commands that read them on each copy."""
    rng = random.Random(seed)
    photos = make_photos(base / "photos")
    targets = make_targets(photos, QUICK, base / "targets")
    files = [(name, file) for name, target in targets.items() for file in target.files()]
    faults: dict[str, list[tuple[str, str, int]]] = {name: [] for name in targets}
    for number in range(count):
        name, file = files[number % len(files)]
        faults[name].append((file, rng.choice(MUTATIONS), rng.randrange(2**31)))
    for name, target in targets.items():
        executed: Counter[str] = Counter()
        for outcome in inject(target, base / "work", faults[name], commands, slow=1 / 16):
            if isinstance(outcome, str):
                executed[outcome] += 1
            else:
                executed[outcome.command] += 1
                yield f"{name}: {outcome}"
        print(f"{name}: {len(faults[name])} mutations of {len(target.files())} files, {dict(executed)}", flush=True)


class RememberingEncoder:
    """An encoder that encodes each image once, to cluster many subsets of the same photos quickly."""

    def __init__(self, name: str) -> None:
        self.encoder = load_encoder(name)
        self.name, self.fingerprint = "remembering", self.encoder.fingerprint
        self.dim, self.image_size = self.encoder.dim, self.encoder.image_size
        self.features: dict[bytes, Any] = {}

    def preprocess(self, image: Image.Image) -> Any:
        return self.encoder.preprocess(image)

    def encode(self, batch: Any) -> Any:
        keys = [hashlib.sha256(np.ascontiguousarray(image).tobytes()).digest() for image in batch]
        new = [row for row, key in enumerate(keys) if key not in self.features]
        if new:
            self.features |= {
                keys[row]: features for row, features in zip(new, self.encoder.encode(batch[new]), strict=True)
            }
        return np.stack([self.features[key] for key in keys])


def draws(count: int, seed: int, base: Path, photos: Path) -> Iterator[str]:
    """Run ``cluster -k auto`` on random subsets of 2 to 60 photos, every tenth with the default settings."""
    rng = random.Random(seed)
    encoder = RememberingEncoder("bundled")
    register_encoder("remembering", lambda **_: encoder)
    paths = sorted(photos.iterdir())
    codes: dict[int, int] = {}
    chosen: dict[str, int] = {}
    for number in range(count):
        sample = rng.sample(paths, rng.randint(2, min(60, len(paths))))
        listing = base / f"draw-{number}.txt"
        listing.write_text("".join(f"{path}\n" for path in sample))
        quick = [] if number % 10 == 0 else ["--encoder", "remembering", *QUICK[2:]]
        error, printed = io.StringIO(), io.StringIO()
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(printed):
            try:
                code = run("cluster", listing, "-k", "auto", "-o", base / "run", "-q", *quick)
            except BaseException:
                code = -1
                error.write(traceback.format_exc())
        if code:
            yield f"{len(sample)} photos: exit code {code}: {error.getvalue().strip()[-500:]}"
        codes[code] = codes.get(code, 0) + 1
        verdict = printed.getvalue().split(".")[0]
        chosen[verdict] = chosen.get(verdict, 0) + 1
        shutil.rmtree(base / "run", ignore_errors=True)
        print(f"{number + 1} draws, {codes.get(0, 0)} with exit code 0", file=sys.stderr, flush=True)
    print(f"{count} draws, exit codes {codes}")
    for verdict, times in sorted(chosen.items(), key=lambda item: -item[1]):
        print(f"{times:4}  {verdict}")


def disk(count: int, seed: int, base: Path) -> Iterator[str]:
    """Run ``cluster`` on a file system that becomes full, free the space, and repeat it."""
    rng = random.Random(seed)
    photos = make_photos(base / "photos")
    undisturbed = base / "large" / "0"  # as deep as the trials: the page links to the images by a relative path
    undisturbed.mkdir(parents=True)
    assert run(*words("cluster", photos, undisturbed), "-q") == 0
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
            if wait(in_child(words("cluster", photos, work), base / "messages")):
                full += 1
                messages = (base / "messages").read_text()
                if "Traceback" in messages or "No space left" not in messages:
                    yield f"full disk: {messages.strip()[-300:]}"
            ballast.unlink()
            if wait(in_child(words("cluster", photos, work))) != 0 or content(work / "run") != reference:
                yield f"trial {trial}: another result after space was freed"
            shutil.rmtree(work)
    finally:
        subprocess.run(["umount", mount], check=True)
    print(f"{count} runs, {full} of them ended by a full disk")


def main() -> None:
    modes: dict[str, Callable[..., Iterator[str]]] = {"mutate": mutations, "kill": kill, "disk": disk, "draws": draws}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=modes)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--photos", type=Path, help="folder of photos for draws")
    parser.add_argument("--only", default=",".join(KILLED), help="commands to kill, separated by commas")
    parser.add_argument(
        "--commands",
        type=int,
        default=4,
        help="commands per mutation, drawn at random; those that train are added to one mutation in 16",
    )
    arguments = parser.parse_args()
    extra = {
        "kill": {"names": arguments.only.split(",")},
        "draws": {"photos": arguments.photos},
        "mutate": {"commands": arguments.commands},
    }.get(arguments.mode, {})
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for failure in modes[arguments.mode](arguments.count, arguments.seed, Path(folder), **extra):
            failures += 1
            print(failure, flush=True)
    print(f"{failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
