"""``cgmcr2 doctor``: what is here, and what is missing."""

from __future__ import annotations

import platform
from importlib import metadata, util

import typer

CORE = ("torch", "numpy", "scipy", "scikit-learn", "pillow", "safetensors")
EXTRAS = {
    "clip": ("transformers",),
    "viz": ("matplotlib", "umap"),
    "tune": ("optuna",),
    "table": ("pyarrow", "pandas"),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "photos": ("pillow_heif",),
    "log": ("tensorboard",),
}


def doctor() -> None:
    """Show versions, the device and precision that would be used, and which extras are installed."""
    import torch

    from cgmcr2 import __version__
    from cgmcr2._device import choose_device, choose_precision

    device = choose_device()
    typer.echo(f"cgmcr2 {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    typer.echo(", ".join(f"{name} {_version(name)}" for name in CORE))
    precision = str(choose_precision("auto", device)).removeprefix("torch.")
    typer.echo(f"device {device}, precision {precision}, {torch.get_num_threads()} threads")
    for extra, modules in EXTRAS.items():
        missing = [name for name in modules if util.find_spec(name) is None]
        state = "installed" if not missing else f"{', '.join(missing)} missing: pip install 'cgmcr2[{extra}]'"
        typer.echo(f"[{extra}] {state}")


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "MISSING"
