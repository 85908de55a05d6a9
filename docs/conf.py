"""Sphinx configuration of the documentation; build.sh runs it."""
import re
import sys
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "ffnorm"
author = "the ffnorm authors"
copyright = author
version = release = re.search(
    r"^\s*version: '([^']+)'", (HERE.parent / "meson.build").read_text(), re.M
).group(1)

extensions = ["breathe", "myst_parser", "tools.drawing"]
root_doc = "index"
breathe_default_project = "ffnorm"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
add_function_parentheses = False
highlight_language = "none"
myst_heading_anchors = 3

# Types of the languages themselves, and C names that C++ signatures contain:
# those are in the C domain, where a C++ reference does not look.
nitpick_ignore_regex = [
    ("c:identifier", r"(u?int\d+_t|size_t|ptrdiff_t)"),
    ("cpp:identifier", r"(u?int\d+_t|size_t|std(::.*)?|ffnorm(_\w+)?)"),
]
# Pygments does not know all of each language; such a file is shown all the same.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"ffnorm {release}"
html_static_path = ["static"]
html_css_files = ["ffnorm.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}


def without_kinds(app, doctree):
    """Breathe heads the members of each class with their kind ("Public
    Members"), every time under the same id. All that is shown is public."""
    for node in list(doctree.findall(nodes.Element)):
        if "breathe-sectiondef-title" in node.get("classes", ()):
            node.parent.remove(node)


def setup(app):
    app.connect("doctree-read", without_kinds)
