"""The paper's figures, drawn from one training run per data set, or from the runs of a table."""

from .paper import FIGURES, PaperFigure, SavedFigure, draw_figure

__all__ = ["FIGURES", "PaperFigure", "SavedFigure", "draw_figure"]
