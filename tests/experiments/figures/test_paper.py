from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cgmcr2.experiments.figures import FIGURES, SavedFigure, draw_figure


@pytest.fixture(scope="module")
def saved(
    figure_features: Path, small_settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, SavedFigure]:
    """Every figure, drawn into one folder."""
    folder = tmp_path_factory.mktemp("figures") / "out"
    return {
        figure.name: draw_figure(figure, figure_features, folder, settings=small_settings, dpi=40) for figure in FIGURES
    }


@pytest.mark.parametrize("name", [figure.name for figure in FIGURES])
def test_every_figure_is_saved_and_nothing_is_cut_off(name: str, saved: dict[str, SavedFigure]) -> None:
    png, pdf = saved[name].paths
    assert (png.suffix, pdf.suffix) == (".png", ".pdf")
    assert pdf.read_bytes()[:5] == b"%PDF-"
    with Image.open(png) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
    assert pixels.std() > 5
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert edge.min() > 200


def test_notes_name_the_encoder_and_the_missing_data_sets(saved: dict[str, SavedFigure]) -> None:
    notes = [note for figure in saved.values() for note in figure.notes]
    assert sum(note.startswith("TinyImageNet is left out") for note in notes) == 3
    assert any(note.startswith("unknown encoder features") and "hidden_dim 16" in note for note in notes)


def test_each_data_set_is_trained_once(saved: dict[str, SavedFigure]) -> None:
    observed = saved["figure-2"].paths[0].parent / "observed"
    assert {path.name for path in observed.iterdir()} == {"cifar10-0.npz", "cifar20-0.npz", "cifar100-0.npz"}


def test_other_files_in_the_folder_are_refused(figure_features: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files than tables and figures \(mine.txt\)"):
        draw_figure(FIGURES[1], figure_features, tmp_path)


def test_without_features_there_is_nothing_to_draw(figure_features: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"MNIST is left out.* There is nothing to draw"):
        draw_figure(FIGURES[-1], figure_features, tmp_path / "out", only=["mnist"])
