"""The two stages: settings, batches, schedule, the loop, and what is kept of it on disk; and the number of clusters."""

from .calibration import Calibration, calibrate
from .choice import Choice, choose_k
from .config import PRESETS, Settings, paper_settings, resolve
from .trainer import Trained, train

__all__ = [
    "PRESETS",
    "Calibration",
    "Choice",
    "Settings",
    "Trained",
    "calibrate",
    "choose_k",
    "paper_settings",
    "resolve",
    "train",
]
