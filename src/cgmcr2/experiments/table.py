"""Runs to one row a method: as Markdown, as CSV, as a plot."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from cgmcr2._files import replacing

Runs = list[dict[str, Any]]
PERCENT = {"acc": "ACC", "nmi": "NMI", "ari": "ARI", "silhouette": "silhouette", "agreement": "agreement"}


def rows(runs: Runs, skipped: dict[str, str], labels: Path) -> list[dict[str, Any]]:
    """One row a method: mean and std of its finished seeds, its protocol, and what went wrong."""
    found = []
    for method in dict.fromkeys(run["method"] for run in runs):
        own = [run for run in runs if run["method"] == method]
        done = [run for run in own if "error" not in run]
        row: dict[str, Any] = {"method": method, "seeds": len(done)}
        for name in ("acc", "nmi", "ari", "silhouette", "seconds", "memory_mb"):
            values = [run[name] for run in done if run.get(name) is not None]
            row[name] = (float(np.mean(values)), float(np.std(values))) if values else None
        row["agreement"] = agreement([labels / f"{method}-{run['seed']}.npy" for run in done])
        row["protocol"] = done[0]["protocol"] if done else ""
        row["note"] = "; ".join(f"seed {run['seed']} failed: {run['error']}" for run in own if "error" in run)
        found.append(row)
    return [*found, *({"method": method, "seeds": 0, "note": f"left out: {why}"} for method, why in skipped.items())]


def agreement(paths: list[Path]) -> tuple[float, float] | None:
    """Mean and std of the adjusted Rand index between the labels of two seeds."""
    from sklearn.metrics import adjusted_rand_score

    all_labels = [np.load(path) for path in paths if path.exists()]
    pairs = [adjusted_rand_score(a, b) for a, b in itertools.combinations(all_labels, 2)]
    return (float(np.mean(pairs)), float(np.std(pairs))) if pairs else None


def to_markdown(runs: Runs, skipped: dict[str, str], labels: Path) -> str:
    """A table of percentages, mean ± std; then the protocols and notes."""
    table = rows(runs, skipped, labels)
    judged = any(row.get("acc") for row in table)
    names = ["acc", "nmi", "ari"] if judged else ["silhouette"]
    names += ["agreement"] if any(row.get("agreement") for row in table) else []
    heads = ["method", "seeds", *(f"{PERCENT[name]} %" for name in names), "seconds", "memory, MB", "protocol"]
    protocols = list(dict.fromkeys(row["protocol"] for row in table if row.get("protocol")))
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 2)} --- |"]
    for row in table:
        cells = [row["method"], str(row["seeds"])]
        cells += [_percent(row.get(name), row["seeds"]) for name in names]
        cells += [_number(row.get("seconds"), 1), _number(row.get("memory_mb"), 0)]
        marks = [f"({protocols.index(row['protocol']) + 1})"] if row.get("protocol") else []
        lines.append(f"| {' | '.join([*cells, ' '.join([*marks, row['note']]).strip()])} |")
    lines += ["", *(f"({i}) {protocol}; mean ± std over the seeds" for i, protocol in enumerate(protocols, 1))]
    if not judged:
        lines.append("Silhouette: cosine distance, a sample of at most 2,000 rows.")
    if "agreement" in names:
        lines.append("Agreement: adjusted Rand index between the labels of two seeds.")
    return "\n".join(lines) + "\n"


def _percent(value: tuple[float, float] | None, seeds: int) -> str:
    if value is None:
        return ""
    return f"{100 * value[0]:.1f}" + (f" ± {100 * value[1]:.1f}" if seeds > 1 else "")


def _number(value: tuple[float, float] | None, digits: int) -> str:
    return "" if value is None else f"{value[0]:,.{digits}f}"


def to_csv(runs: Runs, skipped: dict[str, str], labels: Path) -> str:
    """As numbers from 0 to 1, with a column for each mean and each std."""
    names = ["acc", "nmi", "ari", "silhouette", "agreement", "seconds", "memory_mb"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [f"{name}_{kind}" for name in names for kind in ("mean", "std")]
    writer.writerow(["method", "seeds", *heads, "protocol", "note"])
    for row in rows(runs, skipped, labels):
        values = [value for name in names for value in (row.get(name) or ("", ""))]
        writer.writerow([row["method"], row["seeds"], *values, row.get("protocol", ""), row["note"]])
    return text.getvalue()


def draw(runs: Runs, folder: Path) -> str | None:
    """``plot.png`` and ``plot.svg``: the scores of each method with their std, best above; or why there is none."""
    try:
        import matplotlib
    except ImportError:
        return "There is no plot, since matplotlib is not installed; get it with: pip install 'cgmcr2[viz]'"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    table = rows(runs, {}, folder / "labels")
    names = [name for name in ("acc", "nmi", "ari") if any(row[name] for row in table)] or ["silhouette"]
    table = sorted((row for row in table if row[names[0]]), key=lambda row: row[names[0]][0])
    if not table:
        return "There is no plot, since no run has finished."
    figure, axes = pyplot.subplots(figsize=(7, 1.2 + 0.35 * len(table)), layout="constrained")
    for place, name in enumerate(names):
        offset = (place - (len(names) - 1) / 2) * 0.18
        known = [(height, row[name]) for height, row in enumerate(table) if row[name]]
        axes.errorbar(
            [100 * mean for _, (mean, _) in known],
            [height + offset for height, _ in known],
            xerr=[100 * std for _, (_, std) in known],
            fmt="os^"[place],
            capsize=3,
            label=f"{PERCENT[name]} %",
        )
    axes.set_yticks(range(len(table)), [f"{row['method']} ({row['seconds'][0]:,.0f} s)" for row in table])
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    for kind in ("png", "svg"):
        with replacing(folder / f"plot.{kind}") as temporary:
            figure.savefig(temporary, dpi=150)
    pyplot.close(figure)
    return None
