"""Memberships sampled from logits. Sampling is for training only; prediction is deterministic."""

from __future__ import annotations

import torch
from torch import Tensor


def gumbel_softmax(logits: Tensor, temperature: float = 1.0, *, generator: torch.Generator | None = None) -> Tensor:
    """Draw relaxed one-hot samples from the categorical distribution of ``logits`` (Jang et al., 2017).

    Returns ``softmax((logits + g) / temperature)`` with independent Gumbel noise ``g``, computed in at least float32.

    Parameters
    ----------
    logits : Tensor of shape (..., k)
        Unnormalised log-probabilities.
    temperature : float
        Above 0; samples approach one-hot vectors as it approaches 0.
    generator : torch.Generator, optional
        Random generator of the noise; default: torch's global generator.

    Returns
    -------
    Pi : Tensor of shape (..., k)
        Samples; the last axis sums to 1.

    Examples
    --------
    >>> Pi = gumbel_softmax(torch.zeros(4, 3), generator=torch.Generator().manual_seed(0))
    >>> Pi.shape, bool(torch.allclose(Pi.sum(-1), torch.ones(4)))
    (torch.Size([4, 3]), True)
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    # -log of an exponential variate is a Gumbel variate; clamping avoids log(0)
    exponential = torch.empty_like(logits).exponential_(generator=generator)
    noise = -exponential.clamp_min(torch.finfo(logits.dtype).tiny).log()
    return ((logits + noise) / temperature).softmax(dim=-1)
