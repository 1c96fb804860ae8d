"""A collapse cannot be missed: dying clusters are seen, said, and with ``act_on_collapse`` started anew."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning

from cgmcr2._random import mix
from cgmcr2.model import Network
from cgmcr2.objectives import CgMCR2Objective, ReleasedObjective

from .monitor import Monitor
from .settings import Settings

FIRST_STEP = 40  # before that the clusters are still forming
LEAST_BALANCE = 0.25  # effective clusters over k; class sizes falling 100 : 1 have 0.5
MAX_REVIVALS = 5  # after so many new starts the data has no such clusters


def watch_collapse(
    monitor: Monitor,
    network: Network,
    objective: CgMCR2Objective | ReleasedObjective,
    optimizer: torch.optim.Adam,
    settings: Settings,
    facts: dict[str, Any],
    seed: int,
) -> None:
    """Where in every head fewer than half of the clusters are live, or a few hold nearly all points (effectively less
    than a quarter of k): warn, or start the heads anew with gamma doubled.

    ``facts`` (step, revivals, gamma) is the part of the training's state that this may change.
    """
    k, live = monitor.n_clusters, int(monitor.live().max())
    balance = float(monitor.balance().max())
    healthy = 2 * live >= k and balance >= LEAST_BALANCE
    if healthy or facts["revivals"] >= MAX_REVIVALS or facts["step"] < FIRST_STEP:
        return
    found = (
        f"Only {live} of {k} clusters are live after {facts['step']} steps, effectively {balance * k:.1f} "
        f"(gamma {objective.gamma:g})"
    )
    if not settings.act_on_collapse:
        facts["revivals"] = MAX_REVIVALS  # said once
        warnings.warn(
            f"{found}: the clusters have collapsed; raise gamma (see docs/gamma.md), lower the learning rate, or use "
            "preset='auto', which acts by itself.",
            ConvergenceWarning,
            stacklevel=3,
        )
        return
    facts["revivals"] += 1
    facts["gamma"] = objective.gamma = 2 * max(objective.gamma, 1.0)
    warnings.warn(
        f"{found}: the cluster heads were started anew with gamma {objective.gamma:g}.",
        ConvergenceWarning,
        stacklevel=3,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(mix(seed, facts["step"]))
        fresh = Network(network.config).cluster_out
        for name, parameter in network.cluster_out.named_parameters():
            parameter.copy_(fresh.get_parameter(name))
            optimizer.state.pop(parameter, None)
    monitor.shares.fill_(1 / k)
