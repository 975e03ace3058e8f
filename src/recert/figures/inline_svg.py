"""A chart as SVG inside a page: text stays text, colours follow the page's theme, marks have titles."""

import io
import re
import warnings
from typing import Any
from xml.etree import ElementTree

from recert.figures.chart import Chart
from recert.figures.style import BASELINE, ORIGINAL, SERIES, paper_style

# Colours of figures that are variables of the page. Grid lines are a half transparent grey, which both themes show.
_VARIABLES = {
    **{look.colour: f"var(--c{number})" for number, look in enumerate(SERIES)},
    BASELINE.colour: "var(--base)",
    ORIGINAL.colour: "var(--ink)",
    "#000000": "var(--ink)",
}


def inline_svg(chart: Chart, key: str) -> str:
    """An `svg` element without prolog, metadata or styles, all ids of which begin with the key. All texts are escaped."""
    root = ElementTree.fromstring(_written(chart, key))
    for element in root.iter():  # without namespaces, which a page does not need
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("metadata", "style")]:
            parent.remove(child)
    for gid, titles in chart.marks.items():
        # Marks of a line are uses of one shape; a bar is a path of its own.
        marks = root.findall(f".//g[@id='{gid}']//use")
        if titles and not marks:
            marks = root.findall(f".//g[@id='{gid}']//path")
        for mark, title in zip(marks, titles, strict=True):
            ElementTree.SubElement(mark, "title").text = title  # shown when the pointer rests on the mark
    # Several figures share a page: without a prefix their ids would be equal, and one would use the other's clip paths.
    for element in root.iter():
        for name, before in (("id", ""), ("href", "#"), ("clip-path", "url(#")):
            if name in element.attrib:
                element.set(name, f"{before}{key}-{element.attrib[name].removeprefix(before)}")
        if "style" in element.attrib:
            style = re.sub("#[0-9a-f]{6}", lambda colour: _VARIABLES.get(colour[0], colour[0]), element.attrib["style"])
            element.set("style", style)
    for tag, text in (("desc", chart.description), ("title", chart.title)):
        element = ElementTree.Element(tag, {"id": f"{key}-{tag}"})
        element.text = text
        root.insert(0, element)
    box = root.attrib["viewBox"]
    root.attrib = {"class": "chart", "viewBox": box, "role": "img", "aria-labelledby": f"{key}-title {key}-desc"}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _written(chart: Chart, key: str) -> bytes:
    import matplotlib

    file = io.BytesIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": key}
    with paper_style(), matplotlib.rc_context(settings), warnings.catch_warnings():
        # A browser has fonts for letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        chart.figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()
