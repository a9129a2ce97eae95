"""A tree as a round picture: the root in the middle, a ring for each bit of the code."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.measures import entropy_bits, expected_code_length
from arborvox.tree.pictures import new_figure, picture_format, save_figure

MIXED = "#8f8f8f"  # branches where no color has more than half of the mass
LABEL_PITCH_PT = 7.6  # room for one label along the outer circle
RADIUS_LIMITS_IN = (2.6, 30.0)
# Most units have short codes: a ring for each bit, the inner ones wider apart than the outer ones.
RADIUS_POWER = 0.6
ROOM_FOR_QUESTIONS = 1.5  # how much wider a tree is drawn that has something on its branches
QUESTION_SIZES_PT = (1.5, 7.0)
LETTER_WIDTH = 0.56  # of a question, in units of its size
GAP = 0.03  # share of the circle kept free for the scale
RING = (1.02, 1.09)  # where the colors of each leaf stand; the tree ends at 1
LABEL_AT = 1.105


@dataclass(frozen=True)
class Coloring:
    """Named colors, and how much of each a leaf has."""

    title: str
    names: tuple[str, ...]
    colors: tuple[str, ...]
    shares: NDArray[np.float64]  # (V, C) rows sum to 1, or to 0 for a leaf without color


@dataclass(frozen=True)
class _Layout:
    leaf_order: list[int]  # tokens from left to right
    leaf_angle: NDArray[np.float64]  # (V,) by token id
    leaf_radius: NDArray[np.float64]
    node_angle: NDArray[np.float64]  # (V - 1,)
    node_radius: NDArray[np.float64]


def draw_tree(tree: CodeTree, path: Path, coloring: Coloring, title: str = "") -> None:
    """Draw a tree as SVG or PNG; depth is the code's length, the width of a branch its mass."""
    from matplotlib.collections import LineCollection, PolyCollection

    picture_format(path)
    if tree.units is None:
        raise ArborvoxError("The tree does not name its units; build it again from its tokens.")
    layout = _lay_out(tree)
    pitch_pt = LABEL_PITCH_PT * (1 if tree.questions is None else ROOM_FOR_QUESTIONS)
    radius_in = np.clip(tree.num_leaves * pitch_pt / 72 / (2 * np.pi), *RADIUS_LIMITS_IN)
    side = 2 * (radius_in * LABEL_AT + 0.5)
    figure = new_figure(side + 1.9, side + 0.5)
    axes = figure.add_subplot()
    axes.set_aspect("equal")
    axes.set_axis_off()
    limit = LABEL_AT + 0.6 / radius_in
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit))

    _draw_scale(axes, tree.depth)
    lines, widths, colors = _branches(tree, layout, coloring)
    axes.add_collection(LineCollection(lines, linewidths=widths, colors=colors, zorder=3))
    leaders = [
        _polar([tree_radius, RING[0]], [angle, angle])
        for tree_radius, angle in zip(layout.leaf_radius, layout.leaf_angle, strict=True)
    ]
    axes.add_collection(LineCollection(leaders, linewidths=0.35, colors="#d5d5d5", zorder=1))
    wedges, wedge_colors = _ring(tree, layout, coloring)
    axes.add_collection(PolyCollection(wedges, facecolors=wedge_colors, linewidths=0, zorder=3))
    _draw_labels(axes, tree.units, layout, radius_in)
    _draw_questions(axes, tree, layout, radius_in)
    _draw_legend(figure, coloring)
    bits = expected_code_length(tree)
    axes.set_title(
        f"{title or tree.kind}: {tree.num_leaves} units, at most {tree.depth} bits, "
        f"{bits:.2f} on average (entropy {entropy_bits(tree.probabilities):.2f})",
        fontsize=11,
    )
    save_figure(figure, path)


def palette(count: int) -> tuple[str, ...]:
    """Return colors around the wheel, light and dark in turn, so that neighbors differ."""
    from matplotlib.colors import hsv_to_rgb, to_hex

    hues = np.arange(count) / max(count, 1)
    return tuple(
        to_hex(hsv_to_rgb((hue, 0.85 if n % 2 else 0.6, 0.62 if n % 2 else 0.88)))
        for n, hue in enumerate(hues)
    )


def sequential_palette(count: int) -> tuple[str, ...]:
    """Return colors from light to dark for classes that have an order."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return tuple(to_hex(color) for color in colormaps["viridis_r"](np.linspace(0.1, 1, count)))


def display_name(unit: str) -> str:
    """Return a unit as it can be seen: spaces and lone marks get a sign to stand on."""
    shown = unit.replace(" ", "␣")
    return f"◌{shown}" if unicodedata.category(shown[:1] or " ")[0] == "M" else shown


def _lay_out(tree: CodeTree) -> _Layout:
    codes = tree.codes()
    order = sorted(range(tree.num_leaves), key=codes.__getitem__)  # left to right
    leaf_angle = np.empty(tree.num_leaves)
    turn = (np.arange(tree.num_leaves) + 0.5) / tree.num_leaves * (1 - GAP) + GAP / 2
    leaf_angle[order] = np.pi / 2 - 2 * np.pi * turn  # clockwise from the top
    node_angle, node_radius = np.empty(tree.num_inner), np.empty(tree.num_inner)
    for level, (start, end) in reversed(list(enumerate(tree.levels()))):
        ends = []
        for child in (tree.left[start:end], tree.right[start:end]):
            inner = np.where(child >= 0, child, 0)
            ends.append(np.where(child >= 0, node_angle[inner], leaf_angle[~np.minimum(child, -1)]))
        node_angle[start:end] = (ends[0] + ends[1]) / 2
        node_radius[start:end] = _ring_radius(level, tree.depth)
    leaf_radius = _ring_radius(tree.depths(), tree.depth)
    return _Layout(order, leaf_angle, leaf_radius, node_angle, node_radius)


def _ring_radius(bits: Any, depth: int) -> Any:
    """Return how far from the middle nodes stand that so many decisions lead to."""
    return (bits / depth) ** RADIUS_POWER


def _branches(
    tree: CodeTree, layout: _Layout, coloring: Coloring
) -> tuple[list[NDArray[np.float64]], list[float], list[str]]:
    """Return each branch, an arc at the parent's ring and a spoke to the child, with its looks."""
    masses = np.column_stack((tree.probabilities, tree.probabilities[:, None] * coloring.shares))
    lines: list[NDArray[np.float64]] = []
    widths: list[float] = []
    colors: list[str] = []
    for children, below in zip((tree.left, tree.right), tree.sums_below(masses), strict=True):
        for parent, child in enumerate(children.tolist()):
            if child >= 0:
                angle, radius = layout.node_angle[child], layout.node_radius[child]
            else:
                angle, radius = layout.leaf_angle[~child], layout.leaf_radius[~child]
            start = layout.node_angle[parent]
            steps = 2 + int(abs(angle - start) / 0.03)
            bend = np.append(np.linspace(start, angle, steps), angle)
            lines.append(
                _polar(np.append(np.full(steps, layout.node_radius[parent]), radius), bend)
            )
            widths.append(0.6 + 9.0 * float(np.sqrt(below[parent, 0])))
            colors.append(_main_color(below[parent, 1:], coloring))
    return lines, widths, colors


def _main_color(masses: NDArray[np.float64], coloring: Coloring) -> str:
    """Return the color that has more than half of the mass, or gray."""
    if masses.size and masses.max() > masses.sum() / 2:
        return coloring.colors[int(masses.argmax())]
    return MIXED


def _ring(
    tree: CodeTree, layout: _Layout, coloring: Coloring
) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Return the band outside the tree: for each leaf its colors, stacked by share."""
    half = np.pi * (1 - GAP) / tree.num_leaves * 0.88
    corners = np.array([-half, half, half, -half])
    wedges, colors = [], []
    for token, angle in enumerate(layout.leaf_angle):
        bounds = RING[0] + (RING[1] - RING[0]) * np.append(0, np.cumsum(coloring.shares[token]))
        for index in np.flatnonzero(coloring.shares[token]):
            low, high = bounds[index], bounds[index + 1]
            wedges.append(_polar([low, low, high, high], angle + corners))
            colors.append(coloring.colors[index])
    return wedges, colors


def _draw_scale(axes: Any, depth: int) -> None:
    """Draw a faint ring for each length of code, with its number at the gap on top."""
    from matplotlib.patches import Circle

    step = max(1, round(depth / 20))
    for bits in range(step, depth + 1, step):
        radius = _ring_radius(bits, depth)
        axes.add_patch(Circle((0, 0), radius, fill=False, lw=0.4, ec="#ececec", zorder=0))
        axes.text(
            0, radius, str(bits), fontsize=5.5, color="#999999", ha="center", va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6}, zorder=4,
        )  # fmt: skip


def _draw_labels(axes: Any, units: Sequence[str], layout: _Layout, radius_in: float) -> None:
    """Write each unit outside the ring: letters upright, longer units along the spokes."""
    pitch_pt = 2 * np.pi * radius_in * 72 * (1 - GAP) / len(units)
    fontsize = float(np.clip(pitch_pt * 0.95, 1.0, 12.0))
    for token in layout.leaf_order:
        name, angle = display_name(units[token]), layout.leaf_angle[token]
        degrees = np.degrees(angle) % 360
        flipped = 90 < degrees < 270  # along the spokes none shall stand on its head
        looks: dict[str, Any]
        if _num_columns(name) == 1:
            at = LABEL_AT + 0.45 * fontsize / 72 / radius_in
            looks = {"ha": "center"}
        else:
            at = LABEL_AT
            turned = degrees + 180 if flipped else degrees
            looks = {"ha": "right" if flipped else "left", "rotation": turned}
        axes.text(
            at * np.cos(angle), at * np.sin(angle), name, va="center", fontsize=fontsize,
            rotation_mode="anchor", parse_math=False, **looks,
        )  # fmt: skip


def _draw_questions(axes: Any, tree: CodeTree, layout: _Layout, radius_in: float) -> None:
    """Write what each node asks along the branch on which the answer is yes."""
    for node, question in enumerate(tree.questions or ()):
        if question is None:
            continue
        child = int(tree.left[node])
        if child >= 0:
            angle, end = layout.node_angle[child], layout.node_radius[child]
        else:
            angle, end = layout.leaf_angle[~child], layout.leaf_radius[~child]
        room_pt = (end - layout.node_radius[node]) * radius_in * 72
        size = float(np.clip(0.94 * room_pt / (LETTER_WIDTH * len(question)), *QUESTION_SIZES_PT))
        degrees = np.degrees(angle) % 360
        middle = (layout.node_radius[node] + end) / 2
        axes.text(
            middle * np.cos(angle), middle * np.sin(angle), question, fontsize=size,
            rotation=degrees + 180 if 90 < degrees < 270 else degrees, rotation_mode="anchor",
            ha="center", va="center", parse_math=False, color="#222222", zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3, "alpha": 0.75},
        )  # fmt: skip


def _num_columns(name: str) -> int:
    """Count the characters of a name that stand beside each other, not on top."""
    return sum(unicodedata.category(character) not in ("Mn", "Me") for character in name)


def _draw_legend(figure: Any, coloring: Coloring) -> None:
    from matplotlib.lines import Line2D

    if not coloring.names:
        return
    entries = [*zip(coloring.names, coloring.colors, strict=True), ("mixed", MIXED)]
    figure.legend(
        handles=[Line2D([], [], color=color, lw=5, label=name) for name, color in entries],
        title=coloring.title, loc="outside right center",
        frameon=False, fontsize=9, handlelength=1.2,
    )  # fmt: skip


def _polar(radius: Any, angle: Any) -> NDArray[np.float64]:
    """Return points (n, 2) of a circle's coordinates."""
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle)))
