"""Choices shared by the command line and the library. Importing them does not import torch."""

from __future__ import annotations

from typing import Literal

Part = Literal["train", "test", "all"]
# rows that a comparison fits: split 0 ("unseen": split 1 is predicted) or all; both score split 1
CompareProtocol = Literal["unseen", "all"]
LabelSource = Literal["head", "spectral"]  # cluster head, or spectral clustering of the embedding
# "head", "spectral": fit train, label test in that way; "train", "all": fit and label the same rows
TableProtocol = Literal["head", "spectral", "train", "all"]
TuningScore = Literal["stability", "labels"]  # without labels, or accuracy against the labels
