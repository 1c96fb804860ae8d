"""``cgmcr2 doctor``: check this machine, a run folder or a feature store."""

from __future__ import annotations

import dataclasses
import platform
from importlib import metadata, util
from pathlib import Path
from typing import Annotated

import typer

from . import options
from .output import print_json

EPILOG = """\b
Examples:
  cgmcr2 doctor
  cgmcr2 doctor run
  cgmcr2 doctor run --repair
  cgmcr2 doctor store --compact
"""
CORE = ("torch", "numpy", "scipy", "scikit-learn", "pillow", "safetensors")
EXTRAS = {
    "clip": ("transformers",),
    "viz": ("matplotlib", "umap"),
    "cloud": ("s3fs", "aiohttp", "pyarrow"),
    "ray": ("ray",),
    "tune": ("optuna",),
    "compare": ("evoc", "umap"),
    "table": ("pyarrow", "pandas"),
    "lance": ("pyarrow", "lance"),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "photos": ("pillow_heif",),
    "log": ("tensorboard",),
    "web": ("starlette", "uvicorn", "python_multipart"),
}


def doctor(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="Run folder or feature store to verify; default: this machine."),
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Rebuild damaged files that can be rebuilt.")] = False,
    compact: Annotated[
        bool, typer.Option("--compact", help="Then remove unused rows from the feature store and join short shards.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Check this machine, or verify a run folder or feature store.

    Verifying compares every file with its checksum. The exit code is 1 if files are damaged.
    """
    if run is None:
        if compact:
            raise ValueError("--compact needs a feature store or a run folder; give one.")
        _check_machine(as_json)
    else:
        _check_folder(run, repair, compact, as_json, progress=not quiet)


def _check_folder(path: Path, repair: bool, compact: bool, as_json: bool, *, progress: bool) -> None:
    from cgmcr2.features.sources import is_features
    from cgmcr2.report import report_run
    from cgmcr2.runs import check_run, check_store, compact_store, repair_run

    if not path.is_dir():
        raise FileNotFoundError(f"There is no folder {path}.")
    store = is_features(path)
    findings = check_store(path) if store else check_run(path)
    damaged = len(findings)
    if repair and findings and not store:
        findings = repair_run(path, progress=progress)
        if [finding.file for finding in findings] == ["report.html"]:
            report_run(path)
            findings = check_run(path)
    freed = compact_store(path) if compact and not findings else None
    if as_json:
        values = {"folder": str(path), "findings": [dataclasses.asdict(finding) for finding in findings]}
        print_json(values if freed is None else {**values, "freed_bytes": freed})
    elif not findings:
        typer.echo(f"{path}: all files are intact{f' after {damaged} repairs' if damaged else ''}.")
        if freed is not None:
            typer.echo(f"The feature store is compact; {freed / 1e6:,.1f} MB were freed.")
    for finding in [] if as_json else findings:
        typer.echo(f"{finding.file}: {finding.problem}")
        how = "with --repair, " if finding.repairable and not repair else ""
        typer.echo(f"  {how}{finding.remedy}")
    if findings:
        raise typer.Exit(1)


def _check_machine(as_json: bool) -> None:
    import torch

    from cgmcr2 import __version__
    from cgmcr2._device import choose_device, supports_bfloat16

    device = choose_device()
    bfloat16, threads = supports_bfloat16(device), torch.get_num_threads()
    system = f"{platform.system()} {platform.machine()}"
    packages = {name: _version(name) for name in CORE}
    missing = {extra: [name for name in modules if util.find_spec(name) is None] for extra, modules in EXTRAS.items()}
    if as_json:
        versions = {"cgmcr2": __version__, "python": platform.python_version(), "system": system, "packages": packages}
        hardware = {"device": str(device), "bfloat16": bfloat16, "threads": threads}
        print_json({**versions, **hardware, "missing": missing})
        return
    typer.echo(f"cgmcr2 {__version__}, Python {platform.python_version()}, {system}")
    typer.echo(", ".join(f"{name} {version or 'missing'}" for name, version in packages.items()))
    typer.echo(f"device {device}, bfloat16 {'supported' if bfloat16 else 'not supported'}, {threads} threads")
    for extra, names in missing.items():
        state = f"{', '.join(names)} missing: pip install 'cgmcr2[{extra}]'" if names else "installed"
        typer.echo(f"[{extra}] {state}")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
