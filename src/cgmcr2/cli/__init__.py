"""``cgmcr2``: one file a verb. Nothing heavy is imported before a verb runs."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated, Any

import typer

from cgmcr2 import __version__

from . import (
    choose_k,
    cluster,
    compare,
    datasets,
    demo,
    doctor,
    embed,
    encoders,
    evaluate,
    export,
    fit,
    predict,
    report,
    reproduce,
    tune,
)

app = typer.Typer(
    name="cgmcr2",
    help="Find the groups in images that nobody has labelled.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"cgmcr2 {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


for verb in (
    cluster.cluster,
    choose_k.choose_k,
    predict.predict,
    report.report,
    export.export,
    embed.embed,
    fit.fit,
    evaluate.evaluate,
    compare.compare,
    reproduce.reproduce,
    tune.tune,
    encoders.encoders,
    datasets.datasets,
    demo.demo,
    doctor.doctor,
):
    app.command()(verb)


def main() -> None:
    """The program."""
    sys.exit(run(*sys.argv[1:]))


def run(*words: object) -> int:
    """Run the command of these words and return its exit code.

    What goes wrong for a reason that the user can mend is one sentence and exit code 2.

    >>> run("--version")
    cgmcr2 ...
    0
    """
    # threads that wait sleep: on a machine that others use too, spinning ones made a fit more than twice as slow
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.showwarning = _show_warning
    try:
        app([str(word) for word in words], prog_name="cgmcr2")
    except SystemExit as ended:
        return int(ended.code or 0)
    except BrokenPipeError:  # the reader of our output (`| head`) has gone
        sys.stderr.close()
        return 1
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        if os.environ.get("CGMCR2_DEBUG"):
            raise
        typer.echo(f"cgmcr2: {_sentence(error)}", err=True)
        return 2
    return 0


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"cgmcr2: warning: {' '.join(str(message).split())}", err=True)
