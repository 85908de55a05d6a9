"""The API reference: what Doxygen found in a header, in the header's order.

    reference.py HEADER XML OUT

writes Markdown for Sphinx (breathe): a heading for each of the header's section
lines, the comment that opens the section, and a directive for each name. Ends
with an error where a name has no text at all.
"""
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

SECTION = re.compile(r"^(?:/\*|//) ---- (.+?) -+(?: \*/)?$")
DIRECTIVES = {"define": "doxygendefine", "enum": "doxygenenum",
              "function": "doxygenfunction", "typedef": "doxygentypedef",
              "struct": "doxygenstruct", "class": "doxygenclass"}


def plain(text):
    """A comment's words, without its markers."""
    lines = [re.sub(r"^\s*(/\*+|\*/|\*|///?)\s?", "", line)
             for line in text.removesuffix("*/").split("\n")]
    return " ".join(" ".join(lines).split())


def sections_of(lines):
    """(line number, title, opening text) of each section."""
    sections = [(1, None, "")]
    for i, line in enumerate(lines):
        match = SECTION.match(line)
        if not match:
            continue
        rest = "\n".join(lines[i + 1:]).lstrip("\n")
        # A comment that an empty line sets apart from what comes next.
        opening = re.match(r"/\* (?:.|\n)*?\*/(?=\n\n)|(// .*\n)+(?=\n)", rest)
        sections.append((i + 1, match.group(1),
                         plain(opening.group(0)) if opening else ""))
    return sections


def has_text(node):
    """Whether the name, or a value of the enum, has a comment."""
    return any("".join(part.itertext()).strip()
               for described in (node, *node.findall("enumvalue"))
               for kind in ("briefdescription", "detaileddescription")
               for part in described.findall(kind))


def names_of(header, xml):
    """(line, kind, name, has text) of each public name of the header."""
    found = []
    types = set()
    for file in sorted(xml.glob("*.xml")):
        compound = ET.parse(file).getroot().find("compounddef")
        if compound is None:
            continue
        kind = compound.get("kind")
        if kind in ("struct", "class"):
            place = compound.find("location")
            name = compound.findtext("compoundname")
            if (place.get("file").endswith(header)
                    and compound.get("prot") == "public"):
                types.add(name)
                found.append((int(place.get("line")), kind, name,
                              has_text(compound)))
        elif kind in ("file", "namespace"):
            for member in compound.iter("memberdef"):
                place = member.find("location")
                if place.get("file").endswith(header):
                    name = (member.findtext("qualifiedname")
                            or member.findtext("name"))
                    found.append((int(place.get("line")), member.get("kind"),
                                  name, has_text(member)))
                    if member.get("kind") == "enum":
                        types.add(name)
    # C repeats the name of a struct or an enum as a typedef. Guards are not
    # for use.
    return sorted({
        entry for entry in found
        if not (entry[1] == "typedef" and entry[2] in types)
        and not re.search(r"_H(PP)?_$|_ENUM_TYPE$", entry[2])})


def main():
    header, xml, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    lines = Path(header).read_text().split("\n")
    sections = sections_of(lines)
    names = names_of("/".join(Path(header).parts[-2:]), xml)
    if not names:
        sys.exit(f"{header}: nothing found in {xml}")
    text, without = [], []
    for (first, title, opening), after in zip(
            sections, [s[0] for s in sections[1:]] + [len(lines) + 1]):
        if title:
            text += [f"## {title[0].upper()}{title[1:]}", opening]
        for line, kind, name, described in names:
            if not first <= line < after:
                continue
            members = ":members:\n:undoc-members:\n" if kind in (
                "struct", "class") else ""
            text.append(f"```{{{DIRECTIVES[kind]}}} {name}\n{members}```")
            if not (described or opening or kind == "define"):
                without.append(f"{name} (line {line})")
    if without:
        sys.exit(f"{header}: no comment at {', '.join(without)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n\n".join(text) + "\n")


if __name__ == "__main__":
    main()
