"""The two stages: settings, batches, schedule, the loop, and what is kept of it on disk."""

from .config import PRESETS, Settings, paper_settings, resolve
from .trainer import Trained, train

__all__ = ["PRESETS", "Settings", "Trained", "paper_settings", "resolve", "train"]
