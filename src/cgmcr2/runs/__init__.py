"""Run folders: the result of ``cluster`` and ``fit`` on disk, and what is done with it."""

from .fit import RunResult, choose_clusters, fit_features, fit_images
from .folder import RunFolder
from .info import RunInfo
from .predict import Evaluation, Predictor

__all__ = [
    "Evaluation",
    "Predictor",
    "RunFolder",
    "RunInfo",
    "RunResult",
    "choose_clusters",
    "fit_features",
    "fit_images",
]
