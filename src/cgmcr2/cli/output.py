"""Results on standard output: text for people, JSON for programs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from cgmcr2.clustering import Clustering
    from cgmcr2.consensus.choose_k import Choice
    from cgmcr2.runs import Evaluation, RunResult


def print_json(values: Any) -> None:
    """Print ``values`` as JSON on one line."""
    typer.echo(json.dumps(values))


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "image"), count(1200, "row")
    ('1 image', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def print_choice(choice: Choice) -> None:
    """Print the verdict on the number of clusters and the runners-up."""
    typer.echo(choice.verdict)
    if choice.runners_up:
        typer.echo(f"Other numbers worth a look: {', '.join(map(str, choice.runners_up))}.")


def cluster_values(clustering: Clustering) -> list[dict[str, Any]]:
    """Number, name and size of the non-empty clusters, for JSON."""
    sizes = clustering.sizes()
    return [
        {"cluster": cluster, "name": clustering.names[cluster], "size": int(sizes[cluster])}
        for cluster in clustering.clusters
    ]


def run_values(result: RunResult) -> dict[str, Any]:
    """Files, clusters and state of a run, for JSON."""
    return {
        "run": str(result.folder.path),
        "labels": str(result.folder.labels),
        "finished": result.folder.info.finished,
        "rows": len(result.clustering),
        "clusters": cluster_values(result.clustering),
        "stability": result.folder.info.stability,
        "choice": dataclasses.asdict(result.choice) if result.choice else None,
    }


def evaluation_values(evaluation: Evaluation) -> dict[str, Any]:
    """Scores, sizes and protocol of an evaluation, for JSON."""
    return {
        **{name: round(value, 6) for name, value in evaluation.scores._asdict().items()},
        "sizes": evaluation.sizes,
        "protocol": str(evaluation.protocol),
    }
