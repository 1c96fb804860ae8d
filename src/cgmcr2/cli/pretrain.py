"""``cgmcr2 pretrain``: from images to an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import choices, options
from .choices import metavar
from .output import count, print_json
from .parameters import parse_setting

EPILOG = """\b
Examples:
  cgmcr2 pretrain photos -o encoder
  cgmcr2 pretrain scans.npz --method simclr-tcr --width 16 -o encoder
  cgmcr2 pretrain photos --size 64 --set temperature=0.2 -o encoder
"""


def pretrain(
    source: options.Images,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="Folder of the encoder; an interrupted run is resumed."),
    ],
    method: Annotated[
        choices.PretrainMethod,
        typer.Option("--method", metavar=metavar(choices.PretrainMethod), help="Self-supervised method."),
    ] = "moco-v2",
    epochs: Annotated[
        float | None, typer.Option("--epochs", metavar="N", help="Passes over all images.  [default: 200]")
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size", metavar="N", help="Side of the images in pixels.  [default: 32 for small images, else 224]"
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", metavar="N", help="Channels of the first layer; fewer for slow machines.  [default: 64]"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Further setting, such as batch_size=512; repeatable."),
    ] = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    precision: options.Precision = None,
    data: options.Data = None,
    download: options.Download = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Train an encoder on your own images, without labels.

    This is for images unlike those that public encoders were trained on. Pass the output folder to --encoder. Without a
    GPU this takes hours to days; a smaller width or size, or fewer epochs, are faster. Several thousand images are
    needed.
    """
    from cgmcr2.datasets import open_images
    from cgmcr2.distributed import process_group
    from cgmcr2.pretrain import pretrain_images

    values = dict(map(parse_setting, settings or []))
    given = {"epochs": epochs, "size": size, "width": width}
    values |= {name: value for name, value in given.items() if value is not None}
    catalog, _ = open_images(source, data, download=download, exclude=[output])
    with process_group() as group:
        trained = pretrain_images(
            catalog,
            output,
            method,
            values,
            seed=seed,
            device=device,
            precision=precision or "auto",
            progress=not quiet,
            group=group,
        )
    if group.rank > 0:  # the first process prints the result
        return
    if trained is not None and not trained.finished:
        raise KeyboardInterrupt
    last = trained.history[-1] if trained is not None else {}
    if as_json:
        names = ("loss", "spread")
        print_json({"encoder": str(output), "trained": trained is not None, **{name: last.get(name) for name in names}})
    elif trained is None:
        typer.echo(f"The encoder is finished already: {output}")
    else:
        size, steps = trained.settings.size, count(len(trained.history), "step")
        typer.echo(f"Encoder with {trained.dim} features, trained on {size} x {size} pixels in {steps}: {output}")
