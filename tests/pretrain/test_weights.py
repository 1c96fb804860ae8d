import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cgmcr2.encoders.preprocessing import CIFAR_MEAN, CIFAR_STD
from cgmcr2.encoders.pretrained import PretrainedConfig, save_pretrained
from cgmcr2.encoders.resnet import ResNet18
from cgmcr2.pretrain import ImageClusterer, make_clusterer
from cgmcr2.pretrain.cc import CC
from cgmcr2.pretrain.estimators import CLUSTERERS
from cgmcr2.pretrain.features import map_images
from cgmcr2.pretrain.spice import SPICE

from .conftest import small_images
from .test_estimators import OPTIONS, TINY

pytestmark = pytest.mark.filterwarnings("ignore:.*too few to train")


@pytest.fixture(scope="module")
def images():
    return small_images(32)


@pytest.fixture
def saved(images, tmp_path):
    """The folder of a CC model."""
    make_clusterer("cc", 3, **TINY).fit(images).save(tmp_path / "model")
    return tmp_path / "model"


def logits(model, images):
    return map_images(model.model_, images, model._settings)


@pytest.mark.parametrize("name", CLUSTERERS)
def test_loaded_model_predicts_the_same(name, images, tmp_path):
    model = make_clusterer(name, 3, **TINY, **OPTIONS[name], random_state=7).fit(images)
    model.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    loaded = CLUSTERERS[name].load(tmp_path)
    others = small_images(40)[::-1]
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    np.testing.assert_array_equal(loaded.predict(others), model.predict(others))
    torch.testing.assert_close(logits(loaded, others), logits(model, others), rtol=0, atol=0)
    assert loaded.training_settings() == model.training_settings()


def test_weights_of_a_given_encoder_are_saved(images, tmp_path):
    config = PretrainedConfig("ResNet18", 32, 16, 3, 4, CIFAR_MEAN, CIFAR_STD, {})
    save_pretrained(tmp_path / "encoder", ResNet18(3, 4), config)
    model = SPICE(3, encoder=tmp_path / "encoder", head_epochs=1, n_heads=1, repeats=1, settings={"epochs": 1})
    model.fit(images).save(tmp_path / "model")
    (tmp_path / "encoder" / "encoder.safetensors").unlink()  # the saved model does not need it
    loaded = SPICE.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(images), model.labels_)
    assert loaded.encoder == str(tmp_path / "encoder")
    with pytest.raises(ValueError, match="was trained on images of 16 pixels, but these have 8; resize them"):
        SPICE(3, encoder=tmp_path / "encoder").fit(small_images(32, 8))


def test_what_only_training_needs_is_not_saved(images, tmp_path):
    make_clusterer("gcc", 3, **TINY, **OPTIONS["gcc"]).fit(images).save(tmp_path)
    names = load_file(tmp_path / "model.safetensors").keys()
    assert "network.cluster_head.weight" in names
    assert not names & {"network.bank", "network.nearest", "network.degrees", "network.seen"}


def test_the_folder_of_checkpoints_is_not_saved(images, tmp_path):
    make_clusterer("cc", 3, **TINY, folder=tmp_path / "checkpoints").fit(images).save(tmp_path / "model")
    assert CC.load(tmp_path / "model").folder is None


def test_random_state_is_saved_as_the_seed(images, tmp_path):
    model = make_clusterer("cc", 3, **TINY, random_state=np.random.RandomState(3)).fit(images)
    model.save(tmp_path)
    loaded = CC.load(tmp_path)
    assert loaded.random_state == model.seed_
    np.testing.assert_array_equal(loaded.fit(images).labels_, model.labels_)


def test_base_class_loads_every_method(saved):
    assert type(ImageClusterer.load(saved)) is CC
    with pytest.raises(ValueError, match=r"holds a model of CC, not of SPICE; load it with CC\.load"):
        SPICE.load(saved)


def test_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        make_clusterer("cc").save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_missing_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a saved model: it has no config\.json"):
        CC.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "has format 2 of a newer version"),
        ({"method": "k-means"}, "holds a model of 'k-means', which does not cluster images"),
        ({"width": "8"}, "config.json is damaged (Expected `int`, got `str` - at `$.width`)"),
        ({"width": 0}, "config.json is damaged (The width of a ResNet-18 must be at least 1"),
        ({"parameters": {"n_cluster": 3}}, "config.json is damaged"),
        ({"width": 16}, "model.safetensors cannot be read (backbone.bn1.bias is of shape (8,), but of shape (16,)"),
        ({"parameters": {"n_clusters": 4}}, "cluster_head.2.bias is of shape (3,), but of shape (4,) is needed"),
    ],
)
def test_damaged_configuration(change, message, saved):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(ValueError, match=re.escape(message)):
        CC.load(saved)


def test_damaged_weights(saved):
    path = saved / "model.safetensors"
    tensors = load_file(path)
    for missing, message in (
        ("labels_", "has no tensor 'labels_'"),
        ("network.cluster_head.0.bias", "cluster_head.0.bias is missing, but of shape"),
    ):
        save_file({name: tensor for name, tensor in tensors.items() if name != missing}, path)
        with pytest.raises(ValueError, match=message):
            CC.load(saved)
    path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"cannot be read .*; restore the file, or train the model again"):
        CC.load(saved)
    path.unlink()
    with pytest.raises(ValueError, match="cannot be read"):
        CC.load(saved)
