"""Check a run folder or feature store, and rebuild what can be rebuilt."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

from cgmcr2 import _checksums
from cgmcr2._files import read_json
from cgmcr2.clustering.io import FILES as CLUSTERING_FILES
from cgmcr2.clustering.io import ClusterNames, read_duplicate_of, save_clustering
from cgmcr2.encoders import load_encoder
from cgmcr2.estimator import CgMCR2
from cgmcr2.features import FeatureStore, extract
from cgmcr2.features.duplicates import FILE_NAME as DUPLICATES
from cgmcr2.features.duplicates import read_groups, write_groups
from cgmcr2.features.manifest import FILE_NAME as MANIFEST
from cgmcr2.features.sources import load_feature_file

from .fit import fitted_clustering
from .folder import LEVELS, MODEL_FILES, RunFolder, StrPath
from .inputs import select_part
from .refine import REFINED


@dataclasses.dataclass(frozen=True)
class Finding:
    """A damaged file, what is wrong with it, and what rebuilds it."""

    file: str
    problem: str
    remedy: str
    repairable: bool = False  # whether ``repair`` can rebuild it from the other files


def check_run(path: StrPath) -> list[Finding]:
    """Verify every file of a run folder."""
    run = RunFolder(path)
    try:
        info = run.info
    except (OSError, ValueError) as error:
        return [Finding("run.json", str(error), "repeat the run in another folder")]
    if not info.finished:
        return [Finding("run.json", "the run is unfinished", "repeat its command to resume it")]
    try:
        checksums = _checksums.read_checksums(run.path)
    except ValueError as error:
        return [Finding(_checksums.FILE_NAME, str(error), "repeat the run in another folder")]
    if checksums is None:
        problem = "is missing, so no file can be verified"
        return [Finding(_checksums.FILE_NAME, problem, "repeat the run in another folder")]
    damage = _checksums.find_damage(run.path)
    findings = check_store(run.store) if run.store.is_dir() else []
    usable = not findings and not any(name in damage for name in MODEL_FILES)
    usable = usable and not {"labels.csv", DUPLICATES} <= damage.keys()  # either can be rebuilt from the other
    remedies = {
        **dict.fromkeys(CLUSTERING_FILES, ("the file is computed again from the model and the features", usable)),
        DUPLICATES: ("the file is written again from labels.csv", "labels.csv" not in damage),
        **dict.fromkeys(MODEL_FILES, ("repeat the run in another folder", False)),
        LEVELS: ("repeat the run in another folder, or use it without --level", False),
        "report.html": ("the page is written again", True),
        "metrics.jsonl": ("the file is deleted; the report then has no learning curves", True),
        "errors.csv": ("the file is written again from the feature store", True),
        "choice.json": ("the file is deleted; run.json holds the same choice", True),
    }
    for name, problem in damage.items():
        default = "undo the refinement" if name.startswith(REFINED) else "repeat the run in another folder"
        remedy, repairable = remedies.get(name, (default, False))
        findings.append(Finding(name, problem, remedy, repairable))
    if not findings:
        try:
            RunFolder(path).model()
        except ValueError as error:  # of another version
            findings.append(Finding(MODEL_FILES[0], str(error), "repeat the run in another folder"))
    if not findings:  # edits can only be replayed over intact labels
        try:
            RunFolder(path).clustering  # noqa: B018 - reads the edits
        except ValueError as error:
            findings.append(Finding(run.edits.name, str(error), "use the fitted clusters with --without-edits"))
    return findings


def check_store(path: StrPath) -> list[Finding]:
    """Verify every file of a feature store."""
    name = Path(path).name
    try:
        FeatureStore.open(path).verify()
    except (OSError, ValueError) as error:
        return [Finding(name, str(error), "the damaged shards are embedded again from the images", True)]
    return []


def compact_store(path: StrPath) -> int:
    """Compact a feature store, or that of a run folder on images; return the number of bytes that were freed."""
    run = None if (Path(path) / MANIFEST).is_file() else RunFolder(path)
    store = Path(path) if run is None else run.store
    if not store.is_dir():
        raise ValueError(f"{path} has no feature store of its own; give the store that it was fitted on.")
    with run.lock() if run else contextlib.nullcontext():
        before = _folder_bytes(store)
        FeatureStore.open(store).compact()
        return before - _folder_bytes(store)


def _folder_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())


def repair_run(path: StrPath, *, progress: bool = False) -> list[Finding]:
    """Rebuild the damaged files of a run folder that can be rebuilt; return the findings that remain."""
    run = RunFolder(path)
    findings = check_run(path)
    damaged = {finding.file for finding in findings if finding.repairable}
    if not damaged:
        return findings
    with run.lock():
        if run.store.name in damaged:
            extract(run.source_catalog(), load_encoder(run.info.encoder_name or ""), run.store, progress=progress)
        findings = check_run(path)
        damaged = {finding.file for finding in findings if finding.repairable}
        for names, rebuild in _REBUILD:
            if damaged.intersection(names):
                rebuild(run)
                run.seal([name for name in names if name in damaged or name in CLUSTERING_FILES])
    return check_run(path)


def _rebuild_labels(run: RunFolder) -> None:
    """Write the clustering again, with the names of the clusters if they can still be read."""
    model = CgMCR2.load(run.model_folder)
    location = run.store if run.store.is_dir() else run.info.source
    part = {"split 0": "train", "split 1": "test"}.get(run.info.fitted_on.part, "all")
    source, ids, _ = select_part(load_feature_file(location), part)
    groups = read_groups(run.path, run.info.features)
    clustering = fitted_clustering(ids, model.infer(source), model.n_clusters_, groups)
    names = run.path / "clusters.json"
    if "clusters.json" not in _checksums.find_damage(run.path, ["clusters.json"]):
        saved = read_json(names, ClusterNames, advice="delete it")
        clustering = clustering.with_names(saved.names)
    save_clustering(clustering, run.path)


def _rebuild_groups(run: RunFolder) -> None:
    write_groups(run.path, read_duplicate_of(run.labels), run.info.features or "")


def _rebuild_errors(run: RunFolder) -> None:
    store = FeatureStore.open(run.store)
    if store.errors:
        store.write_errors_csv(run.errors)
    else:
        run.errors.unlink(missing_ok=True)


def _drop(name: str) -> Callable[[RunFolder], None]:
    return lambda run: (run.path / name).unlink(missing_ok=True)


_REBUILD: tuple[tuple[tuple[str, ...], Callable[[RunFolder], None]], ...] = (
    ((DUPLICATES,), _rebuild_groups),
    (CLUSTERING_FILES, _rebuild_labels),
    (("errors.csv",), _rebuild_errors),
    (("metrics.jsonl",), _drop("metrics.jsonl")),
    (("choice.json",), _drop("choice.json")),
)
