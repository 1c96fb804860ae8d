"""The ``cgmcr2`` program and its commands."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cgmcr2 import __version__

from . import (
    choose_k,
    cluster,
    compare,
    datasets,
    demo,
    doctor,
    edit,
    embed,
    encoders,
    evaluate,
    explore,
    export,
    fit,
    import_,
    name,
    predict,
    pretrain,
    refine,
    report,
    reproduce,
    search,
    tune,
)

logger = logging.getLogger(__name__)

# In the order of ``cgmcr2 --help``. Each module has a function of its own name and the examples of its help.
MODULES = (
    cluster,
    choose_k,
    predict,
    explore,
    edit,
    refine,
    name,
    search,
    report,
    export,
    import_,
    embed,
    fit,
    evaluate,
    compare,
    reproduce,
    tune,
    pretrain,
    encoders,
    datasets,
    demo,
    doctor,
)

EPILOG = """\b
Examples:
  cgmcr2 cluster photos -k 10 -o run
  cgmcr2 export run -o sorted
  cgmcr2 cluster --help
"""


class Command(TyperCommand):
    """A command with the usual usage line and exit code for Ctrl-C."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, with required arguments as ``SOURCE`` instead of ``{SOURCE}``."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, without pydantic's prefix in messages about invalid values."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C ends it with exit code 130."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            logger.error("Interrupted; repeat the command to resume.")
            raise typer.Exit(130) from None


app = typer.Typer(
    name="cgmcr2",
    help="Cluster unlabelled images.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"cgmcr2 {__version__}")
        raise typer.Exit


@app.callback()
def _program_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


for _module in MODULES:
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name.rstrip("_").replace("_", "-"), cls=Command, epilog=_module.EPILOG)(getattr(_module, _name))
