"""One colour for each cluster, wherever it is drawn."""

from __future__ import annotations

PALETTE = (
    "#5d4ebb",
    "#a4cb55",
    "#ad3210",
    "#f49cbe",
    "#21cef8",
    "#19b87b",
    "#8d447f",
    "#ba6703",
    "#9d87fa",
    "#318b69",
    "#b89a11",
    "#8f6db5",
)
"""Twelve colours of middle lightness, for light and dark grounds. They were searched for so that the two most alike
are as far apart as can be (in OKLab) for people with normal, protan, deutan and tritan colour vision. From the
thirteenth cluster on they come again; the page then changes the shape of the mark."""


def rgb(cluster: int) -> tuple[int, int, int]:
    """The cluster's colour as red, green, blue.

    >>> rgb(0)
    (93, 78, 187)
    """
    code = PALETTE[cluster % len(PALETTE)]
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16)
