"""The paper's figures, each drawn from one training run per data set."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgmcr2.experiments.dataset_features import DatasetFeatures, FeatureLookup, select_datasets
from cgmcr2.experiments.overrides import QUICK_ROWS, QUICK_SETTINGS, override
from cgmcr2.experiments.plotting import add_footnote, require_matplotlib, save_figure
from cgmcr2.experiments.tables.reproduction import check_output_folder
from cgmcr2.features.sources import load_feature_file
from cgmcr2.training import paper_settings

from .curves import draw_learning_curves, draw_score_curves, draw_term_curves
from .embedding_maps import draw_maps, tsne
from .matrices import draw_similarity_by_dataset, draw_similarity_over_time
from .network_diagram import draw_network
from .observation import Observation, observe_training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENCODER = "clip-vit-l-14"
QUICK_FIGURE_SETTINGS = {
    name: QUICK_SETTINGS[name] for name in ("hidden_dim", "lr")
}  # keeps all epochs, because the figures plot them

Observations = Mapping[str, Observation]  # by the data set's title


@dataclasses.dataclass(frozen=True)
class PaperFigure:
    """Figure of the paper; ``draw`` takes the observations and the name of the encoder."""

    name: str
    number: str
    topic: str  # alternative name on the command line
    title: str
    datasets: tuple[str, ...]
    draw: Callable[[Observations, str], Figure]


@dataclasses.dataclass(frozen=True)
class SavedFigure:
    """Files of a figure, and notes on its features and settings."""

    paths: list[Path]
    notes: list[str]


def _draw_figure_2(observations: Observations, encoder: str) -> Figure:
    (observation,) = observations.values()
    return draw_similarity_over_time(observation.X, observation.snapshots, observation.labels, features=encoder)


def _draw_figure_3(observations: Observations, encoder: str) -> Figure:
    ((title, observation),) = observations.items()
    return draw_learning_curves(title, observation.curves)


def _draw_figure_b1(observations: Observations, encoder: str) -> Figure:
    panels = {title: (tsne(o.X), tsne(o.snapshots[-1].Z), o.labels) for title, o in observations.items()}
    return draw_maps(panels, before=encoder)


def _draw_figure_b2(observations: Observations, encoder: str) -> Figure:
    panels = {title: (o.X, o.snapshots[-1], o.labels) for title, o in observations.items()}
    return draw_similarity_by_dataset(panels, features=encoder)


def _draw_figure_b3(observations: Observations, encoder: str) -> Figure:
    return draw_term_curves({title: observation.curves for title, observation in observations.items()})


def _draw_figure_b4(observations: Observations, encoder: str) -> Figure:
    return draw_score_curves({title: observation.curves for title, observation in observations.items()})


_CIFAR = ("cifar10", "cifar20", "cifar100")
_CURVE_DATASETS = ("cifar10", "cifar100", "tinyimagenet", "mnist", "fashion-mnist", "dogs120")
_FIGURE_B2_DATASETS = ("cifar20", "cifar100", "tinyimagenet")
FIGURES = (
    PaperFigure("figure-1", "Figure 1", "network", "The network", (), lambda observations, encoder: draw_network()),
    PaperFigure("figure-2", "Figure 2", "matrices", "Similarity during training", ("cifar10",), _draw_figure_2),
    PaperFigure("figure-3", "Figure 3", "curves", "Learning curves", ("cifar20",), _draw_figure_3),
    PaperFigure("figure-b1", "Figure B.1", "t-sne", "t-SNE before and after training", _CIFAR, _draw_figure_b1),
    PaperFigure(
        "figure-b2", "Figure B.2", "more-matrices", "Similarity after training", _FIGURE_B2_DATASETS, _draw_figure_b2
    ),
    PaperFigure(
        "figure-b3", "Figure B.3", "terms", "Learning curves of the objective's terms", _CURVE_DATASETS, _draw_figure_b3
    ),
    PaperFigure(
        "figure-b4", "Figure B.4", "scores", "Learning curves of ACC and NMI", _CURVE_DATASETS, _draw_figure_b4
    ),
)


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
    dpi: int = 200,
    progress: bool = False,
) -> SavedFigure:
    """Draw ``figure`` as PNG and PDF from one training run per data set with the paper's settings.

    Recorded training runs are cached in ``folder/observed`` and shared by all figures. Data sets without features are
    left out.

    Parameters
    ----------
    figure : PaperFigure
        One of ``FIGURES``.
    features, folder, data, download, encoder, only
        As in ``reproduce_table``.
    seed : int
        Random seed.
    quick : bool
        Train a narrower network on at most ``QUICK_ROWS`` rows.
    rows : int, optional
        Maximum number of training rows.
    settings : mapping
        Settings that replace the paper's.
    dpi : int
        Resolution of the PNG.
    progress : bool
        Show a progress bar.

    Returns
    -------
    saved : SavedFigure
    """
    folder = Path(folder)
    check_output_folder(folder)
    selected = select_datasets(figure.name, figure.datasets, only)
    require_matplotlib()  # fail before training, which may take an hour
    (folder / "observed").mkdir(parents=True, exist_ok=True)
    available: dict[str, DatasetFeatures] = {}
    notes: list[str] = []
    if selected:
        lookup = FeatureLookup(Path(features), data, download, encoder, progress)
        available, notes = lookup.collect(selected, ENCODER)
        if not available:
            raise FileNotFoundError(f"{' '.join(notes)} There is nothing to draw.")
    observations = {
        source.title: observe_training(
            name,
            load_feature_file(source.path, labels=source.labels),
            seed=seed,
            settings=_figure_settings(name, quick, settings or {}),
            max_rows=rows or (QUICK_ROWS if quick else None),
            cache=folder / "observed",
            progress=progress,
        )
        for name, source in available.items()
    }
    encoders = ", ".join(dict.fromkeys(source.encoder for source in available.values()))
    drawing = figure.draw(observations, encoders)
    if observations:
        notes.insert(0, _describe(observations, encoders, quick, settings or {}))
        add_footnote(drawing, notes[0])
    return SavedFigure(save_figure(drawing, folder / figure.name, dpi=dpi), notes)


def _figure_settings(dataset: str, quick: bool, settings: Mapping[str, Any]) -> dict[str, Any]:
    paper = {"hidden_dim": 4096, **paper_settings(dataset)[1]}
    return override(override(paper, QUICK_FIGURE_SETTINGS if quick else {}), settings)


def _describe(observations: Observations, encoders: str, quick: bool, settings: Mapping[str, Any]) -> str:
    """Return a note on the encoder, the protocol and deviations from the paper."""
    parts = [f"{encoders} features", *dict.fromkeys(observation.protocol for observation in observations.values())]
    if quick:
        parts.append(f"reduced size: {', '.join(f'{name} {value}' for name, value in QUICK_FIGURE_SETTINGS.items())}")
    if settings:
        parts.append(f"with {', '.join(f'{name} {value}' for name, value in settings.items())}")
    return "; ".join(parts)
