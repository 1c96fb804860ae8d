"""Small models with random weights in the format of the hub, compared with the pipelines of transformers."""

from __future__ import annotations

import builtins
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cgmcr2.encoders import Encoder, load_encoder, reads_text
from cgmcr2.encoders.preprocessing import Preprocessing
from cgmcr2.encoders.vit import VitEncoder, read_preprocessing

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
}
TEXT: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 20,
    "max_position_embeddings": 12,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "projection_dim": 24,
}


def randomize(model: Any) -> Any:
    """Draw weights that are large enough for the features of two images to differ."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 and "logit" not in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) / parameter[0].numel() ** 0.5
    return model.eval()


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    vision = SMALL | {"projection_dim": 24}
    config = transformers.CLIPConfig(text_config=TEXT, vision_config=vision, projection_dim=24)
    randomize(transformers.CLIPModel(config)).save_pretrained(folder)
    transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 56}, crop_size={"height": 56, "width": 56}
    ).save_pretrained(folder)
    letters = {"<|startoftext|>": 0, "<|endoftext|>": 1} | {f"{c}</w>": i for i, c in enumerate("abcdefg", 2)}
    (folder / "vocab.json").write_text(json.dumps(letters | {c: i for i, c in enumerate("abcdefg", 9)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder


@pytest.fixture(scope="module")
def siglip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("siglip")
    config = transformers.SiglipConfig(text_config=TEXT | {"projection_size": 32}, vision_config=SMALL)
    randomize(transformers.SiglipModel(config)).save_pretrained(folder)
    transformers.SiglipImageProcessorPil(size={"height": 56, "width": 56}).save_pretrained(folder)
    words = tokenizers.models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 3, "dog": 4, "cat": 5}, "<unk>")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dinov2")
    config = transformers.Dinov2Config(**{key: SMALL[key] for key in SMALL if key != "intermediate_size"})
    randomize(transformers.Dinov2Model(config)).save_pretrained(folder)
    transformers.BitImageProcessorPil(
        size={"shortest_edge": 64},
        crop_size={"height": 56, "width": 56},
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
        resample=3,
    ).save_pretrained(folder)
    return folder


def reference(folder: Path, images: list[Image.Image]) -> np.ndarray[Any, Any]:
    """Features computed with transformers alone."""
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    processor, model = {
        "clip": (transformers.CLIPImageProcessorPil, transformers.CLIPModel),
        "siglip": (transformers.SiglipImageProcessorPil, transformers.SiglipModel),
        "dinov2": (transformers.BitImageProcessorPil, transformers.Dinov2Model),
    }[kind]
    inputs = processor.from_pretrained(folder)(images=images, return_tensors="pt")
    network = model.from_pretrained(folder).eval()
    with torch.inference_mode():
        output = network(**inputs) if kind == "dinov2" else network.get_image_features(**inputs)
    features = output.pooler_output if hasattr(output, "pooler_output") else output
    return features.numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("family", "dim"), [("clip", 24), ("siglip", 32), ("dinov2", 32)])
def test_features_equal_those_of_transformers(
    family: str, dim: int, images: list[Image.Image], request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(family)
    encoder = VitEncoder(str(folder), device="cpu", precision="float32")
    assert isinstance(encoder, Encoder)
    assert encoder.dim == dim
    features = encoder.encode(np.stack([encoder.preprocess(image) for image in images[:6]]))
    expected = reference(folder, images[:6])
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)
    assert np.std(features, axis=0).mean() > 0.01  # the features of the images differ


@pytest.mark.parametrize("family", ["clip", "siglip", "dinov2"])
def test_features_do_not_depend_on_the_batch(
    family: str, images: list[Image.Image], request: pytest.FixtureRequest
) -> None:
    encoder = VitEncoder(str(request.getfixturevalue(family)), device="cpu", precision="float32")
    batch = np.stack([encoder.preprocess(image) for image in images])
    together = encoder.encode(batch)
    np.testing.assert_array_equal(encoder.encode(batch), together)
    alone = np.concatenate([encoder.encode(batch[i : i + 1]) for i in range(len(batch))])
    np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", ["clip", "siglip", "dinov2"])
def test_export_module_gives_the_features(
    family: str, request: pytest.FixtureRequest, images: list[Image.Image]
) -> None:
    encoder = VitEncoder(str(request.getfixturevalue(family)), device="cpu", precision="float32")
    batch = np.stack([encoder.preprocess(image) for image in images[:2]])
    module = encoder.export_module()
    assert module is not None
    np.testing.assert_allclose(module(torch.from_numpy(batch)), encoder.encode(batch), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["clip", "siglip", "dinov2"])
def test_export_module_can_be_exported_to_onnx(
    family: str, request: pytest.FixtureRequest, images: list[Image.Image], tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    encoder = VitEncoder(str(request.getfixturevalue(family)), device="cpu", precision="float32")
    batch = np.stack([encoder.preprocess(image) for image in images[:3]])
    module = encoder.export_module()
    assert module is not None
    example = (torch.from_numpy(batch[:2]),)
    shapes = ({0: torch.export.Dim("n")},)
    torch.onnx.export(module, example, tmp_path / "m.onnx", input_names=["images"], dynamic_shapes=shapes, dynamo=True)
    (features,) = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"images": batch})
    np.testing.assert_allclose(features, encoder.encode(batch), rtol=1e-3, atol=1e-4)


def test_bfloat16_is_close_to_float32(clip: Path, images: list[Image.Image]) -> None:
    full, half = (VitEncoder(str(clip), device="cpu", precision=precision) for precision in ("float32", "bfloat16"))
    batch = np.stack([full.preprocess(image) for image in images])
    a, b = full.encode(batch), half.encode(batch)
    assert b.dtype == np.float32
    assert not np.array_equal(a, b)
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert cosine.min() > 0.999
    assert full.fingerprint == half.fingerprint


def test_fingerprint_depends_on_weights_and_preprocessing_but_not_on_the_folder(clip: Path, tmp_path: Path) -> None:
    original = VitEncoder(str(clip), device="cpu")
    copy = tmp_path / "copy"
    shutil.copytree(clip, copy)
    encoder = load_encoder(copy, device="cpu")
    assert encoder.fingerprint == original.fingerprint
    assert encoder.name == str(copy.resolve())
    config = json.loads((copy / "preprocessor_config.json").read_text())
    (copy / "preprocessor_config.json").write_text(json.dumps(config | {"image_mean": [0.5, 0.5, 0.5]}))
    assert VitEncoder(str(copy), device="cpu").fingerprint != original.fingerprint
    shutil.copy(clip / "preprocessor_config.json", copy)
    model = transformers.CLIPModel.from_pretrained(clip)
    model.vision_model.encoder.layers[1].mlp.fc1.weight.data *= 1.01
    model.save_pretrained(copy)
    assert VitEncoder(str(copy), device="cpu").fingerprint != original.fingerprint


@pytest.mark.parametrize(("family", "dim"), [("clip", 24), ("siglip", 32)])
def test_text_embeddings_equal_those_of_transformers(
    family: str, dim: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = request.getfixturevalue(family)
    encoder = VitEncoder(str(folder), device="cpu")
    assert reads_text(encoder)
    texts = ["a b", "a dog", "a b", "a cat a dog"]
    monkeypatch.setattr("cgmcr2.encoders.vit.TEXT_BATCH", 3)  # two batches
    embeddings = encoder.encode_text(texts)
    assert embeddings.shape == (4, dim)
    padding: dict[str, Any] = {"padding": True} if family == "clip" else {"padding": "max_length", "max_length": 12}
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(texts, return_tensors="pt", **padding)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        output = model.get_text_features(**tokens)
    expected = (output.pooler_output if hasattr(output, "pooler_output") else output).numpy()
    np.testing.assert_allclose(embeddings, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(embeddings[0], embeddings[2], atol=1e-5)
    assert not np.allclose(embeddings[0], embeddings[3], atol=1e-2)


def test_long_texts_are_truncated(clip: Path) -> None:
    encoder = VitEncoder(str(clip), device="cpu")
    assert encoder.encode_text(["a b c d e f g " * 10]).shape == (1, 24)


def test_vision_models_do_not_read_text(dinov2: Path) -> None:
    encoder = VitEncoder(str(dinov2), device="cpu")
    assert not reads_text(encoder)
    with pytest.raises(ValueError, match="has no text encoder"):
        encoder.encode_text(["a"])


def test_a_missing_tokenizer_is_explained(clip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(clip, folder, ignore=shutil.ignore_patterns("vocab.json", "merges.txt", "tokenizer*"))
    with pytest.raises(ValueError, match="has no tokenizer for text"):
        VitEncoder(str(folder), device="cpu").encode_text(["a"])


def test_old_and_new_preprocessor_files(tmp_path: Path) -> None:
    def read(**config: Any) -> Preprocessing:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
        return read_preprocessing(tmp_path, Preprocessing())

    assert read(size=224, crop_size=224, do_center_crop=True) == Preprocessing()
    new = read(size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}, resample=2)
    assert new == Preprocessing(256, 224, resample=2)
    assert read(size={"height": 384, "width": 384}) == Preprocessing(384, 384, square=True)
    assert read(rescale_factor=1 / 255).scale == pytest.approx(255)


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no config\.json: it must contain"):
        VitEncoder(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        VitEncoder(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="of type 'bert', but an encoder must be one of clip, "):
        VitEncoder(str(tmp_path))


def test_missing_weights_are_refused(clip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "incomplete"
    shutil.copytree(clip, folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="cannot be loaded as CLIPVisionModelWithProjection"):
        VitEncoder(str(folder))
    model = transformers.CLIPModel.from_pretrained(clip)
    state = {name: tensor for name, tensor in model.state_dict().items() if "layers.1.mlp" not in name}
    model.save_pretrained(folder, state_dict=state)
    with pytest.raises(ValueError, match=r"lack 4 tensors of CLIPVisionModelWithProjection, such as .*layers\.1"):
        VitEncoder(str(folder))


def test_error_without_transformers(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = builtins.__import__

    def no_transformers(name: str, *args: Any) -> Any:
        if name == "transformers":
            raise ImportError(name)
        return import_module(name, *args)

    monkeypatch.setattr(builtins, "__import__", no_transformers)
    with pytest.raises(ImportError, match=r"pip install 'cgmcr2\[clip\]'"):
        VitEncoder(str(clip))


def test_unknown_precision_is_refused(clip: Path) -> None:
    with pytest.raises(ValueError, match="one of auto, float32, float16, bfloat16, got 'int3'"):
        VitEncoder(str(clip), precision="int3")
