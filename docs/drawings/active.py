"""How two rows of hidden units become one list, and what it leaves unread."""
from drawings.svg import Svg

UNITS = 14
FIRST = "01001000110001"
SECOND = "00001001100001"


def draw():
    svg = Svg(404, "Lists of active units",
              "Two rows of one tile: where a hidden unit is on in either of "
              "them, its number goes into the tile's list. Matmul 2 reads "
              "the rows of W2 that the list names, and no others.")
    wide, x0 = 22, 100
    either = "".join("1" if "1" in pair else "0"
                     for pair in zip(FIRST, SECOND))
    for i in range(UNITS):
        svg.write(x0 + wide * (i + 0.5), 18, str(i), "middle", "small")
    svg.write(x0 - 8, 18, "hidden unit", "end", "small")
    for row, (name, bits) in enumerate((("row 0", FIRST), ("row 1", SECOND),
                                        ("on in any", either))):
        y = 26 + 30 * row + (8 if row == 2 else 0)
        svg.write(x0 - 8, y + 16, name, "end", "strong" if row == 2 else "")
        for i, bit in enumerate(bits):
            kind = "cell" if bit == "0" else "picked" if row == 2 else "stage"
            svg.box(x0 + wide * i, y, wide, 22, kind, rounded=0)
            if bit == "0":
                svg.write(x0 + wide * (i + 0.5), y + 15, "0", "middle",
                          "small")
    listed = [i for i, bit in enumerate(either) if bit == "1"]
    # The list, and the rows of W2.
    top = 150
    svg.write(10, top, "the tile's list", kind="strong")
    svg.write(214, top, "W2: one row for each unit", kind="strong")
    high = 14
    for i in range(UNITS):
        y = top + 14 + (high + 2) * i
        on = i in listed
        svg.box(214, y, 150, high, "picked" if on else "cell", rounded=0)
        svg.write(372, y + 11, "read" if on else "", kind="small")
        svg.write(206, y + 11, str(i), "end", "small")
    for position, unit in enumerate(listed):
        y = top + 24 + 30 * position
        svg.box(34, y, 44, 24, "buffer", str(unit), rounded=0)
        target = top + 14 + (high + 2) * unit + high / 2
        svg.line((78, y + 12), (184, target))
    return svg
