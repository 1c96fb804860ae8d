from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cgmcr2.experiments.plotting import add_footnote, new_figure, save_figure


def test_a_dot_in_the_name_is_not_a_suffix(tmp_path: Path) -> None:
    figure = add_footnote(new_figure(2, 1), "fitted on split 0 (4 rows), predicted split 1 (4 rows)")
    paths = save_figure(figure, tmp_path / "figure-b.1", formats=("png", "svg"), dpi=50)
    assert [path.name for path in paths] == ["figure-b.1.png", "figure-b.1.svg"]
    assert paths[0].read_bytes()[1:4] == b"PNG"


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="Figures need matplotlib; install it with: pip install 'cgmcr2\\[viz\\]'"):
        new_figure(1, 1)
