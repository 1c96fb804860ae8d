"""Frozen image encoders behind one protocol, loaded by name."""

from cgmcr2.encoders.base import Encoder, TextEncoder, reads_text
from cgmcr2.encoders.registry import EncoderInfo, absolute_name, list_encoders, load_encoder, register_encoder

__all__ = [
    "Encoder",
    "EncoderInfo",
    "TextEncoder",
    "absolute_name",
    "list_encoders",
    "load_encoder",
    "reads_text",
    "register_encoder",
]
