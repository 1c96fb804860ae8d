"""The label-free initial partition: views, k-means, ensemble, combination, choice of k, stability."""

from .choose_k import Choice, choose_k
from .ensemble import ConsensusConfig, consensus_partition
from .estimator import ConsensusClustering
from .stability import Calibration, calibrate

__all__ = [
    "Calibration",
    "Choice",
    "ConsensusClustering",
    "ConsensusConfig",
    "calibrate",
    "choose_k",
    "consensus_partition",
]
