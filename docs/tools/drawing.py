"""A directive that puts a drawing of docs/drawings/ into the page.

It goes in as SVG elements, not as an image: so its colours follow the page's
light or dark theme, and its text is text.
"""
import importlib

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class Drawing(SphinxDirective):
    """```{drawing} NAME``` with a caption as its content."""

    required_arguments = 1
    has_content = True

    def run(self):
        name = self.arguments[0]
        module = importlib.import_module(f"drawings.{name}")
        for needed in (module.__file__,
                       importlib.import_module("drawings.svg").__file__):
            self.env.note_dependency(needed)
        figure = nodes.figure(classes=["drawing"])
        figure += nodes.raw("", module.draw().text(name), format="html")
        if self.content:
            caption = nodes.caption()
            parsed, _ = self.state.inline_text(" ".join(self.content),
                                               self.lineno)
            caption += parsed
            figure += caption
        return [figure]


def setup(app):
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True}
