"""Running statistics of training: the terms of every step, live clusters, the loss of each head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LIVE_SHARE = 0.05  # a cluster is live if its share of the memberships is at least this fraction of 1/k
NAMES = ("loss", "R", "Rc", "cut", "penalty", "consensus")  # the loss and its terms

Record = dict[str, Any]


class Monitor:
    """Collects the metrics of steps on the device and fetches them in groups (``flush``), so that no step waits.

    ``shares (h, k)`` is the running mean of the memberships of each cluster, ``head_loss (h,)`` the running loss that
    the head is chosen by, ``skipped`` the number of consecutive steps without an update.
    """

    def __init__(self, n_heads: int, n_clusters: int, device: torch.device) -> None:
        self.n_clusters = n_clusters
        self.shares = torch.full((n_heads, n_clusters), 1 / n_clusters, device=device)
        self.head_loss = torch.zeros(n_heads, device=device)
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)
        self._pending: list[tuple[Record, Tensor]] = []

    @torch.no_grad()
    def add(self, record: Record, terms: Tensor, Pi: Tensor, finite: Tensor, first_of_stage: bool) -> None:
        """Add a step: ``record``, ``terms (6, h)`` in the order of ``NAMES`` and memberships ``Pi (h, n, k)``."""
        self.shares.lerp_(torch.where(finite, Pi.mean(1), self.shares), 0.1)
        loss = torch.where(finite, terms[0], self.head_loss)
        self.head_loss.copy_(loss if first_of_stage else self.head_loss.lerp(loss, 0.05))
        self.skipped.copy_(torch.where(finite, 0, self.skipped + 1))
        metrics = (terms.mean(1), finite.float().view(1), self.live().float(), self.balance())
        self._pending.append((record, torch.cat(metrics)))

    def live(self) -> Tensor:
        """(h,) number of live clusters of each head."""
        return (self.shares >= LIVE_SHARE / self.n_clusters).sum(1)

    def balance(self) -> Tensor:
        """(h,) effective number of clusters ``exp(entropy(shares))`` over k; 1 if all shares are equal."""
        shares = self.shares / self.shares.sum(1, keepdim=True)
        entropy: Tensor = torch.special.entr(shares).sum(1)
        return entropy.exp() / self.n_clusters

    def best_head(self) -> int:
        """The head of lowest running loss."""
        return int(self.head_loss.argmin())

    def flush(self) -> list[Record]:
        """The records of all steps since the last flush, in one transfer from the device."""
        if not self._pending:
            return []
        records = []
        rows = torch.stack([metrics for _, metrics in self._pending]).cpu().tolist()
        for (record, _), metrics in zip(self._pending, rows, strict=True):
            terms = {name: _or_none(value) for name, value in zip(NAMES, metrics, strict=False)}
            finite, *rest = metrics[len(NAMES) :]
            heads = len(rest) // 2
            live, balance = [int(value) for value in rest[:heads]], [round(value, 3) for value in rest[heads:]]
            records.append({**record, **terms, "live_clusters": live, "balance": balance, "finite": finite == 1.0})
        self._pending.clear()
        return records

    def state(self) -> dict[str, Tensor]:
        """The running statistics, for a checkpoint."""
        return {"shares": self.shares, "head_loss": self.head_loss, "skipped": self.skipped}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore the running statistics from a checkpoint."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def _or_none(value: float) -> float | None:
    return round(value, 6) if abs(value) < float("inf") else None  # JSON has no NaN and no infinity
