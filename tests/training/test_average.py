from __future__ import annotations

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from cgmcr2.model import Network, NetworkConfig
from cgmcr2.training.average import WeightAverage


def test_equal_to_the_averaged_model_of_torch() -> None:
    torch.manual_seed(0)
    network = Network(NetworkConfig(in_dim=4, n_clusters=3, hidden_dim=8, embedding_dim=4))
    ours = WeightAverage(network, 0.9)
    theirs = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)  # type: ignore[no-untyped-call]
    for _ in range(4):
        network(torch.randn(6, 4))  # updates the statistics of BatchNorm
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter))
        ours.update()
        theirs.update_parameters(network)
    expected = theirs.module.state_dict()
    for name, tensor in ours.module.state_dict().items():
        if tensor.is_floating_point():
            assert torch.equal(tensor, expected[name]), name
            assert name.startswith("projection") or not torch.equal(tensor, network.state_dict()[name]), name
    assert int(ours.n_averaged) == 4
