"""A chart as SVG inside a page: text stays text, colours follow the page's theme, marks say what they are."""

import io
import re
import warnings
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from recert.figures.charts import Chart
from recert.figures.style import BASELINE, SERIES, paper_style

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# Colours of figures that are variables of the page. Grid lines are a half transparent grey, which both themes show.
_VARIABLES = {
    **{look.colour: f"var(--c{number})" for number, look in enumerate(SERIES)},
    BASELINE.colour: "var(--base)",
    "#000000": "var(--ink)",
}
_REFERENCE = re.compile(r"^(?:url\()?#([\w-]+)\)?$")


def inline_svg(chart: Chart, key: str) -> str:
    """An `svg` element without prolog, scripts, styles for others or ids that another key has. All texts are escaped."""
    root = ElementTree.fromstring(_written(chart, key))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("metadata", "style")]:
            parent.remove(child)
    _add_mark_titles(root, chart)
    _keep_referenced_ids(root, key)
    for element in root.iter():
        if "style" in element.attrib:
            element.set("style", _with_variables(element.attrib["style"]))
    _describe(root, chart, key)
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


def _add_mark_titles(root: "Element", chart: Chart) -> None:
    """Browsers show the title of a mark when the pointer rests on it."""
    for group in root.iter("g"):
        titles = chart.marks.get(group.get("id", ""))
        if titles is None:
            continue
        group.set("data-part", group.attrib["id"])
        for mark, title in zip(group.iter("use"), titles, strict=True):
            ElementTree.SubElement(mark, "title").text = title


def _keep_referenced_ids(root: "Element", key: str) -> None:
    """Ids that something in the figure refers to (clip paths, shapes of marks) begin with the key; others go."""
    used = {name for element in root.iter() for value in element.attrib.values() for name in _REFERENCE.findall(value)}
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in used:
            element.set("id", f"{key}-{name}")
        for attribute in ("href", "clip-path"):
            if attribute in element.attrib:
                element.set(attribute, element.attrib[attribute].replace("#", f"#{key}-"))


def _with_variables(style: str) -> str:
    return re.sub(r"#[0-9a-f]{6}", lambda match: _VARIABLES.get(match[0], match[0]), style)


def _describe(root: "Element", chart: Chart, key: str) -> None:
    root.attrib = {
        "class": "chart", "viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": f"{key}-title {key}-description",
    }  # fmt: skip
    for place, (tag, word, text) in enumerate(
        (("title", "title", chart.texts.title), ("desc", "description", chart.texts.description))
    ):
        element = ElementTree.Element(tag, {"id": f"{key}-{word}"})
        element.text = text
        root.insert(place, element)
