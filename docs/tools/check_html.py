"""Checks the links of the built pages.

    check_html.py HTML

Every link, image, script and style of every page must exist: the file, and the
element that the part after # names. Nothing but <a href> may point outside, so
that the pages need no network; those are listed, not fetched. Prints a line for
each error and a sum.
"""
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

URLS = {"href", "src", "data", "poster", "xlink:href"}


class Page(HTMLParser):
    """The ids and links of one page."""

    def __init__(self, text):
        super().__init__()
        self.ids = set()
        self.repeated = set()
        self.links = []  # (tag, url)
        self.styles = []
        self.images_without_text = 0
        self.in_style = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            value = value or ""
            if name == "id" or (tag == "a" and name == "name"):
                if value in self.ids:
                    self.repeated.add(value)
                self.ids.add(value)
            elif name in URLS and not (tag == "meta"):
                self.links.append((tag, value))
            elif name == "srcset":
                self.links += [(tag, part.split()[0])
                               for part in value.split(",") if part.strip()]
            elif name == "style":
                self.styles.append(value)
        if tag == "img" and not dict(attributes).get("alt"):
            self.images_without_text += 1
        self.in_style = tag == "style"

    def handle_endtag(self, tag):
        self.in_style = False

    def handle_data(self, data):
        if self.in_style:
            self.styles.append(data)


def urls_of_style(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [a or b for a, b in re.findall(
        r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text)]


class Checker:
    def __init__(self, root):
        self.root = root
        self.pages = {path: Page(path.read_text())
                      for path in sorted(root.rglob("*.html"))}
        self.errors = []
        self.outside = {}
        self.links = 0
        self.anchors = 0

    def error(self, path, text):
        self.errors.append(f"{path.relative_to(self.root)}: {text}")

    def check(self, path, tag, url):
        parts = urlsplit(url)
        if parts.scheme == "data":
            return
        if parts.scheme or parts.netloc:
            if tag != "a":
                self.error(path, f"<{tag}> needs the network: {url}")
            elif parts.scheme != "mailto":
                self.outside.setdefault(url, path)
            return
        self.links += 1
        if parts.path.startswith("/"):
            self.error(path, f"not a relative path: {url}")
            return
        target = path
        if parts.path:
            target = Path(os.path.normpath(path.parent / unquote(parts.path)))
            if self.root not in target.parents:
                self.error(path, f"leaves the site: {url}")
                return
            if not target.is_file():
                self.error(path, f"no such file: {url}")
                return
        anchor = unquote(parts.fragment)
        if anchor and target in self.pages:
            self.anchors += 1
            if anchor not in self.pages[target].ids:
                self.error(path, f"no such place: {url}")

    def run(self):
        for path, page in self.pages.items():
            for tag, url in page.links:
                self.check(path, tag, url)
            for style in page.styles:
                for url in urls_of_style(style):
                    self.check(path, "style", url)
            for name in sorted(page.repeated):
                self.error(path, f"an id stands twice: {name}")
            if page.images_without_text:
                self.error(path, f"{page.images_without_text} images without "
                           "alternative text")
        for path in sorted(self.root.rglob("*.css")):
            for url in urls_of_style(path.read_text()):
                self.check(path, "style", url)


def main():
    checker = Checker(Path(sys.argv[1]).resolve())
    if len(checker.pages) < 2:
        sys.exit(f"{sys.argv[1]}: no pages")
    checker.run()
    for url, path in sorted(checker.outside.items()):
        print(f"outside, not fetched: {url} "
              f"(first in {path.relative_to(checker.root)})")
    for error in checker.errors:
        print(f"ERROR: {error}")
    print(f"{len(checker.pages)} pages, {checker.links} links inside the site, "
          f"{checker.anchors} of them to a place in a page, "
          f"{len(checker.outside)} outside: {len(checker.errors)} errors")
    return 1 if checker.errors else 0


if __name__ == "__main__":
    sys.exit(main())
