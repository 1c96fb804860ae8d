"""The two stages of training: settings, batches, schedule, the loop, and checkpoints."""

from .loop import Trained, train
from .settings import PRESETS, Settings, paper_settings, resolve

__all__ = ["PRESETS", "Settings", "Trained", "paper_settings", "resolve", "train"]
