import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cgmcr2.encoders.preprocessing import CIFAR_MEAN, CIFAR_STD
from cgmcr2.pretrain.estimators import CLUSTERERS, make_clusterer

TINY = {"width": 8, "epochs": 2, "batch_size": 16, "precision": "float32"}
OPTIONS = {
    "cc": {},
    "gcc": {"pretext_epochs": 1},
    "imc-swav": {"local_views": 1, "prototypes": 10, "hidden_dim": 8},
    "spice": {"pretrain_epochs": 1, "head_epochs": 1, "n_heads": 2, "repeats": 1},
    "scan-images": {"pretrain_epochs": 1, "scan_epochs": 1},
    "nmce-images": {"pretrain_epochs": 1, "head_epochs": 1, "hidden_dim": 8, "embedding_dim": 4},
    "mlc-images": {"pretrain_epochs": 1, "head_epochs": 1, "hidden_dim": 8, "embedding_dim": 4},
}


pytestmark = pytest.mark.filterwarnings("ignore:.*too few to train", "ignore:Only . of . clusters")


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (32, 8, 8, 3), np.uint8)


@pytest.mark.parametrize("name", CLUSTERERS)
def test_fit_predict_and_seed(name, images):
    model = make_clusterer(name, 3, **TINY, **OPTIONS[name])
    labels = model.fit_predict(images)
    assert labels.shape == (32,)
    assert labels.dtype == np.int64
    assert set(labels) <= {0, 1, 2}
    agreement = (model.predict(images) == labels).mean()
    assert agreement > 0.9 if name == "mlc-images" else agreement == 1  # MLC's labels are a normalized cut
    np.testing.assert_array_equal(clone(model).fit(images).labels_, labels)
    assert all(record["finite"] for record in model.history_)


def test_on_epoch_sees_the_current_network(images):
    epochs = []
    make_clusterer(
        "cc", 3, **TINY, on_epoch=lambda epoch, model: epochs.append((epoch, len(model._labels(images))))
    ).fit(images)
    assert epochs == [(1, 32), (2, 32)]


def test_errors_name_the_problem(images):
    with pytest.raises(ValueError, match="choose from cc, gcc"):
        make_clusterer("scam")
    with pytest.raises(ValueError, match=r"uint8 of shape \(n, size, size, 3\), but are float64"):
        make_clusterer("cc").fit(np.zeros((4, 8, 8, 3)))
    with pytest.raises(ValueError, match="from 1 to the number of images, 32, not 33"):
        make_clusterer("cc", 33).fit(images)
    with pytest.raises(ValueError, match="no setting 'widht' of cc; did you mean 'width'"):
        make_clusterer("cc", 3, widht=8).fit(images)
    with pytest.raises(ValueError, match=r"shape \(n, 16, 16, 3\), but are uint8 of shape \(32, 8, 8, 3\)"):
        make_clusterer("cc", 3, size=16).fit(images)
    with pytest.raises(
        ValueError, match=r"after pretext_epochs, 10 \(at least 1\), but epochs is 10; give more epochs"
    ):
        make_clusterer("gcc", 3, width=8, epochs=10).fit(images)
    with pytest.raises(ValueError, match="no setting 'widht' of spice"):
        make_clusterer("spice", 3, widht=8).fit(images)
    with pytest.raises(ValueError, match="lr must be a number"):
        make_clusterer("spice", 3, lr="0.1").fit(images)
    model = make_clusterer("cc", 3, **TINY).fit(images)
    with pytest.raises(ValueError, match="trained on images of 8 pixels, but these have 16; resize them"):
        model.predict(images.repeat(2, 1).repeat(2, 2))
    assert model.predict(images[:0]).shape == (0,)


def test_few_images_are_reported(images):
    with pytest.warns(UserWarning, match="32 images are too few"):
        make_clusterer("cc", 3, **TINY).fit(images)


def test_imc_swav_predicts_with_the_statistics_of_the_images(images):
    model = make_clusterer("imc-swav", 3, **TINY, **OPTIONS["imc-swav"]).fit(images)
    backbone = model.model_.backbone
    mean, std = (torch.tensor(values)[:, None, None] for values in (CIFAR_MEAN, CIFAR_STD))
    pixels = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - mean) / std
    with torch.no_grad():
        expected = backbone.conv1(pixels).mean((0, 2, 3))
    torch.testing.assert_close(backbone.bn1.running_mean, expected, rtol=1e-3, atol=1e-4)
    assert backbone.bn1.momentum == 0.1


def test_a_collapse_is_reported(images):
    with pytest.warns(ConvergenceWarning, match="Only 1 of 20 clusters of cc are non-empty"):
        make_clusterer("cc", 20, **TINY).fit(np.zeros_like(images))
