"""From logits to memberships. Training samples; prediction never does."""

from __future__ import annotations

import torch
from torch import Tensor


def gumbel_softmax(logits: Tensor, temperature: float = 1.0, *, generator: torch.Generator | None = None) -> Tensor:
    """A relaxed one-hot sample of the categorical distribution that ``logits`` describe (Jang et al., 2017).

    ``softmax((logits + g) / temperature)`` with independent Gumbel noise ``g``, in at least float32.

    Parameters
    ----------
    logits : (..., k)
    temperature : above 0; towards 0 the samples become one-hot
    generator : where the noise is drawn from, so that a step can be repeated exactly

    Returns
    -------
    Pi : (..., k), rows sum to 1

    >>> Pi = gumbel_softmax(torch.zeros(4, 3), generator=torch.Generator().manual_seed(0))
    >>> Pi.shape, bool(torch.allclose(Pi.sum(-1), torch.ones(4)))
    (torch.Size([4, 3]), True)
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    # -log of an exponential variate is a Gumbel variate, with no log(0) to fear at either end
    exponential = torch.empty_like(logits).exponential_(generator=generator)
    noise = -exponential.clamp_min(torch.finfo(logits.dtype).tiny).log()
    return ((logits + noise) / temperature).softmax(dim=-1)
