"""The register tile in its place: A on the left, B above, totals between."""
from drawings.svg import Svg

CELL = 6
BX = 176  # left edge of the panel of B, and of the totals
AY = 226  # top edge of A and of the totals


def draw():
    svg = Svg(404, "The register tile",
              "The left panel holds the rows, 256 terms of each. Above the "
              "totals stands a panel of weights, 256 terms of 32 columns. "
              "A tile of 6 rows and 16 columns takes, for each k, one column "
              "of 6 values from the left and one row of 16 values from above.")
    wide, b_high, a_wide, high = 32 * CELL, 160, 140, 126
    # B, with the columns under the tile.
    svg.write(BX, 18, "B: one panel of weights", kind="strong")
    svg.box(BX, 40, wide, b_high, "weights", rounded=0)
    svg.box(BX, 40, wide / 2, b_high, "weights", rounded=0)
    svg.box(BX, 40 + 72, wide / 2, 9, "picked", rounded=0)
    svg.write(BX - 8, 40 + 80, "k", "end", "small")
    svg.write(BX + wide / 4, 34, "16 columns", "middle", "small")
    svg.write(BX + wide / 2 + wide / 4, 34, "16 columns", "middle", "small")
    svg.write(BX + wide + 6, 40 + 84, "256 k", kind="small")
    # A, with the tile's rows.
    svg.write(10, AY - 26, "A: left panel", kind="strong")
    svg.write(10, AY - 8, "256 terms of each row", kind="small")
    svg.box(10, AY, a_wide, high, "buffer", rounded=0)
    svg.box(10, AY + 42, a_wide, 42, "bias", rounded=0)
    svg.box(10 + 63, AY + 42, 7, 42, "picked", rounded=0)
    svg.write(10 + 66.5, AY + 100, "k", "middle", "small")
    # The totals, with the tile: two vectors of eight by six rows.
    svg.box(BX, AY, wide, high, "buffer", rounded=0)
    for row in range(6):
        for vector in range(2):
            svg.box(BX + vector * 8 * CELL, AY + 42 + 7 * row, 8 * CELL, 7,
                    "stage", rounded=0)
    beside = BX + wide / 2 + 8
    svg.write(beside, AY + 20, "totals", kind="strong")
    for i, line in enumerate(("6 rows x", "2 vectors", "in registers")):
        svg.write(beside, AY + 52 + 15 * i, line, kind="small")
    svg.arrow((BX + wide / 4, 40 + 81), (BX + wide / 4, AY + 42))
    svg.arrow((10 + 70, AY + 63), (BX, AY + 63))
    for i, line in enumerate((
            "for each k: 2 loads of B, 6 broadcasts of A,",
            "12 multiply-adds (AVX2)")):
        svg.write(10, AY + high + 24 + 18 * i, line)
    return svg
