"""The two stages of training: settings, presets, batches, schedule, the loop, and checkpoints."""

from .loop import Trained, train
from .presets import PRESETS, check_rows, paper_settings, resolve
from .settings import Settings

__all__ = ["PRESETS", "Settings", "Trained", "check_rows", "paper_settings", "resolve", "train"]
