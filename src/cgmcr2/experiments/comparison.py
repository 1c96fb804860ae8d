"""Compare methods on one feature file over several seeds. Interrupted comparisons are resumed."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cgmcr2._files import write_json, write_text
from cgmcr2.baselines import METHODS
from cgmcr2.baselines.base import missing_package
from cgmcr2.pretrain.estimators import CLUSTERERS

from .choices import CompareProtocol
from .formats import csv_table, markdown_table
from .image_files import is_image_file, load_input_file
from .job import (
    NO_TEXT_EMBEDDINGS,
    Job,
    JobResult,
    check_settings,
    complete_settings,
    method_names,
    text_embeddings,
)
from .plotting import COLORS, MARKERS, new_figure, save_figure
from .runner import run_missing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = {"acc": "ACC", "nmi": "NMI", "ari": "ARI"}
MEASURES = (*SCORES, "silhouette", "clusters", "seconds", "memory_mb")  # keys of a run's result
NUMBERS = {"clusters": 0, "seconds": 1, "memory_mb": 0}  # measures without a deviation, and their decimals


@dataclasses.dataclass(frozen=True)
class MethodSummary:
    """One row of a comparison: mean and standard deviation of each measure over the finished seeds.

    ``measures["seed_ari"]`` is the adjusted Rand index between the labels of two seeds, over all pairs of seeds.
    """

    method: str
    seeds: int
    measures: dict[str, tuple[float, float]]
    protocol: str = ""
    note: str = ""  # why the method, or one of its seeds, has no result


@dataclasses.dataclass
class Comparison:
    """Results of a comparison; ``skipped`` maps each method that was left out to the reason."""

    folder: Path
    results: list[JobResult]
    skipped: dict[str, str]

    @property
    def has_results(self) -> bool:
        """Whether at least one run has finished."""
        return any("error" not in result for result in self.results)

    def summaries(self) -> list[MethodSummary]:
        """Return one row per method; methods that were left out are last."""
        methods = dict.fromkeys(result["method"] for result in self.results)
        skipped = [MethodSummary(method, 0, {}, note=f"left out: {reason}") for method, reason in self.skipped.items()]
        return [*(self._summarize(method) for method in methods), *skipped]

    def _summarize(self, method: str) -> MethodSummary:
        results = [result for result in self.results if result["method"] == method]
        finished = [result for result in results if "error" not in result]
        values = {name: [result[name] for result in finished if result.get(name) is not None] for name in MEASURES}
        values["seed_ari"] = seed_ari([self.folder / "labels" / f"{method}-{run['seed']}.npy" for run in finished])
        measures = {name: (float(np.mean(v)), float(np.std(v))) for name, v in values.items() if v}
        note = "; ".join(f"seed {result['seed']} failed: {result['error']}" for result in results if "error" in result)
        return MethodSummary(method, len(finished), measures, finished[0]["protocol"] if finished else "", note)

    def markdown(self) -> str:
        """Return a Markdown table of mean ± standard deviation in percent, followed by the protocols."""
        table = self.summaries()
        has_scores = any("acc" in row.measures for row in table)
        columns = SCORES if has_scores else {"silhouette": "silhouette"}
        if any("seed_ari" in row.measures for row in table):
            columns = {**columns, "seed_ari": "ARI between seeds"}
        protocols = list(dict.fromkeys(row.protocol for row in table if row.protocol))
        cells = []
        for row in table:
            mark = f"({protocols.index(row.protocol) + 1}) " if row.protocol else ""
            percentages = [_percent(row.measures.get(name), row.seeds) for name in columns]
            numbers = [_number(row.measures.get(name), digits) for name, digits in NUMBERS.items()]
            cells.append([row.method, str(row.seeds), *percentages, *numbers, f"{mark}{row.note}".strip()])
        header = ["method", "seeds", *(f"{title} %" for title in columns.values())]
        header += ["clusters", "seconds", "memory, MB", "protocol"]
        lines = [markdown_table(header, cells, align=f"l{'r' * (len(header) - 2)}l"), ""]
        lines += [f"({i}) {protocol}; mean ± std over the seeds" for i, protocol in enumerate(protocols, 1)]
        if not has_scores:
            lines.append("Silhouette: cosine distance, on a sample of at most 2,000 rows.")
        if "seed_ari" in columns:
            lines.append("ARI between seeds: adjusted Rand index between the labels of two seeds.")
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Return the table as CSV, with scores from 0 to 1 and two columns per measure: mean and std."""
        names = [*SCORES, "silhouette", "seed_ari", *NUMBERS]
        header = ["method", "seeds", *(f"{name}_{kind}" for name in names for kind in ("mean", "std"))]
        rows = []
        for row in self.summaries():
            measures = [number for name in names for number in row.measures.get(name, ("", ""))]
            rows.append([row.method, row.seeds, *measures, row.protocol, row.note])
        return csv_table([*header, "protocol", "note"], rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the rows of the table as JSON-serialisable values."""
        return {"folder": str(self.folder), "methods": [dataclasses.asdict(row) for row in self.summaries()]}

    def save(self) -> str | None:
        """Write ``table.md``, ``table.csv``, ``plot.png`` and ``plot.svg``; return why there is no plot, or None."""
        write_text(self.folder / "table.md", self.markdown())
        write_text(self.folder / "table.csv", self.csv())
        return self.draw()

    def draw(self) -> str | None:
        """Draw the scores as ``plot.png`` and ``plot.svg``; return why there is no plot, or None."""
        table = self.summaries()
        names = [name for name in SCORES if any(name in row.measures for row in table)] or ["silhouette"]
        scored = [row for row in table if names[0] in row.measures]
        if not scored:
            return "No plot: no run has finished."
        try:
            figure = draw_scores(sorted(scored, key=lambda row: row.measures[names[0]][0]), names)
        except ImportError as error:
            return f"No plot: {error}"
        save_figure(figure, self.folder / "plot", formats=("png", "svg"))
        return None


def draw_scores(table: Sequence[MethodSummary], names: Sequence[str]) -> Figure:
    """Plot the scores ``names`` of each method with error bars; the last method is on top."""
    figure = new_figure(7, 1.2 + 0.35 * len(table))
    axes = figure.subplots()
    for index, name in enumerate(names):
        offset = (index - (len(names) - 1) / 2) * 0.18  # keeps the error bars apart
        points = [(height, *row.measures[name]) for height, row in enumerate(table) if name in row.measures]
        axes.errorbar(
            [100 * mean for _, mean, _ in points],
            [height + offset for height, _, _ in points],
            xerr=[100 * std for _, _, std in points],
            fmt=MARKERS[index],
            color=COLORS[index],
            capsize=3,
            label=f"{SCORES.get(name, name)} %",
        )
    axes.set_yticks(range(len(table)), [f"{row.method} ({row.measures['seconds'][0]:,.0f} s)" for row in table])
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    return figure


def compare(
    features: str | os.PathLike[str],
    n_clusters: int,
    folder: str | os.PathLike[str],
    *,
    methods: Sequence[str] = ("all",),
    seeds: int = 3,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    protocol: CompareProtocol = "unseen",
    labels: str = "labels",
    limit: float | None = None,
    in_process: bool = False,
    progress: bool = False,
) -> Comparison:
    """Run methods on a feature file and save their results in ``folder``. Finished runs are not repeated.

    If the file has a split, split 1 is scored. Without a split, all rows are fitted and scored.

    Parameters
    ----------
    features : path
        Feature file, feature store, or .npz with ``images`` uint8 (n, size, size, 3). Of images, methods on features
        take the pixels.
    n_clusters : int
        Number of clusters.
    folder : path
        Output folder. A run is repeated if its settings, including defaults, have changed since.
    methods : sequence of str
        Names of methods. ``"all"`` stands for ``auto``, ``consensus`` and every baseline, without the presets
        ``paper`` and ``reference``.
    seeds : int
        Runs per method, with seeds 0, 1, ...
    settings : mapping of str to mapping
        Settings by method, which replace the defaults.
    protocol : {"unseen", "all"}
        "unseen" fits split 0 and predicts split 1. "all" fits both splits and scores the labels of split 1, as for a
        fixed collection of images.
    labels : str
        Name of the label array in the file. Labels are used for scores only.
    limit : float, optional
        Time limit of a run in seconds. A run that fails, crashes or exceeds the limit is reported with the reason and
        retried next time.
    in_process : bool
        Run in this process instead of one process per run; see ``run_missing``.
    progress : bool
        Show a progress bar.

    Returns
    -------
    comparison : Comparison
    """
    if seeds < 1:
        raise ValueError(f"The number of seeds is {seeds}; give at least 1.")
    if not methods:
        raise ValueError("No method was given; name some, or give 'all'.")
    method_settings = {method: dict(values) for method, values in (settings or {}).items()}
    file = load_input_file(features, labels=labels)
    images = is_image_file(file)
    names = _resolve_methods(methods, method_settings, images=images)
    if labels != "labels" and file.labels is None:
        raise ValueError(f"{os.fspath(features)} has no array {labels!r} of labels.")
    folder = Path(folder)
    source = str(Path(features).resolve())
    skipped = {name: reason for name in names if name in METHODS and (reason := missing_package(METHODS[name]))}
    names = [name for name in names if name not in skipped]
    if "tac" in names and "text" not in method_settings.get("tac", {}) and text_embeddings(source) is None:
        skipped["tac"] = NO_TEXT_EMBEDDINGS
        names.remove("tac")
    shape = list(file.features.shape)
    n, D = len(file.rows("all" if protocol == "all" else "train")) or shape[0], math.prod(shape[1:])
    del file  # each run loads the file itself
    if not 1 <= n_clusters <= n:
        raise ValueError(
            f"The number of clusters must be from 1 to the number of fitted rows, {n:,}, not {n_clusters}."
        )
    jobs = [
        Job(
            source,
            method,
            seed,
            n_clusters,
            method_settings.get(method, {}),
            labels,
            str(folder.resolve()),
            fit_all=protocol == "all",
        )
        for seed in range(seeds)
        for method in names
    ]
    for job in jobs[: len(names)]:
        try:
            check_settings(job, n, D)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{job.method}: {error}") from None
    request = {"features": source, "shape": shape, "n_clusters": n_clusters, "labels": labels, "protocol": protocol}
    _claim_folder(folder, request)
    complete = [(job, complete_settings(job, n, D)) for job in jobs]
    results = run_missing(complete, folder, limit=limit, in_process=in_process, progress=progress)
    return Comparison(folder, [results[job.key] for job in jobs], skipped)


def seed_ari(paths: Sequence[Path]) -> list[float]:
    """Return the adjusted Rand index of each pair of label files that exist."""
    from sklearn.metrics import adjusted_rand_score

    labels = [np.load(path) for path in paths if path.exists()]
    return [float(adjusted_rand_score(a, b)) for a, b in itertools.combinations(labels, 2)]


def _resolve_methods(methods: Sequence[str], settings: Mapping[str, Any], *, images: bool = False) -> list[str]:
    """Expand ``"all"``, remove duplicates and reject unknown names; some methods take images only."""
    names = method_names()
    for name in (*methods, *settings):
        if name not in names and name != "all":
            similar = difflib.get_close_matches(name.lower(), names, n=1)
            hint = f"did you mean {similar[0]!r}?" if similar else f"choose from all, {', '.join(names)}."
            raise ValueError(f"There is no method named {name!r}; {hint}")
        if name in CLUSTERERS and not images:
            raise ValueError(f"{name} clusters images, but the file has features; give an .npz with 'images'.")
    excluded = ("paper", "reference") if images else ("paper", "reference", *CLUSTERERS)
    default = [name for name in names if name not in excluded]
    chosen = list(dict.fromkeys(method for name in methods for method in (default if name == "all" else [name])))
    for name in settings:
        if name not in chosen:
            raise ValueError(f"There are settings of {name}, which is not compared; add it to the methods.")
    return chosen


def _claim_folder(folder: Path, request: dict[str, Any]) -> None:
    """Record the request in a new folder, or check that an existing folder belongs to the same request."""
    path = folder / "compare.json"
    if path.exists():
        old = json.loads(path.read_text(encoding="utf-8"))
        changes = [
            f"{name} was {old.get(name)}, is {value} now" for name, value in request.items() if old.get(name) != value
        ]
        if changes:
            raise ValueError(
                f"{folder} holds another comparison ({'; '.join(changes)}); choose another folder, or delete it."
            )
    elif folder.exists() and any(path.name != "features" for path in folder.iterdir()):  # embeddings of the command
        raise ValueError(f"{folder} is not empty and holds no comparison; choose a new folder.")
    else:
        write_json(path, request)


def _percent(measure: tuple[float, float] | None, seeds: int) -> str:
    if measure is None:
        return ""
    return f"{100 * measure[0]:.1f}" + (f" ± {100 * measure[1]:.1f}" if seeds > 1 else "")


def _number(measure: tuple[float, float] | None, digits: int) -> str:
    return "" if measure is None else f"{measure[0]:,.{digits}f}"
