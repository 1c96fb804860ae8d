"""Detect collapsed clusters during training, warn, and reinitialise their heads if the settings say so."""

from __future__ import annotations

import warnings

import torch
from sklearn.exceptions import ConvergenceWarning

from cgmcr2._random import mix
from cgmcr2.model import Network

from .settings import Settings
from .state import TrainingState

FIRST_STEP = 40  # clusters are still forming before this step
MIN_BALANCE = 0.25  # effective number of clusters over k; class sizes falling 100 : 1 have 0.5
MAX_REVIVALS = 5  # after this many reinitialisations the data has no such clusters


def check_collapse(state: TrainingState, settings: Settings, seed: int) -> None:
    """Warn, or reinitialise the cluster heads with doubled gamma, if the clusters of every head have collapsed.

    A head has collapsed if fewer than half of its clusters are live or its effective number of clusters is below a
    quarter of k.
    """
    monitor, objective = state.monitor, state.objective
    k, live, balance = monitor.n_clusters, int(monitor.live().max()), float(monitor.balance().max())
    healthy = 2 * live >= k and balance >= MIN_BALANCE
    if healthy or state.revivals >= MAX_REVIVALS or state.step < FIRST_STEP:
        return
    finding = (
        f"Only {live} of {k} clusters are live after {state.step} steps, effectively {balance * k:.1f} "
        f"(gamma {objective.gamma:g})"
    )
    if not settings.act_on_collapse:
        state.revivals = MAX_REVIVALS  # warn once
        advice = "raise gamma, lower the learning rate, or use preset='auto', which reinitialises collapsed heads"
        warnings.warn(f"{finding}: the clusters have collapsed; {advice}.", ConvergenceWarning, stacklevel=3)
        return
    state.revivals += 1
    objective.gamma = 2 * max(objective.gamma, 1.0)
    warnings.warn(
        f"{finding}: reinitialised the cluster heads and raised gamma to {objective.gamma:g}.",
        ConvergenceWarning,
        stacklevel=3,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(mix(seed, state.step))
        fresh = Network(state.network.config).cluster_out
        for name, parameter in state.network.cluster_out.named_parameters():
            parameter.copy_(fresh.get_parameter(name))
            state.optimizer.state.pop(parameter, None)
    monitor.shares.fill_(1 / k)
