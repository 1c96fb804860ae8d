"""Export the encoder and the network of a run as one ONNX model that needs neither torch nor this package."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from cgmcr2._files import write_text
from cgmcr2.clustering.edits import cluster_targets
from cgmcr2.clustering.export import new_folder
from cgmcr2.encoders import Encoder, load_encoder
from cgmcr2.encoders.hub import first_line
from cgmcr2.encoders.torch_encoder import EncoderModule
from cgmcr2.features.sources import read_rows
from cgmcr2.images import iter_decoded
from cgmcr2.inference import TrainedModel

from .folder import RunFolder, StrPath
from .predict import Predictor, follow_edits

logger = logging.getLogger(__name__)

CHECKED = 256  # rows of the run whose labels are compared
CHUNK = 16  # images per call of the exported model in the comparison
ROUNDING_MARGIN = 0.05  # below this margin, rounding in half precision may decide between two clusters
OUTPUTS = {
    "cluster": "int64 (n,): number of the cluster, an index into names",
    "probabilities": "float32 (n, k): calibrated memberships; rows sum to 1",
    "embedding": "float32 (n, d): rows of unit length",
}


class OnnxExport(NamedTuple):
    """Result of an export."""

    path: Path  # folder with model.onnx and model.json
    encoder: str | None  # the encoder in the model; None if the model takes features
    checked: int  # rows of the run that were compared with predict
    equal: int  # how many of them got the same label


def export_onnx(run: StrPath | RunFolder, out: StrPath, *, images: StrPath | None = None) -> OnnxExport:
    """Write ``model.onnx`` and its description ``model.json`` to the folder ``out``, which must not exist.

    The model takes ``images``, uint8 (n, size, size, 3), resized and cropped as ``model.json`` describes. If the run
    was fitted on features, or its encoder is not a torch module, it takes ``features``, float32 (n, D), instead. Its
    outputs are ``cluster``, ``probabilities`` and ``embedding``; names and merges of the run apply. The description is
    also in the metadata of the model.

    Up to 256 rows of the run are labelled with the exported model. Labels that differ from those of ``predict`` raise
    ``ValueError``, unless two clusters are almost equally probable, or images were moved or clusters split by edits.

    Parameters
    ----------
    run : the run folder
    out : the folder to create
    images : location of the images, if they were moved
    """
    folder = run if isinstance(run, RunFolder) else RunFolder(run)
    if os.path.lexists(out):
        raise FileExistsError(f"{out} already exists, and an export never overwrites; choose another path.")
    try:
        import onnxruntime  # noqa: F401 - used in the comparison
        import onnxscript  # noqa: F401 - used by torch.onnx
    except ImportError as error:
        raise ImportError("Export to onnx needs onnxruntime; install it with: pip install 'cgmcr2[onnx]'") from error
    predictor, encoder = Predictor(folder), None
    if folder.info.encoder_name is not None:
        encoder = load_encoder(folder.info.encoder_name)
        predictor.check_encoder(encoder.fingerprint, encoder.dim, folder.info.encoder_name)
    module = encoder.export_module() if encoder is not None and hasattr(encoder, "export_module") else None
    inputs, features = _sample(folder, encoder, images)
    targets = cluster_targets(predictor.base, folder.clustering)
    if (targets[predictor.base.labels] != folder.clustering.labels).any():
        logger.warning("The model knows renamed and merged clusters, but no splits or moved images.")
    expected = predictor.model.infer(features)
    inputs = features if module is None else inputs.reshape(-1, *module.preprocessing.shape)
    network = _DeployedModel(module, predictor.model, targets, folder.clustering.n_clusters)
    with new_folder(Path(out)) as temporary:
        program = _export(network, inputs[:2], "features" if module is None else "images")
        description = _describe(folder, encoder, module, inputs)
        program.model.metadata_props["cgmcr2"] = json.dumps(description)
        program.save(str(temporary / "model.onnx"))
        write_text(temporary / "model.json", json.dumps(description, indent=1, ensure_ascii=False) + "\n")
        labels = _run(temporary / "model.onnx", inputs)
        different = labels != targets[expected.labels]
        if (different & (expected.margin > ROUNDING_MARGIN)).any():
            raise ValueError(
                f"The exported model assigns {different.sum()} of {len(labels)} images to other clusters than predict "
                "does, so nothing was written; use cgmcr2 predict."
            )
    name = None if module is None else description["encoder"]
    predicted = follow_edits(expected, predictor.base, folder.clustering).labels
    return OnnxExport(Path(out), name, len(labels), int((labels == predicted).sum()))


class _DeployedModel(nn.Module):
    """Images (n, size, size, 3), or features (n, D), to clusters (n,), probabilities (n, k) and embedding (n, d)."""

    targets: Tensor
    merge: Tensor

    def __init__(
        self, encoder: EncoderModule | None, model: TrainedModel, targets: npt.NDArray[np.int64], n_clusters: int
    ) -> None:
        super().__init__()
        self.encoder, self.network = encoder, model.network
        self.head, self.temperature = model.head, model.temperature
        self.register_buffer("targets", torch.from_numpy(targets))
        self.register_buffer("merge", nn.functional.one_hot(torch.from_numpy(targets), n_clusters).float())
        self.to(torch.device("cpu") if encoder is None else encoder.mean.device)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        Z, logits = self.network.embed(x if self.encoder is None else self.encoder(x))
        logits = logits[self.head]
        probabilities = (logits / self.temperature).softmax(-1) @ self.merge  # (n, k) x (k, edited k)
        return self.targets[logits.argmax(-1)], probabilities, Z


def _sample(
    folder: RunFolder, encoder: Encoder | None, images: StrPath | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
    """Up to ``CHECKED`` evenly spaced rows of the run: inputs of the encoder, if there is one, and features (n, D)."""
    ids = folder.clustering.ids
    rows = np.unique(np.linspace(0, len(ids) - 1, CHECKED).astype(np.int64))
    sample = [ids[row] for row in rows]
    if encoder is None:
        source = folder.features(sample)
        if source is None:
            raise FileNotFoundError(
                f"The features of {folder.path} are no longer in {folder.info.source}, and an export is checked with "
                "them; put the file back."
            )
        features = read_rows(source, slice(None))
        return features, features
    catalog = folder.catalog(images)
    index = {id: number for number, id in enumerate(catalog.ids)}
    indices = sorted(index[id] for id in sample if id in index)
    decoded = iter_decoded(catalog, encoder.preprocess, indices=indices, size=encoder.image_size)
    inputs = [result for _, result in decoded if not isinstance(result, str)]
    if not inputs:
        raise ValueError(f"None of {len(sample)} images of the run can be read; an export is checked with them.")
    batch = np.stack(inputs)
    return batch, encoder.encode(batch)


def _export(network: nn.Module, inputs: npt.NDArray[Any], name: str) -> Any:
    """Trace the network; the number of rows stays variable."""
    example = torch.from_numpy(inputs.copy()).to(next(network.parameters()).device)
    if len(example) == 1:  # a size of 1 would be fixed
        example = torch.cat([example, example])
    try:
        with _quiet(), torch.no_grad():
            return torch.onnx.export(
                network.eval(),
                (example,),
                input_names=[name],
                output_names=list(OUTPUTS),
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise ValueError(
            f"torch cannot export this model to ONNX ({first_line(error)}); use cgmcr2 predict."
        ) from error


def _run(path: Path, inputs: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The labels (n,) that the exported model assigns."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    chunks = [inputs[start : start + CHUNK] for start in range(0, len(inputs), CHUNK)]
    return np.concatenate([session.run(["cluster"], {name: chunk})[0] for chunk in chunks])


def _describe(
    folder: RunFolder, encoder: Encoder | None, module: EncoderModule | None, inputs: npt.NDArray[Any]
) -> dict[str, Any]:
    """The content of ``model.json``."""
    description: dict[str, Any] = {
        "encoder": None if encoder is None else Path(encoder.name).name,  # without the folder of a local model
        "fingerprint": folder.info.encoder,
        "input": {"dtype": str(inputs.dtype), "shape": ["n", *inputs.shape[1:]]},
        "outputs": OUTPUTS,
        "names": folder.clustering.names,
        "versions": folder.info.versions,
    }
    if module is not None:
        settings = module.preprocessing
        description["preprocessing"] = {
            "color": "8-bit RGB, upright by the EXIF orientation, sRGB, transparency blended with white",
            "resize": settings.resize,
            "resize_to": "square" if settings.square else "shorter side",
            "resample": Image.Resampling(settings.resample).name.lower(),
            "crop": settings.crop,
            "normalization": "part of the model",
        }
    return description


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress messages and warnings of torch's exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
