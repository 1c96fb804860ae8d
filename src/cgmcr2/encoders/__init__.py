"""Frozen image encoders behind one protocol, loaded by name."""

from cgmcr2.encoders.base import Encoder
from cgmcr2.encoders.registry import EncoderInfo, list_encoders, load_encoder, register_encoder

__all__ = ["Encoder", "EncoderInfo", "list_encoders", "load_encoder", "register_encoder"]
