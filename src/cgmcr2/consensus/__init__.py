"""The label-free initial partition: views, k-means, ensemble, combination, choice of k, stability."""

from .choose_k import Choice, choose_k
from .stability import Calibration, calibrate

__all__ = ["Calibration", "Choice", "calibrate", "choose_k"]
