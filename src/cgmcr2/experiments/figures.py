"""The paper's figures, each by its name: what is trained and looked at, and how it is arranged."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cgmcr2.datasets import dataset_info
from cgmcr2.experiments import plots as figures
from cgmcr2.features.sources import load_feature_file
from cgmcr2.training import paper_settings

from .experiment import Experiment, list_experiments, override, place, plain
from .facts import FACTS, FactTable
from .features import provide_features
from .observe import EPOCHS, Observed, observe
from .run import QUICK, QUICK_ROWS, Reproduction, check_folder, choose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENCODER = "clip-vit-l-14"
SIZE = ("hidden_dim", "lr")  # what --quick changes here; the epochs are what the figures are about
SENSITIVITY = {"figure-4": ("gamma", "eps"), "figure-5": ("hidden_dim", "depth")}  # tables that are drawn too
TITLES = {"gamma": "$\\gamma$", "eps": "$\\epsilon$", "hidden_dim": "width", "depth": "hidden layers"}

Seen = Mapping[str, Observed]


@dataclasses.dataclass(frozen=True)
class PaperFigure:
    """A figure: its data sets, and how it is drawn of what was seen of each (by title, with the encoder's name)."""

    name: str
    paper: str
    topic: str
    title: str
    datasets: tuple[str, ...]
    draw: Callable[[Seen, str], Figure]


@dataclasses.dataclass(frozen=True)
class Drawn:
    """The files of a figure, and what to know about it."""

    paths: list[Path]
    notes: list[str]


def _matrices_over_time(seen: Seen, encoder: str) -> Figure:
    (one,) = seen.values()
    return figures.similarity_over_time(one.X, one.snapshots, one.labels, features=encoder)


def _curves(seen: Seen, encoder: str) -> Figure:
    ((title, one),) = seen.items()
    return figures.learning_curves(title, one.curves)


def _maps(seen: Seen, encoder: str) -> Figure:
    panels = {title: (_tsne(one.X), _tsne(one.snapshots[-1].Z), one.labels) for title, one in seen.items()}
    return figures.maps(panels, before=encoder)


def _matrices(seen: Seen, encoder: str) -> Figure:
    return figures.similarity_by_dataset(
        {title: (one.X, one.snapshots[-1], one.labels) for title, one in seen.items()}, features=encoder
    )


def _all_terms(seen: Seen, encoder: str) -> Figure:
    return figures.term_curves({title: one.curves for title, one in seen.items()})


def _all_scores(seen: Seen, encoder: str) -> Figure:
    return figures.score_curves({title: one.curves for title, one in seen.items()})


_MORE = ("cifar10", "cifar100", "tinyimagenet", "mnist", "fashion-mnist", "dogs120")
_CIFAR = ("cifar10", "cifar20", "cifar100")
FIGURES = (
    PaperFigure("figure-1", "Figure 1", "network", "The network", (), lambda seen, encoder: figures.architecture()),
    PaperFigure("figure-2", "Figure 2", "matrices", "Similarity while training", ("cifar10",), _matrices_over_time),
    PaperFigure("figure-3", "Figure 3", "curves", "Learning curves", ("cifar20",), _curves),
    PaperFigure("figure-b1", "Figure B.1", "t-sne", "t-SNE before and after", _CIFAR, _maps),
    PaperFigure(
        "figure-b2", "Figure B.2", "more-matrices", "Similarity", ("cifar20", "cifar100", "tinyimagenet"), _matrices
    ),
    PaperFigure("figure-b3", "Figure B.3", "terms", "Learning curves of every term", _MORE, _all_terms),
    PaperFigure("figure-b4", "Figure B.4", "scores", "Curves of ACC and NMI", _MORE, _all_scores),
)


def list_all() -> list[Experiment | FactTable | PaperFigure]:
    """Every table and figure of the paper: tables first, main text before supplement.

    >>> [each.name for each in list_all()][-2:]
    ['figure-b3', 'figure-b4']
    """
    return sorted([*list_experiments(), *FACTS, *FIGURES], key=lambda each: place(each.name))


def find(name: str) -> Experiment | FactTable | PaperFigure:
    """The table or figure of that name, which may be written as in the paper, or of that topic.

    >>> find("Figure B.1").title
    't-SNE before and after'
    """
    every = list_all()
    for each in every:
        if plain(name) in (plain(each.name), plain(each.paper), plain(each.topic)):
            return each
    raise ValueError(f"There is no experiment {name!r}; there are {', '.join(each.name for each in every)}.")


def draw_figure(
    figure: PaperFigure,
    features: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    download: bool = False,
    encoder: str | None = None,
    only: Sequence[str] = (),
    seed: int = 0,
    quick: bool = False,
    rows: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Drawn:
    """Draw ``figure`` into ``folder`` as PNG and PDF, of those of its data sets that the folder ``features`` holds.

    Each is trained once with the paper's settings and ``seed``, and what was seen is kept in ``folder/observed``, so
    that the next figure, or the same one again, need not train. ``quick``: a narrower network and at most 10,000 rows
    fitted; ``rows``: at most so many. ``settings`` override the paper's.
    """
    store, folder = Path(features), Path(folder)
    check_folder(folder)
    chosen = choose(figure.name, figure.datasets, only)
    figures.need_matplotlib()  # before an hour of training, not after it
    (folder / "observed").mkdir(parents=True, exist_ok=True)
    seen, encoders, notes = {}, [], []
    for name in chosen:
        try:
            found = provide_features(
                name, store, ENCODER, given=encoder, data=data, download=download, progress=progress
            )
        except (OSError, ValueError, ImportError) as error:
            notes.append(f"{dataset_info(name).title} is left out: {error}")
            continue
        values = {"hidden_dim": 4096, **paper_settings(name)[1]}
        size = {key: QUICK[key] for key in SIZE} if quick else {}
        seen[dataset_info(name).title] = observe(
            name,
            load_feature_file(found.path, labels=found.labels),
            seed=seed,
            settings=override(override(values, size), dict(settings or {})),
            limit=rows or (QUICK_ROWS if quick else None),
            epochs=EPOCHS,
            cache=folder / "observed",
            progress=progress,
        )
        encoders.append(found.encoder)
    if figure.datasets and not seen:
        raise FileNotFoundError(f"{' '.join(notes)} So there is nothing to draw.")
    drawn = figure.draw(seen, ", ".join(dict.fromkeys(encoders)))
    if seen:
        facts = [
            f"{', '.join(dict.fromkeys(encoders))} features",
            *dict.fromkeys(one.protocol for one in seen.values()),
        ]
        if quick:
            facts.append(f"reduced size: {', '.join(f'{name} {QUICK[name]}' for name in SIZE)}")
        if settings:
            facts.append(f"with {', '.join(f'{name} {value}' for name, value in settings.items())}")
        notes.insert(0, "; ".join(facts))
        figures.footnote(drawn, notes[0])
    return Drawn(figures.save_figure(drawn, folder / figure.name), notes)


def draw_sensitivity(
    reproduction: Reproduction, folder: Path, *, quick: bool = False, settings: Mapping[str, Any] | None = None
) -> Drawn:
    """Figures 4 and 5 from the runs of their tables: mean ± std over the two settings, as they were run."""
    experiment = reproduction.experiment
    x, lines = SENSITIVITY[experiment.name]
    numbers = {(value.row, value.dataset, value.column): value for value in reproduction.values}
    panels: dict[str, list[dict[str, Any]]] = {}
    for name in reproduction.datasets:
        points = panels.setdefault(dataset_info(name).title, [])
        for row in experiment.rows:
            own = [numbers[row.label, name, column] for column in experiment.columns]
            if all(value.seeds for value in own):
                used = override(row.settings_for(name), QUICK if quick else {})
                used = override({"depth": 1, **used}, dict(settings or {}))
                scores = {value.column: (value.mean, value.std) for value in own}
                points.append({x: used[x], lines: used[lines], **scores})
    drawn = figures.sensitivity(panels, x, lines, scores=experiment.columns, titles=TITLES)
    told = [note for note in reproduction.notes if note != experiment.note and " is left out: " not in note]
    figures.footnote(drawn, " ".join(told))
    return Drawn(figures.save_figure(drawn, Path(folder) / experiment.name), reproduction.notes)


def _tsne(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    from sklearn.manifold import TSNE

    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    positions: npt.NDArray[np.float32] = TSNE(
        2, init="pca", perplexity=min(30.0, (len(rows) - 1) / 3), random_state=0
    ).fit_transform(unit)
    return positions
