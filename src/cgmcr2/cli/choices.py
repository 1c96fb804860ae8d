"""Values of the options with fixed choices.

They repeat types of the library, because importing those would import torch and make ``--help`` slow. A test compares
the two.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

Preset = Literal["auto", "paper", "reference"]
Precision = Literal["auto", "float32", "bfloat16"]
ExportFormat = Literal[
    "folders", "imagefolder", "csv", "json", "parquet", "arrow", "lance", "coco", "fiftyone", "label-studio", "onnx"
]
Link = Literal["copy", "hardlink", "symlink"]
MapMethod = Literal["auto", "pca", "tsne", "umap"]
Engine = Literal["local", "ray"]
StoredType = Literal["float32", "float16"]
PretrainMethod = Literal["moco-v2", "simclr-tcr", "cc", "gcc", "imc-swav"]


def metavar(choices: Any) -> str:
    """Return the choices as the help shows them.

    >>> metavar(Preset)
    '[auto|paper|reference]'
    """
    return f"[{'|'.join(get_args(choices))}]"
