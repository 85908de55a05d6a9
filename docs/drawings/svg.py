"""The little of SVG that the drawings need. Sizes are in CSS pixels.

Colours are classes of docs/static/ffnorm.css, for light and dark pages. A
drawing is at most WIDTH wide, so that a phone shows its text large enough.
"""
from xml.sax.saxutils import escape

WIDTH = 420


class Svg:
    def __init__(self, height, title, description):
        self.height = height
        self.title = title
        self.description = description
        self.parts = []

    def box(self, x, y, width, height, kind, label=None, rounded=4):
        """A rectangle of class `kind`, with lines of text in its middle."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" '
            f'height="{height:g}" rx="{rounded:g}"/>')
        if label:
            lines = label.split("\n")
            middle = y + height / 2 + 4.5 - 8 * (len(lines) - 1)
            for i, line in enumerate(lines):
                self.write(x + width / 2, middle + 16 * i, line, "middle")

    def write(self, x, y, text, anchor="start", kind=""):
        name = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{name} x="{x:g}" y="{y:g}" '
                          f'text-anchor="{anchor}">{escape(text)}</text>')

    def line(self, *points, kind="line"):
        """A polyline through (x, y) points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline class="{kind}" points="{path}"/>')

    def arrow(self, *points):
        """A polyline that ends in a head; its last piece is straight."""
        self.line(*points)
        (x0, y0), (x, y) = points[-2:]
        dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
        back_x, back_y = x - 7 * dx, y - 7 * dy
        head = [(x, y), (back_x + 4 * dy, back_y + 4 * dx),
                (back_x - 4 * dy, back_y - 4 * dx)]
        path = " ".join(f"{a:g},{b:g}" for a, b in head)
        self.parts.append(f'<polygon class="head" points="{path}"/>')

    def text(self, name):
        return (f'<svg viewBox="0 0 {WIDTH} {self.height:g}" role="img" '
                f'aria-labelledby="{name}-title {name}-desc" '
                f'xmlns="http://www.w3.org/2000/svg">\n'
                f'<title id="{name}-title">{escape(self.title)}</title>\n'
                f'<desc id="{name}-desc">{escape(self.description)}</desc>\n'
                + "\n".join(self.parts) + "\n</svg>")
