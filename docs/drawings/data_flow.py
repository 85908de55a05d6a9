"""From x to y in both orders: stages, buffers, and what repeats."""
from drawings.svg import Svg

STEP = 52
HIGH = 32
WIDE = 160


def column(svg, x, name, stages):
    """One order from top to bottom; returns the y of each slot's middle."""
    svg.write(x + WIDE / 2, 20, name, "middle", "strong")
    last = None
    for slot, stage in enumerate(stages):
        if stage is None:
            continue
        kind, label = stage
        y = 34 + STEP * slot
        svg.box(x, y, WIDE, HIGH, kind, label)
        if last is not None:
            svg.arrow((x + WIDE / 2, last + HIGH), (x + WIDE / 2, y))
        last = y


def draw():
    svg = Svg(34 + 9 * STEP + HIGH + 8, "From x to y in both orders",
              "Pre-LN: x, LayerNorm, left panel, matmul 1 with bias and ReLU, "
              "hidden panel with its active units, matmul 2 with bias, totals, "
              "plus x, y. Post-LN: x, copy, the same up to plus x, then "
              "LayerNorm, y. The two matmuls repeat for each 256 hidden "
              "columns where there are many rows.")
    middle = [("buffer", "left panel"), ("stage", "matmul 1 + b1, ReLU"),
              ("buffer", "hidden, active units"), ("stage", "matmul 2 + b2"),
              ("buffer", "totals"), ("stage", "+ x")]
    left, right = 26, 234
    # What repeats, behind everything else.
    for x in (left, right):
        svg.box(x - 9, 34 + 3 * STEP - 9, WIDE + 18, 2 * STEP + HIGH + 18,
                "loop")
    column(svg, left, "Pre-LN", [("buffer", "x rows"), ("stage", "LayerNorm"),
                                 *middle, None, ("buffer", "y rows")])
    column(svg, right, "Post-LN", [("buffer", "x rows"), ("stage", "copy"),
                                   *middle, ("stage", "LayerNorm"),
                                   ("buffer", "y rows")])
    # The residual goes around.
    for x, side in ((left, left - 18), (right, right + WIDE + 18)):
        edge = x if side < x else x + WIDE
        top, bottom = 34 + HIGH / 2, 34 + 7 * STEP + HIGH / 2
        svg.arrow((edge, top), (side, top), (side, bottom), (edge, bottom))
    return svg
