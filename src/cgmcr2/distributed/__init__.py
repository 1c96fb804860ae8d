"""Training in several processes, started by ``torchrun``: the same results as in one.

Each process computes the network on its part of a batch. ``Group.gather`` then gives every process the outputs of the
whole batch, so the objective is computed as in a single process. Everything else runs in the first process.
"""

from .batch_norm import batch_norm, share_statistics
from .group import ONE_PROCESS, Group, ProcessError
from .launch import process_group

__all__ = ["ONE_PROCESS", "Group", "ProcessError", "batch_norm", "process_group", "share_statistics"]
