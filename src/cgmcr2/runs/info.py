"""``run.json``: what a run was asked for and what it found."""

from __future__ import annotations

import dataclasses
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from cgmcr2._files import read_json, write_json
from cgmcr2._version import __version__

FORMAT = 1
REQUEST = ("source", "fitted_on", "features", "encoder", "encoder_name", "images", "data", "names", "parameters")


@dataclasses.dataclass
class FittedOn:
    """The rows that a model was fitted on."""

    part: str  # such as "all images" or "split 0"
    rows: int
    width: int  # number of features


@dataclasses.dataclass
class RunInfo:
    """The contents of ``run.json``.

    The first fields are the request: a run folder belongs to one request, and the same request resumes it.
    """

    source: str  # path or data set name of the input
    fitted_on: FittedOn
    parameters: dict[str, Any]  # of the estimator
    features: str | None = None  # digest of the fitted rows
    encoder: str | None = None  # fingerprint of the encoder that made the features, if known
    encoder_name: str | None = None  # for runs on images: the encoder, as given to load_encoder
    images: str | None = None  # for runs on images: fingerprint of their contents
    data: str | None = None  # for runs on a named data set: the folder of its files
    names: list[str] | None = None  # for groups by wish: the names that the clusters started from
    finished: bool = False
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] | None = None  # every training setting used
    protocol: str | None = None  # of labels.csv
    stability: float | None = None  # share of rows on which independent partitions agree
    choice: dict[str, Any] | None = None  # how the number of clusters was chosen
    format: int = FORMAT

    def __post_init__(self) -> None:
        self.versions = self.versions or {
            "cgmcr2": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("torch", "numpy", "scikit-learn")},
        }

    def values(self) -> dict[str, Any]:
        """The entries of ``run.json``: the fields that are not None."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    def write(self, path: Path) -> None:
        """Write ``run.json``."""
        write_json(path, self.values())

    @classmethod
    def read(cls, path: Path) -> RunInfo:
        """Read ``run.json``."""
        if not path.is_file():
            if not path.parent.exists():
                raise FileNotFoundError(
                    f"There is no folder {path.parent}; give the folder that cgmcr2 cluster or fit wrote."
                )
            raise FileNotFoundError(
                f"{path.parent} is not a run folder: it has no run.json; make one with cgmcr2 cluster or cgmcr2 fit."
            )
        return read_json(path, cls, format=FORMAT, advice="repeat the run in another folder")

    def differences(self, other: RunInfo) -> list[str]:
        """The parts of the request in which two runs differ."""
        return [name for name in REQUEST if getattr(self, name) != getattr(other, name)]
