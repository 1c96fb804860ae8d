"""Label propagation from the answers of a person."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from cgmcr2.model import Network, NetworkConfig
from cgmcr2.training.refinement import Constraints, propagate, train_head

NONE = np.empty(0, np.int64)


def constraints(reviewed: list[int] | None) -> Constraints:
    """Twenty rows of cluster 0, of which someone has moved ten to cluster 1."""
    labels = np.where(np.arange(20) < 10, 1, -1)
    rows = None if reviewed is None else np.array(reviewed, np.int64)
    return Constraints(labels, (NONE, NONE), NONE, NONE, reviewed=rows)


def test_images_that_were_moved_say_nothing_about_the_others_of_their_cluster() -> None:
    P = np.tile(np.float32([0.9, 0.1]), (20, 1))
    walk = sp.csr_array(sp.eye_array(20))  # nobody has neighbours
    assert (propagate(P, walk, constraints(reviewed=[])).argmax(1) == constraints([]).labels.clip(0)).all()
    assert (propagate(P, walk, constraints(reviewed=None)).argmax(1) == 1).all()


def test_confirmed_images_do_not_attract_those_of_other_clusters() -> None:
    P = np.repeat(np.float32([[0.7, 0.3], [0.4, 0.6]]), 20, axis=0)
    labels = np.where(np.arange(40) < 20, 0, -1)  # all of the first cluster are confirmed
    walk = sp.csr_array(sp.eye_array(40))
    refined = propagate(P, walk, Constraints(labels, (NONE, NONE), NONE, NONE))
    assert (refined[20:].argmax(1) == 1).all()


def test_the_head_learns_the_targets_and_the_rest_of_the_network_stays() -> None:
    torch.manual_seed(0)
    y = np.arange(90) % 3
    X = (np.eye(8)[y] + 0.1 * np.random.default_rng(0).standard_normal((90, 8))).astype(np.float32)
    network = Network(NetworkConfig(in_dim=8, n_clusters=2, hidden_dim=16, embedding_dim=4, n_heads=2, bn_momentum=1.0))
    network.train()(50 + 20 * torch.randn(200, 8))  # statistics that BatchNorm cannot be left out with
    unanswered = Constraints(np.full(90, -1), (NONE, NONE), NONE, NONE)
    refined = train_head(network.eval(), 1, X, np.eye(3, dtype=np.float32)[y], unanswered)
    with torch.no_grad():
        (Z, logits), (Z_before, logits_before) = refined(torch.from_numpy(X)), network(torch.from_numpy(X))
    assert torch.equal(Z, Z_before)
    assert torch.equal(logits[0, :, :2], logits_before[0])
    assert (logits[1].argmax(1).numpy() == y).all()
