"""Colours, layout and saving of figures. The palette is colour-blind safe."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgmcr2._files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe-Ito palette, with grey in place of yellow, which is too light on white.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, "#000000", "#999999")
MARKERS = "os^Dv<>Pp*XhH"


def require_matplotlib() -> None:
    """Raise an ``ImportError`` that names the package to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("Figures need matplotlib; install it with: pip install 'cgmcr2[viz]'") from error


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of the given size in inches, without a window."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure((width, height), layout="constrained")


def add_legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Add one legend above all panels."""
    names = [str(handle.get_label()) for handle in handles]
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 6), frameon=False)


def add_footnote(figure: Figure, text: str) -> Figure:
    """Add small print below the panels, such as the protocol, and return the figure."""
    characters_per_line = int(figure.get_figwidth() * 17)
    figure.supxlabel("\n".join(textwrap.wrap(text, characters_per_line)), fontsize=7, color="0.35")
    return figure


def save_figure(figure: Figure, stem: Path, *, formats: Sequence[str] = ("png", "pdf"), dpi: int = 200) -> list[Path]:
    """Write the figure as ``STEM.png`` and ``STEM.pdf``, or in other ``formats``."""
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in formats]
    for path in paths:
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=dpi)
    return paths
