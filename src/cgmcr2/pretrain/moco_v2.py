"""MoCo-v2: contrast each view with the other view of its image and a queue of other images."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cgmcr2.objectives._checks import without_autocast

from .method import Batch, Loss, Method, projection_head
from .settings import Settings
from .statistics import momentum


class MocoV2(Method):
    r"""Momentum contrast, version 2.

    .. math:: -\frac1n \sum_i \log \frac{\exp(\langle q_i, k_i \rangle / \tau)}
              {\exp(\langle q_i, k_i \rangle / \tau) + \sum_j \exp(\langle q_i, m_j \rangle / \tau)}

    where ``q_i`` and ``k_i`` are unit embeddings of two views of image i, by the network and by its exponential moving
    average (the momentum encoder), and the queue ``m`` holds the keys of the latest batches.

    Differences from the authors' code: the momentum encoder normalises with running statistics, the moving average of
    the network's (EMAN, Cai et al. 2021), instead of those of shuffled parts of the batch. Both keep the key of an
    image from being recognised by the statistics of its batch; this one does not depend on the number of processes.
    Both start from the statistics of the first batch.

    Parameters
    ----------
    dim : int
        Dimension of the embedding.
    queue : int
        Largest number of keys in the queue, 65,536 for ImageNet; with fewer images, it has one key per image. An
        earlier key of an image may be among its negatives: for 62 % of the queries with 1,000 images, 14 % with 8,000,
        0.4 % with 50,000.
    momentum : float
        Decay of the momentum encoder; the authors' demonstration on CIFAR-10 has 0.99, for ImageNet it is 0.999.
    temperature : float
        Temperature; the authors' demonstration on CIFAR-10 has 0.1, for ImageNet it is 0.2.
    symmetric : bool
        Use each view as query and as key: twice the work per image.

    References
    ----------
    Chen, Fan, Girshick and He, Improved Baselines with Momentum Contrastive Learning, 2020.
    """

    # SGD with cosine annealing; 0.03 per 256 images, for CIFAR-10 and ImageNet alike
    defaults: ClassVar = {"optimizer": "sgd", "lr": 0.03, "weight_decay": 5e-4}
    may_be_zero: ClassVar = frozenset({"momentum"})
    queue: Tensor
    position: Tensor

    def __init__(
        self,
        backbone: nn.Module,
        D: int,
        n: int,
        *,
        dim: int = 128,
        queue: int = 4096,
        momentum: float = 0.99,
        temperature: float = 0.1,
        symmetric: bool = False,
    ) -> None:
        super().__init__(backbone)
        self.momentum, self.temperature, self.symmetric = momentum, temperature, symmetric
        self.head = projection_head(D, D, dim)
        self.key_backbone, self.key_head = (
            copy.deepcopy(module).requires_grad_(False) for module in (backbone, self.head)
        )
        self.register_buffer("queue", F.normalize(torch.randn(min(queue, n), dim), dim=1))
        self.register_buffer("position", torch.zeros((), dtype=torch.long))  # of the oldest key
        self._keys: Tensor | None = None  # of the current batch

    @classmethod
    def check(cls, settings: Settings, options: Mapping[str, Any]) -> None:
        super().check(settings, options)
        if options["momentum"] >= 1:
            raise ValueError(f"momentum must be below 1, but is {options['momentum']!r}.")

    def train(self, mode: bool = True) -> MocoV2:
        """Set the mode; the momentum encoder always uses its running statistics."""
        super().train(mode)
        self.key_backbone.eval()
        self.key_head.eval()
        return self

    def loss(self, views: list[Tensor], batch: Batch) -> Loss:
        if batch.step == 0:
            self._start(views[0])
        pairs = [(views[0], views[1]), (views[1], views[0])][: 2 if self.symmetric else 1]
        queries = [batch.gather(F.normalize(self.head(self.backbone(query)), dim=1)) for query, _ in pairs]
        with torch.no_grad():
            keys = [batch.gather(F.normalize(self.key_head(self.key_backbone(key)), dim=1)) for _, key in pairs]
        self._keys = torch.cat(keys)
        losses = [info_nce(q, k, self.queue, self.temperature) for q, k in zip(queries, keys, strict=True)]
        return Loss({"contrast": torch.stack(losses).mean()}, queries[0])

    @torch.no_grad()
    def after_step(self, batch: Batch) -> None:
        """Update the momentum encoder, and replace the oldest keys by those of the batch."""
        for average, network in ((self.key_backbone, self.backbone), (self.key_head, self.head)):
            for old, new in zip(average.state_dict().values(), network.state_dict().values(), strict=True):
                if old.is_floating_point():  # weights and running statistics
                    old.lerp_(new, 1 - self.momentum)
        assert self._keys is not None
        keys = self._keys[: len(self.queue)]
        slots = (self.position + torch.arange(len(keys), device=keys.device)) % len(self.queue)
        self.queue[slots] = keys.to(self.queue.dtype)
        self.position.copy_((self.position + len(keys)) % len(self.queue))

    @torch.no_grad()
    def _start(self, images: Tensor) -> None:
        """Set all running statistics to those of the first batch, and copy the network to the momentum encoder."""
        with momentum(self.backbone, 1.0):
            self.backbone(images)
        self.key_backbone.load_state_dict(self.backbone.state_dict())


def info_nce(q: Tensor, k: Tensor, queue: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of finding the key ``k (n, d)`` of each query ``q (n, d)`` among ``queue (m, d)``.

    >>> q = torch.eye(2)
    >>> round(info_nce(q, q, -q, 1.0).item(), 3)  # log(1 + 1/e + 1/e^2) = log(e + 1 + 1/e) - 1
    0.408
    """
    positive = (q * k).sum(1, keepdim=True)
    with without_autocast(q):
        logits = torch.cat([positive, q @ queue.T.to(q.dtype)], dim=1) / temperature  # (n, 1 + m)
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))
