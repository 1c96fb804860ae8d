"""Options that several commands share."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from cgmcr2.experiments.choices import Part as PartName

from . import choices
from .choices import metavar
from .messages import set_level


def _check_device(name: str) -> str:
    """Reject a device that this machine does not have before any work is done."""
    if name != "auto":
        from cgmcr2._device import choose_device

        choose_device(name)
    return name


def _check_seed(seed: int | None) -> int | None:
    if seed is not None and not 0 <= seed < 2**32:
        raise typer.BadParameter(f"{seed} is not an integer from 0 to 2**32 - 1.")
    return seed


def _set_quiet(quiet: bool) -> bool:
    if quiet:
        set_level(logging.WARNING)
    return quiet


def _set_verbose(verbose: bool) -> bool:
    if verbose:
        set_level(logging.DEBUG)
    return verbose


def encoder_name(names: list[str] | None, views: int | None = None) -> str:
    """The name of the encoder that ``--encoder`` and ``--views`` ask for; several are joined to one."""
    from cgmcr2.encoders.registry import SEPARATOR, add_option

    name = SEPARATOR.join(names or ["bundled"])
    return name if views is None else add_option(name, "views", views)


Level = Annotated[
    int | None,
    typer.Option(
        "--level", metavar="N", help="Coarser or finer: N clusters, of a run with -k auto.  [default: as fitted]"
    ),
]
Clusters = Annotated[
    str | None,
    typer.Option("-k", "--clusters", metavar="N|auto", help="Number of clusters; auto chooses it from the data."),
]
Images = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Folder, list, archive (zip, tar, npz), WebDataset or Parquet shards of images, as a path or URL such as "
        "s3://bucket/photos; or name of a data set.",
    ),
]
ImagesOrFeatures = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Folder, list, archive or shards of images, as a path or URL; feature file; or feature store.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of cluster or fit.")]
Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="DIR", help="Run folder; an interrupted run in it is resumed.")
]
MovedImages = Annotated[
    str | None, typer.Option("--images", metavar="SOURCE", help="Location of the images, if they were moved.")
]
WithEdits = Annotated[
    bool,
    typer.Option("--with-edits/--without-edits", help="Use the clusters as edited, or as fitted."),
]
Encoder = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="Image encoder; cgmcr2 encoders lists the names. Repeat it to combine several.  [default: bundled]",
    ),
]
Views = Annotated[
    int | None,
    typer.Option(
        "--views",
        metavar="N",
        min=1,
        help="Average the features of N augmented views of each image.  [default: the image itself]",
    ),
]
Preset = Annotated[
    choices.Preset | None,
    typer.Option("--preset", metavar=metavar(choices.Preset), help="Source of the training settings.  [default: auto]"),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        callback=_check_seed,
        help="Random seed. Results are reproducible on the same machine.",
    ),
]
SeedOverConfig = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        callback=_check_seed,
        help="Random seed. Results are reproducible on the same machine.  [default: 0]",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings from a .toml file, or from the run.json of a run to repeat; options take precedence.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Training setting, such as gamma=50; repeatable."),
]
Part = Annotated[
    PartName, typer.Option("--part", metavar=metavar(PartName), help="Rows to use if the feature file has a split.")
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of the data set's files; see cgmcr2 datasets."),
]
Download = Annotated[bool, typer.Option("--download", help="Download missing files of the data set.")]
Device = Annotated[
    str, typer.Option("--device", metavar="NAME", callback=_check_device, help="Device: auto, cpu, cuda or mps.")
]
Precision = Annotated[
    choices.Precision | None,
    typer.Option(
        "--precision",
        metavar=metavar(choices.Precision),
        help="Type of the matrix products in training.  [default: auto]",
    ),
]
Engine = Annotated[
    choices.Engine,
    typer.Option(
        "--engine",
        metavar=metavar(choices.Engine),
        help="Embed with the threads of this process, or with the workers of Ray.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="ADDRESS", help="Ray cluster; auto finds that of this machine.  [default: start Ray here]"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Decoding threads; with Ray, worker processes.  [default: number of cores]",
    ),
]
RetryErrors = Annotated[
    bool,
    typer.Option("--retry-errors", help="Try unreadable images again; otherwise only after their file has changed."),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--names",
        metavar="NAME,NAME,...",
        help="Names of the clusters, instead of -k: they start from these words. other is for all other images; "
        "with -k auto instead, these become further clusters.",
    ),
]
TextFile = Annotated[
    Path | None,
    typer.Option(
        "--text-embeddings",
        metavar="FILE",
        help="Words (names, synonyms) and their embeddings by the model of the features, in an .npz file.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", callback=_set_quiet, help="Show results, warnings and errors only.")
]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", callback=_set_verbose, help="Show details, and tracebacks of errors.")
]
