import numpy as np
import pytest

from cgmcr2.experiments import compare
from cgmcr2.experiments.image_files import load_input_file


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(48) % 2
    images = rng.integers(0, 80, (48, 8, 8, 3)) + 150 * np.eye(3, dtype=int)[labels][:, None, None]  # red or green
    np.savez(tmp_path / "x.npz", images=images.astype(np.uint8), labels=labels, split=np.arange(48) % 3 == 2)
    return tmp_path / "x.npz"


@pytest.mark.filterwarnings("ignore:.*too few to train")
def test_compare_runs_methods_on_images_next_to_those_on_pixels(path, tmp_path):
    settings = {"cc": {"epochs": 1, "width": 8, "batch_size": 16}}
    comparison = compare(
        path, 2, tmp_path / "out", methods=["cc", "k-means"], seeds=1, settings=settings, in_process=True
    )
    rows = {row.method: row for row in comparison.summaries()}
    assert rows["k-means"].measures["acc"][0] == 1  # by the colour of the pixels
    assert rows["cc"].seeds == 1, rows["cc"].note
    assert rows["cc"].protocol == rows["k-means"].protocol


def test_all_includes_methods_on_images_only_for_images(path):
    from cgmcr2.experiments.comparison import _resolve_methods

    assert "spice" in _resolve_methods(["all"], {}, images=True)
    assert "spice" not in _resolve_methods(["all"], {})


def test_wrong_images_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8)))
    with pytest.raises(ValueError, match="must be uint8 of shape"):
        load_input_file(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", images=np.zeros((4, 8, 8, 3), np.uint8), labels=[0])
    with pytest.raises(ValueError, match="4 images, but 1 labels"):
        load_input_file(tmp_path / "b.npz")
