"""Hyperparameter search for gamma, eps and the number of neighbours, with or without labels."""

from .result import Trial, TuningResult
from .search import tune

__all__ = ["Trial", "TuningResult", "tune"]
