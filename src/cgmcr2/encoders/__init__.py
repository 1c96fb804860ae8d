"""Frozen image encoders behind one protocol, loaded by name."""

from cgmcr2.encoders.base import Encoder, TextEncoder, reads_text
from cgmcr2.encoders.registry import EncoderInfo, list_encoders, load_encoder, register_encoder

__all__ = ["Encoder", "EncoderInfo", "TextEncoder", "list_encoders", "load_encoder", "reads_text", "register_encoder"]
