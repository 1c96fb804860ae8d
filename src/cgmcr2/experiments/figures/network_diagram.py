"""Diagram of the network (Figure 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgmcr2.experiments.plotting import GREEN, ORANGE, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BOXES = {  # name: x, y, text, fill
    "X": (1.2, 3.5, "features\n$X$", "0.92"),
    "pre": (4.2, 3.5, "pre-feature layer\nLinear-BN-ReLU", "0.92"),
    "f": (8.2, 5.6, "feature head $f(\\cdot;\\Theta)$\nLinear-ReLU-Linear", "#CFE8DF"),
    "g": (8.2, 1.4, "cluster head $g(\\cdot;\\Phi)$\nLinear-ReLU-Linear", "#FBE6C2"),
    "Z": (11.9, 5.6, "$Z$", "#CFE8DF"),
    "Pi": (11.9, 1.4, "$\\Pi$", "#FBE6C2"),
    "R": (15.8, 6.3, "$-R(Z;\\epsilon)$", "white"),
    "Rc": (15.8, 3.5, "$R_c(Z,\\Pi;\\epsilon)$", "white"),
    "cut": (15.8, 0.7, "$L_{\\mathrm{Ncut}}(\\Pi;A,\\gamma)$", "white"),
    "A": (11.9, 3.5, "$A=P_s(ZZ^\\top)$\ndetached", "0.92"),
}
_ARROWS = {  # (colour, legend): pairs of boxes
    ("black", "forward"): "X pre, pre f, pre g, f Z, g Pi, Z R, Z Rc, Pi Rc, Z A, A cut, Pi cut",
    (GREEN, "gradient of $Z$"): "R Z, Rc Z, Z f",
    (ORANGE, "gradient of $\\Pi$"): "cut Pi, Rc Pi, Pi g",
}


def draw_network() -> Figure:
    """Draw the network: forward pass in black, gradients of ``Z`` in green and of ``Pi`` in orange."""
    figure = new_figure(9, 3.6)
    axes = figure.subplots()
    axes.set_xlim(0, 18)
    axes.set_ylim(0, 7)
    axes.set_axis_off()
    boxes = {}
    for name, (x, y, text, color) in _BOXES.items():
        style = {"boxstyle": "round,pad=0.4", "facecolor": color, "edgecolor": "0.3"}
        boxes[name] = axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=style)
    for (color, label), pairs in _ARROWS.items():
        dashes, bend = ("-", 0.0) if label == "forward" else ("--", 0.22)
        for pair in pairs.split(", "):
            start, end = (boxes[name] for name in pair.split())
            arrow = {
                "arrowstyle": "-|>",
                "color": color,
                "connectionstyle": f"arc3,rad={bend:g}",
                "linewidth": 1.2,
                "linestyle": dashes,
                "patchA": start.get_bbox_patch(),
                "patchB": end.get_bbox_patch(),
                "shrinkA": 2,
                "shrinkB": 2,
            }
            axes.annotate("", end.get_position(), start.get_position(), arrowprops=arrow)
        axes.plot([], [], color=color, linestyle=dashes, label=label)
    axes.legend(loc="lower left", frameon=False, fontsize=9)
    return figure
