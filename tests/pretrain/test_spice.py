import math

import numpy as np
import torch

from cgmcr2.pretrain.augment import Augmentation, draw
from cgmcr2.pretrain.spice import double_softmax_loss, fixmatch_terms, prototype_labels, reliable_labels
from cgmcr2.pretrain.staged import strong, weak


def unit_rows(*shape, seed=0):
    return torch.nn.functional.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=1)


def test_prototype_labels_equal_brute_force():
    U, P = unit_rows(9, 4), unit_rows(9, 3, seed=1).softmax(1)
    rows, labels = prototype_labels(U, P, 0.7)
    expected = []
    for cluster in range(3):
        confident = sorted(range(9), key=lambda i: -float(P[i, cluster]))[:2]  # 0.7 of 9 / 3
        prototype = sum(U[i] for i in confident) / 2
        expected.append(set(sorted(range(9), key=lambda i: -float(U[i] @ prototype))[:3]))
    assert [set(part) for part in rows.view(3, 3).tolist()] == expected  # the two confident rows are tied
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_double_softmax_equals_brute_force():
    logits, labels = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    total = 0.0
    for row, label in zip(logits.softmax(1).tolist(), labels.tolist(), strict=True):
        total += math.log(sum(map(math.exp, row))) - row[label]
    assert math.isclose(double_softmax_loss(logits, labels).item(), total / 4, rel_tol=1e-5)


def test_reliable_labels_are_balanced_and_leave_out_mixed_neighbourhoods():
    corners = torch.eye(3)[torch.tensor([0] * 20 + [1] * 20 + [2] * 20)]
    U = torch.nn.functional.normalize(corners + 0.01 * unit_rows(60, 3), dim=1)
    P = 0.001 + 0.997 * corners
    P[40] = P[0]  # a row of the third group with the label of the first
    labels = reliable_labels(U, P, n_neighbors=5)
    assert labels[40] == -1
    assert np.bincount(labels[labels >= 0].numpy()).tolist() == [labels[:20].ge(0).sum()] * 3
    unsure = reliable_labels(U, 0.2 + 0.4 * corners, n_neighbors=5)
    assert np.bincount(unsure[unsure >= 0].numpy()).tolist() == [2, 2, 2]  # a tenth of the mean size


def test_reliable_labels_prefer_confident_rows_to_earlier_ones_of_equal_agreement():
    corners = torch.eye(2)[torch.tensor([0, 1] * 20)]
    confident = torch.arange(40) >= 20
    P = torch.where(confident[:, None], 0.001 + 0.998 * corners, 0.45 + 0.1 * corners)
    labels = reliable_labels(torch.nn.functional.normalize(corners + 0.01 * unit_rows(40, 2), dim=1), P, n_neighbors=5)
    assert torch.equal(labels >= 0, confident)


def test_fixmatch_equals_brute_force():
    weak_logits, strong_logits, labels = 3 * torch.randn(6, 3), torch.randn(6, 3), torch.tensor([0, -1, 2, -1, -1, 1])
    terms = fixmatch_terms(weak_logits, strong_logits, labels, 0.8)
    supervised, consistency = [], 0.0
    for w, s, label in zip(weak_logits, strong_logits, labels.tolist(), strict=True):
        P = w.softmax(0)
        if label >= 0:
            supervised.append(-math.log(float(P[label])))
        if P.max() >= 0.8:
            consistency -= math.log(float(s.softmax(0)[P.argmax()])) / 6
    assert math.isclose(terms["labels"].item(), sum(supervised) / 3, rel_tol=1e-5)
    assert math.isclose(terms["consistency"].item(), consistency, rel_tol=1e-5, abs_tol=1e-7)


def test_fixmatch_without_labels_has_a_gradient():
    logits = torch.randn(2, 3, requires_grad=True)
    sum(fixmatch_terms(logits, logits, torch.tensor([-1, -1]), 1.1).values()).backward()
    assert logits.grad.abs().sum() == 0


def test_strong_view_has_a_square_of_the_mean_colour_and_weak_view_keeps_the_colours():
    images = torch.full((50, 16, 16, 3), 200, dtype=torch.uint8)
    augmentation = Augmentation(size=16, jitter=0.0, grey=0.0, mean=(0.5,) * 3, std=(0.5,) * 3)
    pixels = strong(augmentation)(images, draw(50, seed=0, step=0))
    holes = (pixels == 0).all(1)  # (50, 16, 16)
    assert holes.any((1, 2)).all()
    assert holes.float().mean() < 0.25
    assert all(hole.any(0).sum() * hole.any(1).sum() == hole.sum() for hole in holes)  # rectangles
    plain = weak(Augmentation(size=16, mean=(0.5,) * 3, std=(0.5,) * 3))(images, draw(50, seed=0, step=0))
    assert torch.allclose(plain, torch.tensor((200 / 255 - 0.5) / 0.5), atol=1e-5)
