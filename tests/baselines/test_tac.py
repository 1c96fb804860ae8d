"""TAC: each step against loops, the effect of text, and noun embeddings by a small CLIP."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cgmcr2.baselines.tac import (
    PROMPTS,
    TAC,
    choose_nouns,
    distillation_loss,
    noun_embeddings,
    tac_loss,
    text_counterparts,
)
from cgmcr2.evaluation.metrics import clustering_accuracy


def unit(n: int, d: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(n, d, generator=generator, dtype=torch.float64), dim=1)


def memberships(n: int, k: int, seed: int) -> torch.Tensor:
    return (4 * unit(n, k, seed)).softmax(1)


def test_chosen_nouns_equal_loops() -> None:
    centers, text = unit(4, 6, 0), unit(30, 6, 1)
    confidence: dict[int, list[tuple[float, int]]] = {}
    for j in range(30):
        weights = [math.exp(float(center @ text[j])) for center in centers]
        center = int(np.argmax(weights))
        confidence.setdefault(center, []).append((weights[center] / sum(weights), j))
    expected = sorted(j for nouns in confidence.values() for _, j in sorted(nouns, reverse=True)[:3])
    assert choose_nouns(centers, text, 3).tolist() == expected


def test_text_counterparts_equal_loops() -> None:
    X, nouns, tau = unit(5, 4, 0), unit(7, 4, 1), 0.1
    counterparts = text_counterparts(X, nouns, tau)
    for i in range(5):
        weights = [math.exp(float(X[i] @ noun) / tau) for noun in nouns]
        mean = sum(w * noun for w, noun in zip(weights, nouns, strict=True))
        torch.testing.assert_close(counterparts[i], mean / mean.norm())


def test_distillation_loss_equals_loops() -> None:
    P, Q, temperature = memberships(6, 3, 0), memberships(6, 3, 1), 0.5
    columns = [*P.T, *Q.T]
    total = 0.0
    for a in range(6):
        positive = (a + 3) % 6
        e = [math.exp(float(F.cosine_similarity(columns[a], columns[b], dim=0)) / temperature) for b in range(6)]
        total -= math.log(e[positive] / (sum(e) - e[a]))
    assert math.isclose(float(distillation_loss(P, Q, temperature)), total / 6, rel_tol=1e-9)


def test_loss_is_the_sum_of_its_terms() -> None:
    P, P2, Q, Q2 = (memberships(6, 3, seed) for seed in range(4))
    consistency = -sum(math.log(float(P[i] @ Q[i])) for i in range(6)) / 6
    entropy = -sum(q * math.log(q) for part in (P, Q) for q in part.mean(0).tolist())
    distillation = float(distillation_loss(P, Q2, 0.5) + distillation_loss(Q, P2, 0.5))
    assert math.isclose(
        float(tac_loss((P, P2), (Q, Q2), 0.5, 5.0)), distillation + consistency - 5 * entropy, rel_tol=1e-9
    )


def test_number_of_steps() -> None:
    lengths = [TAC(k).training_length(n) for k, n in ((10, 1_200), (10, 3_669), (100, 2_465), (100, 10_000))]
    assert lengths == [(512, 3, 100), (512, 8, 160), (8192, 1, 100), (8192, 2, 200)]
    assert TAC(10, epochs=3).training_length(1_000)[2] == 6
    X, _, text = scene(0)
    model = TAC(4, text=text, hidden_dim=8, max_steps=3).fit(X)
    assert len(model.history_) == 1
    model = TAC(4, text=text, hidden_dim=8, epochs=101, tolerance=None).fit(X)
    assert len(model.history_) == 2  # one value for each 100 steps


def scene(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images whose class is weaker than a nuisance factor that no noun describes; labels and noun embeddings."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(240) % 4)
    X = np.eye(12)[y] + 1.5 * np.eye(12)[8 + random.integers(4, size=240)] + 0.1 * random.standard_normal((240, 12))
    text = np.eye(12)[np.arange(40) % 4] + 0.05 * random.standard_normal((40, 12))
    return X, y, text


def test_text_improves_the_accuracy() -> None:
    X, y, text = scene(0)
    guided = TAC(4, text=text, hidden_dim=64, max_steps=120, tau=0.05).fit(X)
    assert clustering_accuracy(y, guided.labels_) > 0.95
    with pytest.warns(UserWarning, match="has no text embeddings"):
        unguided = TAC(4, hidden_dim=64, max_steps=120, tau=0.05).fit(X)
    assert clustering_accuracy(y, unguided.labels_) < clustering_accuracy(y, guided.labels_)


def test_text_from_a_file_and_of_wrong_width(tmp_path: Path) -> None:
    X, _, text = scene(1)
    np.save(tmp_path / "text.npy", text)
    parameters: dict[str, Any] = {"hidden_dim": 32, "max_steps": 20}
    expected = TAC(4, text=text.astype(np.float32), **parameters).fit_predict(X)
    model = TAC(4, text=str(tmp_path / "text.npy"), **parameters).fit(X)
    assert (model.labels_ == expected).all()
    model.save(tmp_path / "model")
    assert (TAC.load(tmp_path / "model").predict(X) == model.predict(X)).all()
    with pytest.raises(ValueError, match=r"shape \(40, 7\), but the image features have width 12"):
        TAC(4, text=text[:, :7]).fit(X)


def test_noun_embeddings_by_a_small_clip(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    size: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    size["projection_dim"] = 8
    words = {"vocab_size": 60, "max_position_embeddings": 40, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    pixels = {"image_size": 28, "patch_size": 14}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=size | words, vision_config=size | pixels, projection_dim=8)
    transformers.CLIPModel(config).save_pretrained(tmp_path)
    letters = {"<|startoftext|>": 0, "<|endoftext|>": 1}
    for i, letter in enumerate("abcdefghijklmnopqrstuvwxyz."):
        letters |= {letter: 2 + 2 * i, f"{letter}</w>": 3 + 2 * i}
    (tmp_path / "vocab.json").write_text(json.dumps(letters))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    embeddings = noun_embeddings(["cat", "dog", "tree"], tmp_path, batch_size=2)
    assert embeddings.shape == (3, 8)

    from cgmcr2.encoders.vit import VitEncoder

    dog = VitEncoder(str(tmp_path)).encode_text([prompt.format("dog") for prompt in PROMPTS]).mean(0)
    np.testing.assert_allclose(embeddings[1], dog / np.linalg.norm(dog), atol=1e-5)
    with pytest.raises(ValueError, match="list of nouns is empty"):
        noun_embeddings([], tmp_path)
