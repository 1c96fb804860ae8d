import dataclasses

import numpy as np
import pytest

from cgmcr2.encoders import load_encoder
from cgmcr2.experiments.from_images import Pretraining
from cgmcr2.experiments.tables import load_table, reproduce_table

TINY = {"width": 8, "epochs": 1, "batch_size": 16}
SETTINGS = {
    "moco-v2": TINY,
    "cc": TINY,
    "gcc": {**TINY, "epochs": 2, "pretext_epochs": 0},
    "imc-swav": {**TINY, "local_views": 0, "prototypes": 8, "hidden_dim": 8},
    "spice": {**TINY, "pretrain_epochs": 1, "head_epochs": 1, "n_heads": 1, "repeats": 1},
    "scan-images": {**TINY, "pretrain_epochs": 1, "scan_epochs": 1},
    "nmce-images": {**TINY, "pretrain_epochs": 1, "head_epochs": 1, "hidden_dim": 8},
    "mlc-images": {**TINY, "pretrain_epochs": 1, "head_epochs": 1, "hidden_dim": 8},
    "paper": {"hidden_dim": 8, "embedding_dim": 4, "batch_size": 16, "warmup_epochs": 1, "finetune_epochs": 1},
}

pytestmark = pytest.mark.filterwarnings("ignore:.*too few to train")


@pytest.fixture
def folder(tmp_path):
    labels = np.arange(40) % 2
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "cifar100-images.npz", images=images, labels=labels, coarse_labels=1 - labels, split=labels * 0)
    np.savez(tmp_path / "cifar10-images.npz", images=images, labels=labels, split=np.arange(40) % 4 == 3)
    return tmp_path


def test_table_4_runs_from_images_to_the_table(folder, tmp_path):
    table = load_table("table-4")
    kept = ("k-means", "CC", "GCC", "IMC-SwAV", "SPICE", "SCAN", "NMCE", "MLC", "CgMCR²")
    table = dataclasses.replace(table, rows=tuple(row for row in table.rows if row.label in kept))
    options = {"only": ["cifar10"], "seeds": 1, "settings": SETTINGS, "in_process": True}
    result = reproduce_table(table, folder, tmp_path / "out", **options)
    assert {cell.row: cell.note for cell in result.cells if cell.seeds != 1 or not 0 <= cell.mean <= 100} == {}
    assert {cell.row for cell in result.cells} == set(kept)
    assert any("CIFAR-10: moco-v2, trained on its images" in note for note in result.notes)
    (features,) = (tmp_path / "out" / "encoders").glob("cifar10-moco-v2-*.npz")
    with np.load(features) as archive:
        assert archive["features"].shape == (40, 64)
    encoder = load_encoder(features.with_suffix(""))
    assert (encoder.dim, encoder.name) == (64, str(features.with_suffix("")))
    written = features.stat().st_mtime_ns
    again = reproduce_table(table, folder, tmp_path / "out", **options)
    assert again.cells == result.cells
    assert features.stat().st_mtime_ns == written


def test_cifar_20_and_cifar_100_share_images_and_encoder(folder):
    pretraining = Pretraining("moco-v2", folder, folder / "encoders", TINY, max_rows=20)
    images = [pretraining.images(name) for name in ("cifar20", "cifar100")]
    assert images[0] == images[1]
    with np.load(pretraining.features(images[0])) as archive:
        assert (archive["coarse_labels"] == 1 - archive["labels"]).all()
    assert pretraining.images("tinyimagenet") is None


def test_other_settings_train_another_encoder(folder):
    first = Pretraining("moco-v2", folder, folder / "encoders", TINY, max_rows=20)
    second = dataclasses.replace(first, settings={**TINY, "temperature": 0.2})
    images = first.images("cifar10")
    assert first.features(images) != second.features(images)


def test_other_images_of_the_same_size_train_another_encoder(folder):
    pretraining = Pretraining("moco-v2", folder, folder / "encoders", TINY, max_rows=20)
    images = pretraining.images("cifar10")
    first = pretraining.features(images)
    with np.load(images) as archive:
        arrays = {**archive, "images": 255 - archive["images"]}
    np.savez(images, **arrays)
    assert pretraining.features(images) != first


def test_spice_has_the_authors_agreement_on_cifar():
    (row,) = (row for row in load_table("table-4").rows if row.method == "spice")
    assert [row.settings_for(name).get("agreement") for name in ("cifar10", "cifar20", "cifar100")] == [0.99] * 3
    assert row.settings_for("tinyimagenet") == {}
