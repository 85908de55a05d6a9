"""The packed block: its parts, and one panel from near."""
from drawings.svg import Svg

CELL = 6
LEFT = 186


def draw():
    svg = Svg(356, "The packed block",
              "In memory order: a header of 128 bytes, scale, offset, the "
              "panels of W1, the panels of W2. A panel is 32 columns wide. "
              "Its first row of 32 floats is the bias, then one row for each "
              "k, in blocks of 256.")
    # The whole block, top to bottom.
    svg.write(10, 20, "the block", kind="strong")
    parts = [("buffer", 34, "header, 128 bytes"), ("bias", 28, "scale"),
             ("bias", 28, "offset"), ("weights", 34, "W1 panel 0"),
             ("weights", 34, "W1 panel 1"), (None, 26, "..."),
             ("weights", 34, "last W1 panel"), ("weights", 34, "W2 panel 0"),
             (None, 26, "..."), ("weights", 34, "last W2 panel")]
    y, zoom = 32, None
    for kind, height, label in parts:
        if kind:
            svg.box(10, y, 130, height, kind, label, rounded=0)
        else:
            svg.write(75, y + 16, label, "middle")
        if label == "W1 panel 1":
            zoom = y, y + height
        y += height
    # One panel.
    wide = 32 * CELL
    svg.write(LEFT, 20, "a panel: 32 columns", kind="strong")
    rows = [("bias", "bias"), ("weights", "k = 0"), ("weights", "1"),
            ("weights", "2"), (None, ""), ("weights", "255"),
            ("weights", "256"), ("weights", "257"), (None, ""),
            ("weights", "K - 1")]
    y = 32
    blocks = []
    for kind, label in rows:
        if label in ("k = 0", "256"):
            y += 8
            blocks.append(y)
        if kind is None:
            svg.write(LEFT + wide / 2, y + 12, "...", "middle")
            y += 22
            continue
        svg.box(LEFT, y, wide, 18, kind, rounded=0)
        for i in range(1, 32):
            svg.line((LEFT + i * CELL, y), (LEFT + i * CELL, y + 18),
                     kind="cell" if i % 16 else "line")
        svg.write(LEFT - 5, y + 13, label, "end", "small")
        y += 18
        if label == "255":
            blocks.append(y)
    blocks.append(y)
    bottom = y
    for (top, end), name in zip(((blocks[0], blocks[1]),
                                 (blocks[2], blocks[3])), (0, 1)):
        x = LEFT + wide + 6
        svg.line((x, top), (x + 6, top), (x + 6, end), (x, end))
        svg.write(x + 12, (top + end) / 2 + 4, f"{name}", kind="small")
    svg.write(LEFT + wide + 37, 40, "block", "end", "small")
    svg.write(LEFT + wide + 37, 53, "of K", "end", "small")
    svg.line((140, zoom[0]), (LEFT - 40, 32), kind="dashed")
    svg.line((140, zoom[1]), (LEFT - 40, bottom), kind="dashed")
    for i, line in enumerate((
            "A row: 32 floats, 128 bytes,", "two cache lines. K is d_model",
            "in W1 and d_ff in W2. A bias", "that is missing and columns that",
            "pad the last panel are +0.")):
        svg.write(LEFT, bottom + 28 + 17 * i, line)
    return svg
