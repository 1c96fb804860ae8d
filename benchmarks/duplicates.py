"""Near-duplicates: edited copies of photographs, grouped and counted once, against every copy counted.

Each photo is copied with crops, other sizes, JPEG qualities, brightness and mirrored. The copies are embedded and
clustered twice with ``-k auto``: with the groups of near-duplicates, and with every image as its own group.

python benchmarks/duplicates.py PHOTOS LABELS.csv --photos 100 --copies 10 -o FOLDER
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps
from sklearn.metrics import adjusted_rand_score

from cgmcr2 import CgMCR2
from cgmcr2.consensus import choose_k
from cgmcr2.encoders import load_encoder
from cgmcr2.features import extract
from cgmcr2.features.duplicates import find_groups
from cgmcr2.features.sources import Subset
from cgmcr2.images import Catalog


def edit(image: Image.Image, rng: np.random.Generator) -> tuple[Image.Image, int]:
    """One to three random edits of a photo, and the JPEG quality to save it with."""
    quality = 92
    edits = rng.choice(["crop", "size", "quality", "brightness", "mirror"], size=rng.integers(1, 4), replace=False)
    for name in edits:
        if name == "crop":
            share = rng.uniform(0.75, 0.97)
            w, h = round(share * image.width), round(share * image.height)
            x, y = rng.integers(0, image.width - w + 1), rng.integers(0, image.height - h + 1)
            image = image.crop((x, y, x + w, y + h))
        elif name == "size":
            share = rng.uniform(0.4, 0.9)
            image = image.resize((round(share * image.width), round(share * image.height)), Image.Resampling.LANCZOS)
        elif name == "quality":
            quality = int(rng.integers(20, 80))
        elif name == "brightness":
            image = ImageEnhance.Brightness(image).enhance(rng.uniform(0.6, 1.4))
        else:
            image = ImageOps.mirror(image)
    return image, quality


def write_copies(photos: Path, kinds: dict[str, str], per_kind: int, copies: int, folder: Path) -> None:
    """Write the first ``per_kind`` photos of each kind to ``folder``, followed by their edited copies."""
    folder.mkdir(parents=True)
    chosen = defaultdict(list)
    for name, kind in sorted(kinds.items()):
        if len(chosen[kind]) < per_kind:
            chosen[kind].append(name)
    for name in sorted(name for names in chosen.values() for name in names):
        rng = np.random.default_rng(int(Path(name).stem))
        data = (photos / name).read_bytes()
        (folder / f"{Path(name).stem}-00.jpg").write_bytes(data)
        (folder / f"{Path(name).stem}-01.jpg").write_bytes(data)  # an exact copy
        with Image.open(photos / name) as image:
            image = image.convert("RGB")
        for number in range(2, copies):
            edited, quality = edit(image, rng)
            edited.save(folder / f"{Path(name).stem}-{number:02}.jpg", quality=quality)


def pair_scores(groups: np.ndarray, photos: np.ndarray) -> tuple[float, float]:
    """Precision and recall of the pairs of images in one group, against the pairs of copies of one photo."""

    def pairs(*columns: np.ndarray) -> int:
        counts = np.unique(np.stack(columns), axis=1, return_counts=True)[1]
        return int((counts * (counts - 1) // 2).sum())

    both = pairs(groups, photos)
    return both / max(1, pairs(groups)), both / pairs(photos)


def split(groups: np.ndarray, labels: np.ndarray) -> str:
    """How many of the groups of two or more have members in different clusters."""
    members = [labels[groups == first] for first in np.flatnonzero(np.bincount(groups) > 1)]
    return f"{sum(len(np.unique(part)) > 1 for part in members)} of {len(members)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("labels", type=Path, help="CSV file with the columns file and label")
    parser.add_argument("--photos", type=int, default=100, dest="count", help="number of photos, evenly by label")
    parser.add_argument("--copies", type=int, default=10, help="images per photo: the photo, an exact copy, edits")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--choose-only", action="store_true", help="do not train where every copy counts: it is slow")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the copies and their features")
    options = parser.parse_args()
    with options.labels.open(newline="") as file:
        kinds = {row["file"]: row["label"] for row in csv.DictReader(file)}
    if not options.output.exists():
        write_copies(
            options.photos, kinds, options.count // len(set(kinds.values())), options.copies, options.output / "images"
        )
    catalog = Catalog.from_source(options.output / "images")
    store = extract(catalog, load_encoder("bundled"), options.output / "features")
    photo = np.array([int(id.split("-")[0]) for id in store.ids])
    kind = np.unique([kinds[f"{number:04}.jpg"] for number in photo], return_inverse=True)[1]
    start = time.process_time()
    groups = find_groups(store, store.ids, catalog)
    seconds = time.process_time() - start
    precision, recall = pair_scores(groups, photo)
    print(
        f"{len(photo):,} images of {len(np.unique(photo))} photos: {len(np.unique(groups)):,} groups, precision "
        f"{precision:.3f}, recall {recall:.3f}, {seconds:.1f} s of CPU time",
        flush=True,
    )
    originals = np.flatnonzero([id.endswith("-00.jpg") for id in store.ids])
    for seed in range(options.seeds):
        for name, rows, row_groups in (
            ("photos without copies", originals, None),
            ("every group counts once", np.arange(len(photo)), groups),
            ("every copy counts", np.arange(len(photo)), None),
        ):
            start = time.process_time()
            if options.choose_only and name == "every copy counts":
                choice = choose_k(Subset(store, rows), seed=seed)
                print(f"seed {seed}, {name}: k {choice.chosen}, {'clear' if choice.clear else 'not clear'}", flush=True)
                continue
            model = CgMCR2("auto", random_state=seed)
            labels = model.fit_source(Subset(store, rows), groups=row_groups).labels
            seconds = time.process_time() - start
            print(
                f"seed {seed}, {name}: k {model.n_clusters_}, ARI {adjusted_rand_score(kind[rows], labels):.3f}, "
                f"{'clear' if model.choice_.clear else 'not clear'}, {seconds:.0f} s of CPU time"
                + (f", groups in more than one cluster: {split(groups, labels)}" if row_groups is not None else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
