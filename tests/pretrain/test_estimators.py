import dataclasses
import signal

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from cgmcr2.encoders.preprocessing import CIFAR_MEAN, CIFAR_STD
from cgmcr2.pretrain import loop, spice
from cgmcr2.pretrain.estimators import CLUSTERERS, make_clusterer

from .conftest import two_colours

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

# Two colours are told apart after so long; with the defaults of ``OPTIONS``, some methods still have one cluster.
LONGER = {
    "cc": {"epochs": 20, "lr": 3e-3},
    "gcc": {"epochs": 12},
    "spice": {"pretrain_epochs": 12, "head_epochs": 20, "epochs": 20, "lr": 1e-3},
    "scan-images": {"scan_epochs": 12, "epochs": 4},
    "nmce-images": {"epochs": 40, "lr": 1e-3},
    "mlc-images": {"epochs": 4, "lr": 3e-3},
}

pytestmark = pytest.mark.filterwarnings("ignore:.*too few to train", "ignore:Only . of . clusters")


@pytest.fixture(scope="module")
def images():
    return two_colours(32)


@pytest.mark.parametrize("name", CLUSTERERS)
def test_fit_predict_and_seed(name, images):
    parameters = {**TINY, **OPTIONS[name], **LONGER.get(name, {})}
    model = make_clusterer(name, 2, **parameters)
    labels = model.fit_predict(images)
    assert labels.shape == (32,)
    assert labels.dtype == np.int64
    assert set(labels) == {0, 1}
    agreement = (model.predict(images) == labels).mean()
    assert agreement > 0.9 if name == "mlc-images" else agreement == 1  # MLC's labels are a normalized cut
    again = clone(model).fit(images)
    np.testing.assert_array_equal(again.labels_, labels)
    assert again.history_ == model.history_
    assert make_clusterer(name, 2, **parameters, random_state=1).fit(images).history_ != model.history_
    assert all(record["finite"] for record in model.history_)


def test_on_epoch_sees_the_current_network(images):
    labels, weights = [], []

    def on_epoch(epoch, model):
        labels.append(model.predict(images))
        weights.append(model.model_.backbone.conv1.weight.detach().clone())
        assert model.model_.training

    model = make_clusterer("cc", 3, **TINY, on_epoch=on_epoch).fit(images)
    assert len(labels) == 2
    assert not torch.equal(*weights)
    np.testing.assert_array_equal(labels[1], model.labels_)


class Killed(Exception):
    pass


def kill_in(method, epoch):
    """Return an ``on_epoch`` that raises after an epoch of the stage that trains ``method``."""

    def on_epoch(number, model):
        if type(model.model_).__name__ == method and number == epoch:
            raise Killed

    return on_epoch


def interrupt(number, model):
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("name", "on_epoch", "finished", "resumed_at"),
    [
        ("cc", interrupt, 0, 2),  # Ctrl-C saves a checkpoint
        ("scan-images", kill_in("NeighbourConsistency", 1), 1, 0),
        ("scan-images", kill_in("SelfLabelling", 1), 2, 0),
        ("spice", kill_in("SemiSupervised", 2), 1, 0),
        ("spice", interrupt, 1, 2),
    ],
)
def test_an_interrupted_fit_is_resumed(name, on_epoch, finished, resumed_at, images, tmp_path, monkeypatch):
    whole = make_clusterer(name, 3, **TINY, **OPTIONS[name]).fit(images)
    model = make_clusterer(name, 3, **TINY, **OPTIONS[name], folder=tmp_path / "run")
    with pytest.raises((Killed, KeyboardInterrupt)):
        clone(model).set_params(on_epoch=on_epoch).fit(images)
    with pytest.raises(ValueError, match="holds a training run with other settings or data"):
        clone(model).set_params(random_state=5).fit(images)
    with pytest.raises(ValueError, match="holds a training run with other settings or data"):
        clone(model).fit(images[::-1])

    steps, update = [], loop.update
    monkeypatch.setattr(loop, "update", lambda state, *rest: steps.append(state.step) or update(state, *rest))
    model.fit(images)
    assert steps[0] == resumed_at
    lengths = {"cc": [4], "scan-images": [2, 2, 4], "spice": [2, 4]}[name]
    assert len(steps) == sum(lengths[finished:]) - resumed_at  # finished stages are not trained again
    np.testing.assert_array_equal(model.labels_, whole.labels_)
    assert model.history_ == whole.history_
    for key, tensor in whole.model_.state_dict().items():
        assert torch.equal(tensor, model.model_.state_dict()[key]), key
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.parametrize("name", CLUSTERERS)
def test_reported_settings_are_those_of_the_training(name, images, monkeypatch):
    trainings, train_method = [], loop.train_method

    def record(model, images, settings, **options):
        trainings.append(settings)
        return train_method(model, images, settings, **options)

    monkeypatch.setattr(loop, "train_method", record)
    options = {key: value for key, value in TINY.items() if key != "batch_size"}
    model = make_clusterer(name, 3, **options, **OPTIONS[name]).fit(images)
    reported = model.training_settings()
    assert reported["size"] == 8
    assert reported | dataclasses.asdict(trainings[-1]) == reported
    if "pretraining" in reported:
        first = reported["pretraining"]
        assert first | dataclasses.asdict(trainings[0]) == first
        assert first["batch_size"] == 256


@pytest.mark.parametrize(
    ("name", "parameters", "sentence"),
    [
        ("spice", {"head_epochs": 2.5}, "head_epochs must be an integer, but is 2.5"),
        ("spice", {"head_epochs": 2.0}, "head_epochs must be an integer, but is 2.0"),
        ("spice", {"head_epochs": 0}, "head_epochs must be above 0, but is 0"),
        ("spice", {"n_heads": 0}, "n_heads must be above 0, but is 0"),
        ("spice", {"head_batch": 0}, "head_batch must be above 0, but is 0"),
        ("spice", {"center_ratio": 30}, "center_ratio must be at most 1, but is 30"),
        ("spice", {"agreement": 99}, "agreement must be at most 1, but is 99"),
        ("spice", {"threshold": "x"}, "threshold must be a number, but is 'x'"),
        ("scan-images", {"n_neighbors": 0}, "n_neighbors must be above 0, but is 0"),
        ("scan-images", {"mu": -1}, "mu must be at least 0, but is -1"),
        ("scan-images", {"threshold": None}, "threshold must be a number, but is None"),
        ("nmce-images", {"temperature": 0}, "temperature must be above 0, but is 0"),
        ("nmce-images", {"pretrain_epochs": 0}, "pretrain_epochs must be above 0, but is 0"),
        ("mlc-images", {"head_epochs": 0}, "head_epochs must be above 0, but is 0"),
        ("mlc-images", {"sinkhorn_steps": True}, "sinkhorn_steps must be a number, but is True"),
        ("cc", {"n_clusters": 2.5}, "n_clusters must be an integer, but is 2.5"),
        ("spice", {"pretrain_epoch": 5}, "no setting 'pretrain_epoch' of spice; did you mean 'pretrain_epochs'"),
        ("cc", {"random_stat": 5}, "no setting 'random_stat' of cc; did you mean 'random_state'"),
        ("cc", {"temperatur": 5}, "no setting 'temperatur' of cc; did you mean '.*temperature'"),
    ],
)
def test_wrong_parameters_are_refused_before_the_training(name, parameters, sentence, images, monkeypatch):
    model = make_clusterer(name, **{"n_clusters": 3, **parameters})
    with pytest.raises(ValueError, match=sentence):
        model.training_settings()
    monkeypatch.setattr(loop, "train_method", None)
    with pytest.raises(ValueError, match=sentence):
        model.fit(images)


def test_numpy_numbers_and_lists_of_images(images):
    model = make_clusterer("cc", np.int64(3), **TINY).fit(list(images))
    np.testing.assert_array_equal(model.predict(list(images)), model.labels_)
    assert model.training_settings()["n_clusters"] == 3
    with pytest.raises(ValueError, match=r"uint8 of shape \(32, 3, 8, 8\); move the channels last"):
        model.fit(images.transpose(0, 3, 1, 2))


def test_spice_passes_on_the_agreement(images, monkeypatch):
    given, reliable_labels = [], spice.reliable_labels
    monkeypatch.setattr(
        spice, "reliable_labels", lambda *args, **options: given.append(options) or reliable_labels(*args, **options)
    )
    make_clusterer("spice", 3, **TINY, **OPTIONS["spice"], agreement=0.99).fit(images)
    assert given == [{"agreement": 0.99}]


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
