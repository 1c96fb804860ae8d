"""Warn if the clusters collapse during training."""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning

from .monitor import Monitor

FIRST_STEP = 40  # clusters are still forming before this step
MIN_BALANCE = 0.25  # effective number of clusters over k; class sizes falling 100 : 1 have 0.5


def warn_if_collapsed(monitor: Monitor, step: int, gamma: float) -> bool:
    """Warn, and return True, if the clusters of every head have collapsed.

    A head has collapsed if fewer than half of its clusters are live or its effective number of clusters is below a
    quarter of k.
    """
    k, live, balance = monitor.n_clusters, int(monitor.live().max()), float(monitor.balance().max())
    if step < FIRST_STEP or (2 * live >= k and balance >= MIN_BALANCE):
        return False
    warnings.warn(
        f"The clusters have collapsed: after {step} steps, {live} of {k} are live, effectively {balance * k:.1f} "
        f"(gamma {gamma:g}); raise gamma, lower the learning rate, or use preset='auto'.",
        ConvergenceWarning,
        stacklevel=3,
    )
    return True
