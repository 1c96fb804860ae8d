"""The network on top of frozen features: embedding, cluster logits, memberships, and saved weights."""

from .membership import gumbel_softmax
from .network import Network, NetworkConfig, unit_spaces
from .weights import load_network, save_network

__all__ = ["Network", "NetworkConfig", "gumbel_softmax", "load_network", "save_network", "unit_spaces"]
