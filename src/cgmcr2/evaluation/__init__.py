"""Scores of clusterings against known classes, and their evaluation protocol."""

from .metrics import Scores, clustering_accuracy, score_labels
from .protocol import Protocol

__all__ = ["Protocol", "Scores", "clustering_accuracy", "score_labels"]
