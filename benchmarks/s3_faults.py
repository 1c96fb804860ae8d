"""The command line on images of an S3 server that throttles, stalls and truncates, with corrupt images among them.

    python benchmarks/s3_faults.py --images 400 --corrupt 20

The server is that of moto on this machine. The same images are stored as objects, as WebDataset tars and as Parquet
files. Of every eight requests for a new object or range, seven first fail, up to three times: with 503, with a body
that ends early, or with one that is shorter than listed. Some objects do not answer before the timeout, and some always
fail. For each source, ``embed``, ``cluster`` and ``predict`` run as a user would type them, and ``embed`` meets the
faults. The features must equal those of a local folder, ``errors.csv`` must list exactly the corrupt images and those
that always fail, and the report must show thumbnails. The exit code is 1 otherwise.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import logging
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cgmcr2.features import FeatureStore
from faulty_s3 import BUCKET, FaultyS3, faulty_s3

FAULTS = [["503", "503"], ["cut"], ["short", "503"], [], ["503"], ["cut", "short"], ["short"], ["503", "503", "503"]]
SHARDS = 4


def make_images(count: int, corrupt: int) -> tuple[dict[str, bytes], set[str]]:
    """JPEG files of three colours by name, and the names of those that are corrupt."""
    noise = np.random.default_rng(0)
    files: dict[str, bytes] = {}
    for number in range(count):
        pixels = noise.integers(0, 60, (96, 128, 3))
        pixels[..., number % 3] += 180
        file = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(file, "JPEG")
        files[f"{number:04}.jpg"] = file.getvalue()
    names = sorted(noise.choice(sorted(files), corrupt, replace=False))
    for number, name in enumerate(names):
        data = files[name]
        files[name] = (b"", b"<html>not found</html>", data[: len(data) // 3], noise.bytes(2000))[number % 4]
    return files, {str(name) for name in names}


def upload(
    client: Any, faults: FaultyS3, files: dict[str, bytes], corrupt: set[str], failing: set[str]
) -> dict[str, set[str]]:
    """Store the images in three formats and plan the faults; return the ids that must be listed, by source."""
    cycle = itertools.cycle(FAULTS)
    for name, data in files.items():
        client.put_object(Bucket=BUCKET, Key=f"photos/{name}", Body=data)
        faults.plan(f"photos/{name}", next(cycle))
    for name in list(files)[10::50]:
        faults.plan(f"photos/{name}", ["slow"])
    for name in failing:
        faults.plan(f"photos/{name}", itertools.repeat("503"))
    in_tars, in_tables = set[str](), set[str]()
    for shard, part in enumerate(np.array_split([name for name in files if name not in failing], SHARDS)):
        tar, table = io.BytesIO(), io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            for name in part:
                for member, data in ((name, files[name]), (name.replace(".jpg", ".json"), b"{}")):
                    info = tarfile.TarInfo(str(member))
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        images = [{"bytes": files[name], "path": str(name)} for name in part]
        pq.write_table(pa.table({"image": images}), table, row_group_size=32)
        for key, body in ((f"tars/{shard:03}.tar", tar), (f"parquet/{shard:03}.parquet", table)):
            client.put_object(Bucket=BUCKET, Key=key, Body=body.getvalue())
            faults.range_faults[key] = itertools.cycle(FAULTS)
        in_tars |= {f"{shard:03}/{name}" for name in part if name in corrupt}
        in_tables |= {f"{shard:03}/{row}" for row, name in enumerate(part) if name in corrupt}
    faults.plan("", ["503", "503"])
    return {"photos": corrupt | failing, "tars/{000..003}.tar": in_tars, "parquet": in_tables}


def command(*arguments: object) -> tuple[dict[str, Any], float]:
    """Run a command of cgmcr2 in a new process, and return its JSON output and the seconds it took."""
    start = time.perf_counter()
    words = [sys.executable, "-m", "cgmcr2", *map(str, arguments), "--json", "-q"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    text = result.stdout + result.stderr
    if result.returncode:
        raise SystemExit(f"{' '.join(words[2:])} failed: {text}")
    if any(secret in text for secret in ("test-secret", "Signature", "Traceback")):
        raise SystemExit(f"{' '.join(words[2:])} printed a secret or a traceback: {text}")
    return json.loads(result.stdout), time.perf_counter() - start


def error_ids(path: Path) -> dict[str, str]:
    with open(path, encoding="utf-8", newline="") as file:
        return {row[0]: row[1] for row in list(csv.reader(file))[1:]}


def check(source: str, expected: set[str], reference: FeatureStore, folder: Path) -> Iterator[str]:
    """Run the commands on one source; yield what is wrong."""
    output, seconds = command("embed", source, "-o", folder / "store")
    store = FeatureStore.open(folder / "store")
    errors = error_ids(folder / "store" / "errors.csv")
    print(f"{source}: embedded {output['rows']:,}, listed {output['unreadable']}, {seconds:.0f} s", flush=True)
    for reason, count in Counter(re.sub(r"\(.*?\)", "(...)", reason) for reason in errors.values()).items():
        print(f"    {count} x {reason}")
    if set(errors) != expected:
        yield f"errors.csv lists {sorted(set(errors) ^ expected)} wrongly"
    if not np.array_equal(store[:], reference[:]):
        yield "the features differ from those of the local folder"
    cluster, seconds = command("cluster", source, "-k", 3, "-o", folder / "run")
    thumbnails = (folder / "run" / "report.html").read_text(encoding="utf-8").count("UklGR")  # base64 of a WebP file
    predict, more = command("predict", folder / "run", source, "--no-cache", "-o", folder / "new.csv")
    print(f"    cluster {seconds:.0f} s with {thumbnails} thumbnails; predict {more:.0f} s, {predict['rows']:,} labels")
    if thumbnails < len(store) or predict["rows"] != len(store) or cluster["unreadable"] != len(expected):
        yield "cluster, predict or the thumbnails of the report miss images"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--corrupt", type=int, default=20)
    options = parser.parse_args()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    os.environ["FSSPEC_S3"] = json.dumps({"config_kwargs": {"read_timeout": 5}})
    files, corrupt = make_images(options.images, options.corrupt)
    failing = set([name for name in files if name not in corrupt][5::100])
    problems = 0
    with tempfile.TemporaryDirectory() as temporary, faulty_s3(slow_seconds=8) as (faults, client):
        root = Path(temporary)
        (root / "local").mkdir()
        for name, data in files.items():
            if name not in failing:
                (root / "local" / name).write_bytes(data)
        command("embed", root / "local", "-o", root / "reference")
        reference = FeatureStore.open(root / "reference")
        for number, (path, expected) in enumerate(upload(client, faults, files, corrupt, failing).items()):
            for problem in check(f"s3://{BUCKET}/{path}", expected, reference, root / str(number)):
                print(f"PROBLEM: {problem}", flush=True)
                problems += 1
        print("Injected:", ", ".join(f"{count} x {fault}" for fault, count in sorted(faults.injected.items()) if fault))
    print(f"{problems} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
