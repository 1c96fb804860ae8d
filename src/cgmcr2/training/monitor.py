"""What is seen of a training while it runs: every term of every step, live clusters, the loss of each head."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cgmcr2._files import write_text

LIVE_SHARE = 0.05  # a cluster is live while it holds at least this part of its even share 1/k
NAMES = ("loss", "R", "Rc", "cut", "penalty")

Record = dict[str, Any]


class Monitor:
    """Gathers a step's figures on the device and fetches them once in a while (``flush``), so that no step waits.

    ``shares (h, k)`` is the running mean of the memberships in each cluster of each head; ``head_loss (h,)`` the
    running loss by which the head is chosen.
    """

    def __init__(self, n_heads: int, n_clusters: int, device: torch.device) -> None:
        self.n_clusters = n_clusters
        self.shares = torch.full((n_heads, n_clusters), 1 / n_clusters, device=device)
        self.head_loss = torch.zeros(n_heads, device=device)
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)  # steps without an update, in a row
        self._pending: list[tuple[Record, Tensor]] = []

    @torch.no_grad()
    def add(self, record: Record, terms: Tensor, Pi: Tensor, finite: Tensor, first_of_stage: bool) -> None:
        """``record``: what the host knows of the step; ``terms (5, h)`` as in ``NAMES``; ``Pi (h, n, k)``."""
        self.shares.lerp_(torch.where(finite, Pi.mean(1), self.shares), 0.1)
        loss = torch.where(finite, terms[0], self.head_loss)
        self.head_loss.copy_(loss if first_of_stage else self.head_loss.lerp(loss, 0.05))
        self.skipped.copy_(torch.where(finite, 0, self.skipped + 1))
        figures = (terms.mean(1), finite.float().view(1), self.live().float(), self.balance())
        self._pending.append((record, torch.cat(figures)))

    def live(self) -> Tensor:
        """(h,) how many clusters of each head are live."""
        return (self.shares >= LIVE_SHARE / self.n_clusters).sum(1)

    def balance(self) -> Tensor:
        """(h,) the effective number of clusters of each head, ``exp(entropy(shares))``, over k: 1 where all equal."""
        shares = self.shares / self.shares.sum(1, keepdim=True)
        entropy: Tensor = torch.special.entr(shares).sum(1)
        return entropy.exp() / self.n_clusters

    def best_head(self) -> int:
        """The head of lowest running loss."""
        return int(self.head_loss.argmin())

    def flush(self) -> list[Record]:
        """The records of all steps since the last flush, with their figures; one transfer from the device."""
        if not self._pending:
            return []
        records = []
        values = torch.stack([figures for _, figures in self._pending]).cpu().tolist()
        for (record, _), figures in zip(self._pending, values, strict=True):
            named = {name: _or_none(value) for name, value in zip(NAMES, figures, strict=False)}
            finite, *rest = figures[len(NAMES) :]
            heads = len(rest) // 2
            live, balance = [int(value) for value in rest[:heads]], [round(value, 3) for value in rest[heads:]]
            records.append({**record, **named, "live_clusters": live, "balance": balance, "finite": finite == 1.0})
        self._pending.clear()
        return records

    def state(self) -> dict[str, Tensor]:
        return {"shares": self.shares, "head_loss": self.head_loss, "skipped": self.skipped}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])


def _or_none(value: float) -> float | None:
    return round(value, 6) if abs(value) < float("inf") else None  # NaN and infinity are not JSON


class MetricsFile:
    """``metrics.jsonl``: one line a step. On resuming, the lines from the step that is done again are cut off."""

    def __init__(self, path: Path, resume_at: int) -> None:
        self.path = path
        self.kept = [record for record in read_metrics(path) if record["step"] < resume_at] if path.exists() else []
        write_text(path, "".join(json.dumps(record) + "\n" for record in self.kept))

    def append(self, records: list[Record]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
            file.flush()
            os.fsync(file.fileno())


def read_metrics(path: Path) -> list[Record]:
    """The records of a ``metrics.jsonl``; a last line that a killed run left half-written is passed over."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records
