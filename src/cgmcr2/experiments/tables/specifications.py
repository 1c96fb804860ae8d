"""Specification tables of the paper (A.1, A.2, A.3, A.5), which need no runs: our values and the paper's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import torch

from cgmcr2._files import write_text
from cgmcr2.datasets import list_datasets
from cgmcr2.encoders.augmentation import MIN_CROP_AREA
from cgmcr2.experiments.formats import csv_table, latex_table, markdown_table, plain_table
from cgmcr2.model import Network, NetworkConfig
from cgmcr2.training import paper_settings

Lines = list[list[str]]  # the header, then the rows


@dataclasses.dataclass(frozen=True)
class SpecificationTable:
    """Table of specifications; ``lines`` reads our values from the code."""

    name: str
    number: str
    topic: str
    title: str
    lines: Callable[[], Lines]
    note: str = ""
    align: str = "ll"  # see plain_table
    datasets: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the table for the terminal."""
        header, *rows = self.lines()
        table = plain_table(header, rows, align=self.align)
        return "\n\n".join([f"{self.number}: {self.title}", table, self.note]).strip() + "\n"

    def save(self, folder: Path) -> list[Path]:
        """Write the table as ``NAME.txt``, ``.md``, ``.tex`` and ``.csv``."""
        header, *rows = self.lines()
        markdown = markdown_table(header, rows, align=self.align)
        texts = {
            "txt": self.text(),
            "md": "\n\n".join([f"# {self.number}: {self.title}", markdown, self.note]).strip() + "\n",
            "tex": latex_table(self.name, f"{self.title}. {self.note}".strip(), header, rows),
            "csv": csv_table(header, rows),
        }
        for suffix, text in texts.items():
            write_text(folder / f"{self.name}.{suffix}", text)
        return [folder / f"{self.name}.{suffix}" for suffix in texts]

    def to_dict(self) -> dict[str, object]:
        """Return the table as JSON-serialisable values."""
        header, *rows = self.lines()
        return {"name": self.name, "number": self.number, "title": self.title, "header": header, "rows": rows}


_PAPER_COUNTS = {  # training, testing
    "mnist": (60_000, 10_000),
    "fashion-mnist": (60_000, 10_000),
    "cifar10": (50_000, 10_000),
    "cifar20": (50_000, 10_000),
    "cifar100": (50_000, 10_000),
    "flowers102": (8_192, 0),
    "dogs120": (20_580, 0),
    "tinyimagenet": (100_000, 10_000),
    "imagenet1k": (1_281_167, 50_000),
}


def _datasets() -> Lines:
    lines = [["data set", "classes", "training", "paper", "testing", "paper"]]
    for info in list_datasets():
        counts = zip((info.train, info.test), _PAPER_COUNTS[info.name], strict=True)
        numbers = [f"{number:,}" if number else "N/A" for pair in counts for number in pair]
        lines.append([info.title, f"{info.classes:,}", *numbers])
    return lines


def _network() -> Lines:
    D, k = 768, 10
    with torch.device("meta"):  # shapes only
        network = Network(NetworkConfig(D, k))
    config = network.config
    weights = sum(weight.numel() for weight in network.parameters())
    return [
        ["part", "ours", "paper"],
        [
            "pre-feature layer",
            f"Linear {D} -> {config.hidden_dim}, BatchNorm, ReLU",
            "Linear 768 -> 4096, BatchNorm, ReLU",
        ],
        ["feature head", *_head(config, config.embedding_dim, "d = 128")],
        ["cluster head, with Gumbel-Softmax", *_head(config, k, "k = 10")],
        ["weights", f"{weights:,}", f"{_paper_weights(D, 4096, 128, k):,}"],
    ]


def _head(config: NetworkConfig, out: int, paper: str) -> list[str]:
    h = config.hidden_dim
    return [
        f"{config.depth} x (Linear {h} -> {h}, ReLU), Linear {h} -> {out}",
        f"Linear 4096 -> 4096, ReLU, Linear 4096 -> {paper}",
    ]


def _paper_weights(D: int, h: int, d: int, k: int) -> int:
    """Number of parameters of the layers in the paper's table, including biases."""
    return (D + 1) * h + 2 * h + 2 * (h + 1) * h + (h + 1) * (d + k)


def _settings() -> Lines:
    rows = [(info.title, paper_settings(info.name)[1]) for info in list_datasets()]
    return [
        ["data set", *rows[0][1]],
        *([title, *(f"{value:g}" for value in values.values())] for title, values in rows),
    ]


def _augmentation() -> Lines:
    return [
        ["paper", "ours (cgmcr2.encoders.augmentation, encoder moco:FILE?views=2)"],
        ["RandomResizedCrop(32, scale=(0.08, 1.0))", f"a crop of {MIN_CROP_AREA:g} to 1 of the area, to 32 px"],
        ["RandomHorizontalFlip(p=0.5)", "the same"],
        ["RandomApply([ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)", "the same, with Pillow"],
        ["RandomGrayscale(p=0.2)", "the same"],
        ["ToTensor, Normalize (CIFAR-10's mean and std)", "the same"],
    ]


SPECIFICATION_TABLES = (
    SpecificationTable(
        "table-a1",
        "Table A.1",
        "data-sets",
        "Specification of the data sets",
        _datasets,
        "Our numbers are those of the official files, verified when they are loaded; Flowers-102 has 8,189 images. "
        "N/A: no split; all images are used for training and testing.",
        align="lr",
    ),
    SpecificationTable(
        "table-a2", "Table A.2", "layers", "Network layers", _network, "For CLIP features and ten clusters."
    ),
    SpecificationTable(
        "table-a3",
        "Table A.3",
        "settings",
        "Settings for each data set",
        _settings,
        "The paper's settings, which our runs of its tables use; see CgMCR2.for_dataset.",
        align="lr",
    ),
    SpecificationTable(
        "table-a5",
        "Table A.5",
        "views",
        "Augmentation of MoCo-v2",
        _augmentation,
        "The paper trained its MoCo-v2 encoder with these augmentations; its features are the mean over two augmented "
        "views. This command does not train the encoder.",
    ),
)
