"""Exported models give the labels of predict, without torch."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from cgmcr2 import CgMCR2
from cgmcr2.encoders import register_encoder
from cgmcr2.encoders.preprocessing import Preprocessing
from cgmcr2.encoders.torch_encoder import TorchEncoder
from cgmcr2.runs import Edits, Predictor, RunFolder, fit_images
from cgmcr2.runs.onnx import OnnxExport, export_onnx
from cgmcr2.runs.predict import follow_edits

from ..colours import QUICK

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "serve_onnx.py"


class Patches(TorchEncoder):
    """Encoder that returns the mean colour of each of 16 patches; fast to export."""

    name, dim, fingerprint = "patches", 48, "patches-1"

    def __init__(self) -> None:
        super().__init__(Preprocessing(resize=20, crop=16), "cpu")
        self._network = nn.AvgPool2d(4)

    def _features(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self._network(pixels.permute(0, 3, 1, 2)).flatten(1)
        return features


register_encoder("patches", lambda: Patches())


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty reddish, greenish, bluish and grey images, wide and high; two of them rotated by their EXIF data."""
    folder = tmp_path_factory.mktemp("onnx") / "images"
    folder.mkdir()
    noise = np.random.default_rng(0)
    for number in range(40):
        pixels = noise.integers(0, 90, ((30, 50, 3), (64, 31, 3))[number % 2])
        pixels[:20, :20] //= 2
        if number % 4 < 3:
            pixels[..., number % 4] += 150
        exif = Image.Exif()
        exif[0x0112] = 6 if number in (0, 5) else 1
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.jpg", exif=exif, quality=95)
    return folder


@pytest.fixture(scope="module")
def image_run(images: Path) -> RunFolder:
    """Run with a renamed and a merged cluster."""
    folder = fit_images(CgMCR2(4, settings=QUICK), images, images.parent / "run", encoder="patches").folder
    with Edits(folder) as edits:
        edits.rename(0, "déjà vu")
        edits.merge([0, 2])
    return RunFolder(folder.path)


@pytest.fixture(scope="module")
def exported(image_run: RunFolder) -> OnnxExport:
    return export_onnx(image_run, image_run.path.parent / "deploy")


def read(images: Path) -> np.ndarray[Any, Any]:
    return np.stack([Patches().preprocess(Image.open(path).convert("RGB")) for path in sorted(images.iterdir())])


def test_outputs_are_those_of_the_model(image_run: RunFolder, exported: OnnxExport, images: Path) -> None:
    assert exported == (image_run.path.parent / "deploy", "patches", 40, 40)
    session = onnxruntime.InferenceSession(str(exported.path / "model.onnx"))
    batch = read(images)
    for n in (1, 7):  # the number of images is variable
        outputs = session.run(["cluster", "probabilities", "embedding"], {"images": batch[:n]})
        expected = follow_edits(
            image_run.model().infer(Patches().encode(batch[:n])), image_run.fitted, image_run.clustering
        )
        assert expected.probabilities is not None
        np.testing.assert_array_equal(outputs[0], expected.labels)
        np.testing.assert_allclose(outputs[1], expected.probabilities, atol=1e-5)
        np.testing.assert_allclose(outputs[2], expected.embedding, atol=1e-5)


def test_description(exported: OnnxExport) -> None:
    description = json.loads((exported.path / "model.json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(exported.path / "model.onnx"))
    assert json.loads(session.get_modelmeta().custom_metadata_map["cgmcr2"]) == description
    assert description["names"][0] == "déjà vu"
    assert description["input"] == {"dtype": "uint8", "shape": ["n", 16, 16, 3]}
    assert description["preprocessing"]["resize_to"] == "shorter side"
    assert [description["preprocessing"][key] for key in ("resize", "crop", "resample")] == [20, 16, "bicubic"]


def test_example_serves_the_labels_of_predict(
    exported: OnnxExport, image_run: RunFolder, images: Path, tmp_path: Path
) -> None:
    predicted = Predictor(image_run).predict_images(images, cache=tmp_path).clustering
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    without_torch = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['cgmcr2'] = None; runpy.run_path(sys.argv.pop(1))"
    )
    arguments = [EXAMPLE, exported.path / "model.onnx", port]
    server = subprocess.Popen([sys.executable, "-c", without_torch, *map(str, arguments)], stderr=subprocess.DEVNULL)
    try:
        for row in range(0, 40, 3):
            answer = post(server, port, (images / predicted.ids[row]).read_bytes())
            assert answer["cluster"] == predicted.names[predicted.labels[row]]
            assert answer["confidence"] == pytest.approx(predicted.confidence[row], abs=1e-3)
    finally:
        server.kill()
        server.wait()


def post(server: subprocess.Popen[bytes], port: int, data: bytes) -> dict[str, Any]:
    """Answer of the server; waits while it starts."""
    while server.poll() is None:
        connection = http.client.HTTPConnection("localhost", port)
        try:
            connection.request("POST", "/", data)
            answer: dict[str, Any] = json.load(connection.getresponse())
            return answer
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise AssertionError("The server has stopped.")


def test_run_on_features(run: RunFolder, tmp_path: Path) -> None:
    result = export_onnx(run.path, tmp_path / "deploy")
    assert (result.encoder, result.checked, result.equal) == (None, 60, 60)
    session = onnxruntime.InferenceSession(str(tmp_path / "deploy" / "model.onnx"))
    assert [item.name for item in session.get_inputs()] == ["features"]


def test_labels_of_a_split_cluster_are_counted_as_different(run: RunFolder, tmp_path: Path) -> None:
    folder = shutil.copytree(run.path, tmp_path / "run")
    with Edits(folder) as edits:
        edits.split(0)
    predicted = Predictor(folder).predict_features(run.info.source, part="train").clustering.labels
    result = export_onnx(folder, tmp_path / "deploy")
    assert result.checked - result.equal == (predicted == 3).sum() > 0


def test_other_labels_are_refused(image_run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patches, "_forward", lambda self, batch: -super(Patches, self)._forward(batch))
    with pytest.raises(ValueError, match=r"to other clusters than predict does, so nothing was written"):
        export_onnx(image_run, tmp_path / "deploy")
    assert list(tmp_path.iterdir()) == []


def test_user_errors(run: RunFolder, image_run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileExistsError, match="never overwrites"):
        export_onnx(run, tmp_path)
    shutil.copytree(run.path, tmp_path / "run")
    text = (tmp_path / "run" / "run.json").read_text()
    (tmp_path / "run" / "run.json").write_text(re.sub(r'"source": ".*?"', '"source": "gone.npz"', text))
    RunFolder(tmp_path / "run").seal()
    with pytest.raises(FileNotFoundError, match=r"are no longer in gone\.npz"):
        export_onnx(tmp_path / "run", tmp_path / "deploy")
    with pytest.raises(FileNotFoundError, match="with --images"):
        export_onnx(image_run, tmp_path / "deploy", images=tmp_path / "gone")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"cgmcr2\[onnx\]"):
        export_onnx(run, tmp_path / "deploy")
