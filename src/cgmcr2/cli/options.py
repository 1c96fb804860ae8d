"""Options that several verbs share, and the settings that come from a file, flags, or both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cgmcr2 import _toml

Clusters = Annotated[
    str | None, typer.Option("-k", "--clusters", help="How many clusters to find, or auto.", metavar="N")
]
Images = Annotated[
    Path,
    typer.Argument(help="A folder of images, a list or CSV of paths, a zip, tar or npz; or a data set's name."),
]
Output = Annotated[Path, typer.Option("-o", "--output", help="The run folder to make (or to go on with).")]
PresetOption = Annotated[str | None, typer.Option("--preset", help="auto, paper or reference.  [default: auto]")]
Seed = Annotated[int | None, typer.Option("--seed", help="Same seed, same machine: same labels.  [default: 0]")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="A .toml of settings, or the run.json of a run to repeat; flags override it."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, such as --set gamma=50; see docs/settings.md."),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Where the files of a data set are; see cgmcr2 datasets.", metavar="DIR")
]
Download = Annotated[bool, typer.Option("--download", help="Fetch the files of a data set that are not there.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, mps.")]
Precision = Annotated[str | None, typer.Option("--precision", help="auto, float32 or bfloat16.  [default: auto]")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No progress bars.")]


def gather(
    config: Path | None,
    clusters: str | None,
    preset: str | None,
    seed: int | None,
    precision: str | None,
    settings: list[str] | None,
) -> dict[str, Any]:
    """The estimator's parameters: those of the file, overridden by flags. ``n_clusters`` is always among them."""
    parameters = _read_config(config) if config else {}
    flags = {"preset": preset, "random_state": seed, "precision": precision}
    parameters |= {name: value for name, value in flags.items() if value is not None}
    for item in settings or []:
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"--set {item} has no value; write --set NAME=VALUE.")
        parameters[name.strip()] = parse(value.strip())
    if clusters is not None:
        parameters["n_clusters"] = _number(clusters)
    if "n_clusters" not in parameters:
        raise ValueError("The number of clusters is not given; say how many to find, such as -k 10, or -k auto.")
    return parameters


def build(parameters: dict[str, Any], **more: Any) -> Any:
    """A ``CgMCR2`` with these parameters; an unknown name is said with those there are."""
    from cgmcr2 import CgMCR2

    known = CgMCR2().get_params()
    for name in parameters:
        if name not in known:
            raise ValueError(f"There is no setting named {name!r}; there are {', '.join(sorted(known))}.")
    return CgMCR2(**{**parameters, **more})


def say_choice(run: Path) -> None:
    """Where the run chose its number of clusters, say how clear that was and what else it may be."""
    choice = json.loads((run / "run.json").read_text(encoding="utf-8")).get("choice")
    if choice:
        others = ", ".join(map(str, choice["runners_up"]))
        typer.echo(choice["verdict"] + (f" Other numbers worth a look: {others}." if others else ""))


def _number(clusters: str) -> int | str:
    if clusters == "auto":
        return clusters
    if not clusters.isdecimal() or int(clusters) < 2:
        raise ValueError(f"-k {clusters} is not a number of clusters; give a whole number of at least 2, or auto.")
    return int(clusters)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no settings file {path}.")
    text = path.read_text(encoding="utf-8")
    try:
        values = json.loads(text) if path.suffix == ".json" else _toml.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} could not be read as settings ({error}).") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold names and values, but holds a {type(values).__name__}.")
    return dict(values.get("parameters", values))


def parse(value: str) -> Any:
    try:
        return json.loads(value.lower() if value.lower() in ("true", "false") else value)
    except json.JSONDecodeError:
        return value
