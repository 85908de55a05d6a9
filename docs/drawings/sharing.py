"""How the tasks of one call share y: rows where there are many, else columns."""
from drawings.svg import Svg


def draw():
    svg = Svg(222, "How tasks share the work",
              "Many rows: each task takes blocks of rows, all columns, through "
              "everything. Few rows: each task takes shares of 128 columns of "
              "all rows, first of the hidden rows, then of the totals.")
    kinds = ("stage", "bias", "weights")
    svg.write(10, 20, "many rows", kind="strong")
    for i in range(6):
        svg.box(10, 34 + 24 * i, 170, 24, kinds[i // 2],
                f"rows of task {i // 2}", rounded=0)
    svg.write(10, 200, "x to y, block by block", kind="small")
    svg.write(222, 20, "few rows", kind="strong")
    svg.write(222, 48, "hidden", kind="small")
    for i in range(6):
        svg.box(222 + 31 * i, 56, 31, 34, kinds[i // 2], str(i // 2),
                rounded=0)
    svg.arrow((315, 96), (315, 128))
    svg.write(326, 117, "all tasks wait", kind="small")
    svg.write(222, 126, "totals", kind="small")
    for i in range(3):
        svg.box(222 + 31 * i, 134, 31, 34, kinds[i], str(i), rounded=0)
    svg.write(222, 200, "shares of 128 columns", kind="small")
    return svg
