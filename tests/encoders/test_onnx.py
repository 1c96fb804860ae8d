"""ONNX encoders with small models."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cgmcr2.encoders import Encoder, load_encoder
from cgmcr2.encoders.onnx import OnnxEncoder

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def write(
    path: Path, *, shape: tuple[Any, ...] = ("n", 3, 32, 32), dtype: int = 1, outputs: str = "vector", scale: float = 1
) -> Path:
    """Write a model with a 4x4 patch convolution to 5 channels; the output `map` is not pooled."""
    helper = onnx.helper
    numpy_type = {1: np.float32, 10: np.float16, 6: np.int32}[dtype]
    weight = (np.random.default_rng(0).normal(size=(5, 3, 4, 4)) * scale).astype(numpy_type)
    infos = {
        "vector": helper.make_tensor_value_info("vector", dtype, ["n", 5]),
        "pooled": helper.make_tensor_value_info("pooled", dtype, ["n", 5, 1, 1]),
        "map": helper.make_tensor_value_info("map", dtype, ["n", 5, "h", "w"]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["map"], strides=[4, 4]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["vector"]),
    ]
    image = helper.make_tensor_value_info("x", dtype, shape)
    graph = helper.make_graph(
        nodes, "g", [image], [infos[name] for name in outputs.split()], [onnx.numpy_helper.from_array(weight, "weight")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def reference(image: Image.Image, size: int, mean: float = 0.5, std: float = 0.25) -> np.ndarray[Any, Any]:
    weight = torch.tensor(np.random.default_rng(0).normal(size=(5, 3, 4, 4)))
    pixels = torch.tensor(np.asarray(image.resize((size, size), Image.Resampling.BICUBIC)) / 255).permute(2, 0, 1)
    result = torch.nn.functional.conv2d((pixels[None] - mean) / std, weight, stride=4).mean((2, 3))[0]
    return result.numpy()  # type: ignore[no-any-return]


OPTIONS: dict[str, Any] = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}


@pytest.mark.parametrize("outputs", ["vector", "pooled", "map vector"])
@pytest.mark.parametrize(("shape", "size"), [(("n", 3, 32, 32), 32), ((2, 3, 32, 32), 32), (("n", 3, "h", "w"), 64)])
def test_features_equal_those_of_the_model(
    shape: tuple[Any, ...], size: int, outputs: str, tmp_path: Path, images: list[Image.Image]
) -> None:
    path = write(tmp_path / "m.onnx", shape=shape, outputs=outputs)
    encoder = OnnxEncoder(path, size=64 if shape[2] == "h" else None, **OPTIONS)
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.image_size) == (5, size)
    square = images[3]
    batch = np.stack([encoder.preprocess(image) for image in [square, *images[:6]]])
    features = encoder.encode(batch)
    assert features.shape == (7, 5)
    np.testing.assert_allclose(features[0], reference(square, size), rtol=1e-4, atol=1e-4)
    alone = np.concatenate([encoder.encode(batch[i : i + 1]) for i in range(7)])
    np.testing.assert_allclose(alone, features, rtol=1e-5, atol=1e-6)


def test_half_precision_models(tmp_path: Path, images: list[Image.Image]) -> None:
    encoder = OnnxEncoder(write(tmp_path / "m.onnx", dtype=10), **OPTIONS)
    features = encoder.encode(encoder.preprocess(images[3])[None])
    assert features.dtype == np.float32
    np.testing.assert_allclose(features[0], reference(images[3], 32), rtol=0.02, atol=0.02)


def test_output_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", outputs="map vector")
    assert OnnxEncoder(path, output="map").dim == 5 * 8 * 8
    with pytest.raises(ValueError, match=r"must have an output named 'logits', but has map .*, vector"):
        OnnxEncoder(path, output="logits")


def test_fingerprint_and_name(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx")
    (tmp_path / "other").mkdir()
    copy = write(tmp_path / "other" / "copy.onnx")
    encoder = load_encoder(f"onnx:{path}", **OPTIONS)
    assert encoder.name == f"onnx:{path.resolve()}?mean=0.5,0.5,0.5&std=0.25,0.25,0.25"
    assert load_encoder(encoder.name).fingerprint == encoder.fingerprint
    assert load_encoder(copy, **OPTIONS).fingerprint == encoder.fingerprint
    assert load_encoder(path).fingerprint != encoder.fingerprint
    assert load_encoder(write(path, scale=2), **OPTIONS).fingerprint != encoder.fingerprint


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            {"shape": ("n", 1, 32, 32)},
            r"float input of shape \(n, 3, h, w\) with h = w, but has x tensor\(float\) \['n', 1, 32, 32\]",
        ),
        ({"shape": ("n", 3, 32, 64)}, "with h = w"),
        ({"shape": ("n", 3, 32, 32), "outputs": "map"}, r"must have an output of shape \(n, D\), but has map"),
    ],
)
def test_models_that_are_not_encoders(model: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        OnnxEncoder(write(tmp_path / "m.onnx", **model))


def test_wrong_files_and_sizes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no model .*none\.onnx"):
        OnnxEncoder(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ValueError, match=r"text\.onnx cannot be loaded by onnxruntime"):
        OnnxEncoder(tmp_path / "text.onnx")
    with pytest.raises(ValueError, match="takes images of 32 pixels, got size=64"):
        OnnxEncoder(write(tmp_path / "m.onnx"), size=64)


def test_error_without_onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "m.onnx")
    import_module = builtins.__import__

    def no_onnxruntime(name: str, *args: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return import_module(name, *args)

    monkeypatch.setattr(builtins, "__import__", no_onnxruntime)
    with pytest.raises(ImportError, match=r"pip install 'cgmcr2\[onnx\]'"):
        OnnxEncoder(path)
