import numpy as np
import torch

from cgmcr2.baselines.mlc import TwoHeads, mlc_loss
from cgmcr2.objectives import coding_rate
from cgmcr2.pretrain.method import Batch
from cgmcr2.pretrain.mlc_images import ManifoldLinearizing


def views(n=12):
    torch.manual_seed(0)
    return [torch.randn(n, 3, 2, 2), torch.randn(n, 3, 2, 2)]


def test_mlc_uses_averaged_views_and_its_warm_up_is_the_rate():
    heads = TwoHeads(5, 8, 3)
    backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5), torch.nn.BatchNorm1d(5))
    for warmup in (True, False):
        model = ManifoldLinearizing(backbone, heads, 0.5, 0.2, 5, 0.05, warmup=warmup).requires_grad_(False).eval()
        (value,) = model.loss(views(), Batch(np.arange(12), 0)).terms.values()
        features = torch.nn.functional.normalize(model.backbone(torch.cat(views())), dim=1)
        Z, C = (torch.nn.functional.normalize(rows.view(2, 12, 3).mean(0), dim=1) for rows in heads(features))
        expected = -coding_rate(Z, 0.5) / 2 if warmup else mlc_loss(Z, C, 0.5, 0.2, 5, 0.05)
        assert torch.isclose(value, expected, atol=1e-5)
