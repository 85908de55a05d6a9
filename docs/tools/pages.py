"""Lays out what Sphinx reads.

    pages.py SOURCE OUT

OUT mirrors the parts of the source tree that pages include, so that their paths
(../kernels/CONTRACT.md) are those of the source tree, and OUT/pages is docs/.
Every file of these parts gets a page of its own, and so
does any other file that a text links to: OUT/pages/source. Links between files
are turned into links between pages; one that leads nowhere ends the build.
"""
import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath

TREES = ["kernels", "include", "examples", "bench", "cli"]
# Texts that have a page under a name of its own.
HOMES = {"README.md": "index", "kernels/CONTRACT.md": "contract",
         "bench/MODEL.md": "model", "examples/README.md": "examples"}
LANGUAGES = {".c": "c", ".h": "cpp", ".hpp": "cpp", ".cc": "cpp",
             ".cpp": "cpp", ".py": "python", ".sh": "bash", ".cmake": "cmake",
             ".toml": "toml", ".wrap": "ini", ".txt": "none"}
NAMES = {"meson.build": "meson", "CMakeLists.txt": "cmake"}
IGNORED = re.compile(r"(^|/)(build[^/]*|__pycache__|\.[^/]*|[^/]*egg-info)/")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def language(path):
    return NAMES.get(path.name) or LANGUAGES.get(path.suffix)


class Site:
    def __init__(self, source, out):
        self.source = source
        self.out = out
        self.pages = out / "pages"
        self.files = set()  # that have a page in source/
        self.folders = set()
        self.readmes = set()

    def page_of(self, path):
        """The page of a file or folder of the source tree; notes that it is
        wanted."""
        name = path.as_posix()
        if name in HOMES:
            return HOMES[name]
        if path.parts[:2] == ("docs", "charts"):
            return "speed"  # which shows them
        if path.parts[0] == "docs" and path.suffix == ".md":
            return path.relative_to("docs").with_suffix("").as_posix()
        if path.name == "README.md":
            path = path.parent
        if (self.source / path).is_dir():
            self.want_folder(path)
            if (self.source / path / "README.md").exists():
                self.want_readme(path / "README.md")
            return f"source/{path}/index"
        self.want_file(path)
        return f"source/{path}"

    def want_file(self, path):
        if path not in self.files:
            self.files.add(path)
            self.want_folder(path.parent)

    def want_readme(self, path):
        if path not in self.readmes and path.as_posix() not in HOMES:
            self.readmes.add(path)
            self.want_folder(path.parent)
            self.copy(path, self.out / path)

    def want_folder(self, path):
        while path not in self.folders:
            self.folders.add(path)
            path = path.parent

    def linked(self, text, path):
        """`text`, of the file `path`, with links to pages instead of files."""
        def replace(match):
            label, target = match.groups()
            if re.match(r"[a-z]+:|#|/", target):
                return match.group(0)
            target, _, anchor = target.partition("#")
            found = PurePosixPath(os.path.normpath(path.parent / target))
            if not (self.source / found).exists():
                sys.exit(f"{path}: a link to {target}, which is not there")
            anchor = f"#{anchor}" if anchor else ""
            return f"[{label}](/{self.page_of(found)}.md{anchor})"
        return LINK.sub(replace, text)

    def copy(self, path, to):
        to.parent.mkdir(parents=True, exist_ok=True)
        whole = self.source / path
        if path.suffix == ".md":
            to.write_text(self.linked(whole.read_text(), path))
        else:
            shutil.copyfile(whole, to)

    def write(self, page, text):
        to = self.pages / f"{page}.md"
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)


def files_of(source, tree):
    """The files under `tree` that are worth a page, or are Markdown."""
    for folder, _, names in os.walk(source / tree):
        for name in names:
            path = PurePosixPath((Path(folder) / name).relative_to(source))
            if not IGNORED.search(path.as_posix()) and (
                    language(path) or path.suffix == ".md"):
                yield path


# Pages of the source are not in the sidebar, which would be long; each says
# where it is instead.
ORPHAN = "---\norphan: true\n---\n\n"


def place(path):
    """Links to the folders above."""
    above = [f"[{folder.name or 'source'}](/source/{folder}/index.md)"
             for folder in reversed(path.parents)]
    return " / ".join(above).replace("/./", "/") + "\n\n"


def file_page(path):
    up = "../" * (len(path.parts) + 1)
    return (f"{ORPHAN}# {path.name}\n\n{place(path)}"
            f"```{{literalinclude}} {up}{path}\n"
            f":language: {language(path) or 'none'}\n:linenos:\n```\n")


def folder_page(site, path):
    up = "../" * (len(path.parts) + 2)
    if path / "README.md" in site.readmes:
        head = f"```{{include}} {up}{path}/README.md\n```\n\n## Files\n\n"
    else:
        head = f"# {path}/\n\n" if path.name else "# Source files\n\n"
    if path.name:
        head = ORPHAN + head + place(path)
    children = [f"- [{folder.name}/]({folder.name}/index.md)"
                for folder in sorted(site.folders)
                if folder.parent == path and folder != path]
    children += [f"- [{file.name}]({file.name}.md)"
                 for file in sorted(site.files) if file.parent == path]
    return head + "\n".join(children) + "\n"


def main():
    source, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    site = Site(source, out)
    for part in ("pages", *TREES):
        shutil.rmtree(out / part, ignore_errors=True)

    for path in (source / "docs").rglob("*"):
        inside = PurePosixPath(path.relative_to(source / "docs"))
        if path.suffix in (".md", ".svg", ".png"):
            site.copy("docs" / inside, site.pages / inside)
        elif inside.parts[0] == "snippets" and path.is_file():
            site.copy("docs" / inside, site.pages / inside)
    site.copy(PurePosixPath("README.md"), out / "README.md")
    for tree in TREES:
        for path in files_of(source, tree):
            if path.suffix != ".md":
                site.want_file(path)
            elif path.name == "README.md":
                site.want_readme(path)
            if path.as_posix() in HOMES:
                site.copy(path, out / path)

    for path in site.files:
        site.copy(path, out / path)
        site.write(f"source/{path}", file_page(path))
    for path in site.folders:
        site.write(f"source/{path}/index".replace("/./", "/"),
                   folder_page(site, path))


if __name__ == "__main__":
    main()
