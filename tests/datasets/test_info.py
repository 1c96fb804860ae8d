"""Descriptions of the data sets."""

from __future__ import annotations

import pytest

from cgmcr2.datasets import dataset_info


@pytest.mark.parametrize(
    ("name", "official"),
    [
        ("CIFAR-10", "cifar10"),
        ("Tiny ImageNet", "tinyimagenet"),
        ("FMNIST", "fashion-mnist"),
        ("flowers", "flowers102"),
        ("dogs", "dogs120"),
        ("ImageNet", "imagenet1k"),
    ],
)
def test_spellings_and_aliases(name: str, official: str) -> None:
    assert dataset_info(name).name == official
