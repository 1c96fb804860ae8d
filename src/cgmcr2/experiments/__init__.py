"""Comparisons and the paper's tables, by one command each."""

from .compare import Comparison, compare
from .experiment import Experiment, list_experiments, load_experiment
from .run import Reproduction, reproduce

__all__ = [
    "Comparison",
    "Experiment",
    "Reproduction",
    "compare",
    "list_experiments",
    "load_experiment",
    "reproduce",
]
