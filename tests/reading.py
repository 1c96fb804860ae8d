"""A fast encoder of colours that also reads their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from cgmcr2.encoders import register_encoder

from .colours import Colours

COLOURS = {"red": (0.85, 0.1, 0.1), "green": (0.1, 0.85, 0.1), "blue": (0.1, 0.1, 0.85), "grey": (0.5, 0.5, 0.5)}


class ReadingColours(Colours):
    """``Colours`` whose text embeddings are those of an image of the colour in the text; grey if there is none."""

    name, fingerprint = "reading-colours", "reading-colours-1"

    def encode_text(self, texts: list[str]) -> np.ndarray[Any, Any]:
        names = [next((name for name in COLOURS if name in text), "grey") for text in texts]
        return np.float32([np.tile(COLOURS[name], 4) + 0.1 for name in names])


register_encoder("reading-colours", lambda **_: ReadingColours(), reads_text=True)
