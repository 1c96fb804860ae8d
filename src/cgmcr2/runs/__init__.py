"""Run folders: the result of ``cluster`` and ``fit`` on disk, and what is done with it."""

from .doctor import Finding, check_run, check_store, compact_store, repair_run
from .fit import RunResult, choose_clusters, fit_features, fit_images
from .folder import RunFolder
from .info import RunInfo
from .predict import Evaluation, Prediction, Predictor

__all__ = [
    "Evaluation",
    "Finding",
    "Prediction",
    "Predictor",
    "RunFolder",
    "RunInfo",
    "RunResult",
    "check_run",
    "check_store",
    "choose_clusters",
    "compact_store",
    "fit_features",
    "fit_images",
    "repair_run",
]
