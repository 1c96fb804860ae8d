"""Cluster colours of the page and its figures."""

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
"""Twelve colours of medium lightness that work on light and dark backgrounds.

They maximize the smallest pairwise distance in OKLab under normal, protan, deutan and tritan colour vision. From the
13th cluster on, the colours repeat and the page changes the shape of the marker.
"""


def rgb(cluster: int) -> tuple[int, int, int]:
    """Red, green and blue of the cluster's colour, 0 to 255.

    >>> rgb(0)
    (93, 78, 187)
    """
    code = PALETTE[cluster % len(PALETTE)]
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16)
