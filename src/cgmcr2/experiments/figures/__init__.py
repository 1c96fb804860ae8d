"""The paper's figures, drawn from one training per data set or from the runs of their tables."""

from .paper import FIGURES, PaperFigure, SavedFigure, draw_figure

__all__ = ["FIGURES", "PaperFigure", "SavedFigure", "draw_figure"]
