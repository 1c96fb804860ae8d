"""The paper's tables that hold facts, not scores: what ours are, read from the code, beside the paper's."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

import torch

from cgmcr2._files import write_text
from cgmcr2.datasets import list_datasets
from cgmcr2.encoders.views import SMALLEST_AREA
from cgmcr2.model import Network, NetworkConfig
from cgmcr2.training import paper_settings

from .render import aligned, latex_table

Lines = list[list[str]]  # the first is the head


@dataclasses.dataclass(frozen=True)
class FactTable:
    """A table that needs no run."""

    name: str
    paper: str
    topic: str
    title: str
    lines: Callable[[], Lines]
    note: str = ""
    datasets: tuple[str, ...] = ()

    def text(self) -> str:
        """For the terminal."""
        return "\n\n".join([f"{self.paper}: {self.title}", aligned(self.lines()), self.note]).strip() + "\n"

    def save(self, folder: Path) -> list[Path]:
        """Write the table as ``NAME.txt``, ``.md``, ``.tex`` and ``.csv``."""
        head, *rows = self.lines()
        sheet = io.StringIO()
        csv.writer(sheet, lineterminator="\n").writerows([head, *rows])
        marks = [f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows]]
        texts = {
            "txt": self.text(),
            "md": "\n".join([f"# {self.paper}: {self.title}", "", *marks, "", self.note]).strip() + "\n",
            "tex": latex_table(self.name, f"{self.title}. {self.note}".strip(), head, rows),
            "csv": sheet.getvalue(),
        }
        for suffix, text in texts.items():
            write_text(folder / f"{self.name}.{suffix}", text)
        return [folder / f"{self.name}.{suffix}" for suffix in texts]


_COUNTS = {  # the paper's: training, testing
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


def _data_sets() -> Lines:
    found = [["data set", "classes", "training", "paper", "testing", "paper"]]
    for info in list_datasets():
        counts = zip((info.train, info.test), _COUNTS[info.name], strict=True)
        numbers = [f"{number:,}" if number else "N/A" for pair in counts for number in pair]
        found.append([info.title, f"{info.classes:,}", *numbers])
    return found


def _network() -> Lines:
    D, k = 768, 10
    with torch.device("meta"):  # shapes only
        network = Network(NetworkConfig(D, k))
    c = network.config
    count = sum(weight.numel() for weight in network.parameters())
    return [
        ["part", "ours", "paper"],
        ["pre-feature layer", f"Linear {D} -> {c.hidden_dim}, BatchNorm, ReLU", "Linear 768 -> 4096, BatchNorm, ReLU"],
        ["feature head", *_head(c, c.embedding_dim, "d = 128")],
        ["cluster head, with Gumbel-Softmax", *_head(c, k, "k = 10")],
        ["weights", f"{count:,}", f"{_weights(D, 4096, 128, k):,}"],
    ]


def _head(config: NetworkConfig, out: int, paper: str) -> list[str]:
    h = config.hidden_dim
    return [
        f"{config.depth} x (Linear {h} -> {h}, ReLU), Linear {h} -> {out}",
        f"Linear 4096 -> 4096, ReLU, Linear 4096 -> {paper}",
    ]


def _weights(D: int, h: int, d: int, k: int) -> int:
    """Of the layers as the paper lists them, each with its biases."""
    return (D + 1) * h + 2 * h + 2 * (h + 1) * h + (h + 1) * (d + k)


def _settings() -> Lines:
    rows = [(info.title, paper_settings(info.name)[1]) for info in list_datasets()]
    return [
        ["data set", *rows[0][1]],
        *([title, *(f"{value:g}" for value in values.values())] for title, values in rows),
    ]


def _views() -> Lines:
    return [
        ["paper", "ours (cgmcr2.encoders.views, encoder moco:FILE?views=2)"],
        ["RandomResizedCrop(32, scale=(0.08, 1.0))", f"a crop of {SMALLEST_AREA:g} to 1 of the area, to 32 px"],
        ["RandomHorizontalFlip(p=0.5)", "the same"],
        ["RandomApply([ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8)", "the same, with Pillow"],
        ["RandomGrayscale(p=0.2)", "the same"],
        ["ToTensor, Normalize (CIFAR-10's mean and std)", "the same"],
    ]


FACTS = (
    FactTable(
        "table-a1",
        "Table A.1",
        "data-sets",
        "Specification of the data sets",
        _data_sets,
        "Ours are what the readers require of the official files; those of Flowers-102 hold 8,189 images. N/A: trained "
        "and tested on the whole.",
    ),
    FactTable(
        "table-a2", "Table A.2", "layers", "The network's layers", _network, "For CLIP features and ten clusters."
    ),
    FactTable(
        "table-a3",
        "Table A.3",
        "settings",
        "Settings of each data set",
        _settings,
        "They are the paper's own, and what its tables are run with here: CgMCR2.for_dataset(name).",
    ),
    FactTable(
        "table-a5",
        "Table A.5",
        "views",
        "Augmentation of MoCo-v2",
        _views,
        "The paper's encoder was trained with these, and its features are the mean over two such views; training it is "
        "no part of this command.",
    ),
)
