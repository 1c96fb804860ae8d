"""The network on top of frozen features: embedding, cluster logits, memberships, and saved weights."""

from .cluster_means import ClusterMeans, load_cluster_means, save_cluster_means
from .membership import gumbel_softmax
from .network import Network, NetworkConfig, unit_spaces
from .weights import load_network, save_network

__all__ = [
    "ClusterMeans",
    "Network",
    "NetworkConfig",
    "gumbel_softmax",
    "load_cluster_means",
    "load_network",
    "save_cluster_means",
    "save_network",
    "unit_spaces",
]
