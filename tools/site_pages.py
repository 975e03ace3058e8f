"""Brings into the documentation site what lies outside docs/, and makes links lead there. A hook of mkdocs (mkdocs.yml).

README.md becomes the first page; CHANGELOG, CONTRIBUTING and every example become pages; pictures, tables and the licence become files.
"""

import ast
import itertools
import json
import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
LOG = logging.getLogger("mkdocs.hooks.site_pages")
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
COPIED = ("results/figures/*.svg", "results/tables/*.csv", "LICENSE", "CITATION.cff")
LANGUAGES = {".py": "python", ".sh": "bash", ".yml": "yaml"}
IN_MARKDOWN = re.compile(r"(?<=\]\()[^)\s]+")
IN_HTML = re.compile(r"(?<=\s)((?:src|srcset|href)=\")([^\"]+)")
PICTURE = re.compile(
    r"""<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img ([^>]*?)src="([^"]+)"([^>]*)>\s*</picture>"""
)
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def on_files(files: Files, config: Any) -> Files:
    """Adds pages and files from outside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for pattern in COPIED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    for path in examples():
        files.append(File.generated(config, f"{path.relative_to(ROOT)}.md", content=example_page(path)))
    files.append(File.generated(config, "examples.md", content=examples_index()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of the repository become links of the site. Programs are left alone."""
    here = repository_path(page.file.src_uri)
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [with_site_links(markdown[end : fence.start()], here), fence[0]]
        end = fence.end()
    return "".join([*parts, with_site_links(markdown[end:], here)])


def on_page_content(html: str, **_: Any) -> str:
    """Options and other short names in tables are not broken at their hyphens."""
    return re.sub(r"<code>([^<\s]{1,24})</code>", r'<code class="whole">\1</code>', html)


def repository_path(page: str) -> str:
    """Where in the repository a page of the site comes from.

    >>> [repository_path(page) for page in ("index.md", "theory.md", "examples/fine_tuned.py.md", "examples.md")]
    ['README.md', 'docs/theory.md', 'examples/fine_tuned.py', 'examples']
    """
    if page.startswith("examples"):
        return page.removesuffix(".md")
    return {site: source for source, site in PAGES.items()}.get(page, f"docs/{page}")


def site_path(path: str) -> str:
    """Where on the site a file of the repository lies.

    >>> [site_path(path) for path in ("README.md", "docs/theory.md", "examples/fine_tuned.py", "examples", "results/figures/a.svg")]
    ['index.md', 'theory.md', 'examples/fine_tuned.py.md', 'examples.md', 'results/figures/a.svg']
    """
    if path.rstrip("/") == "examples" or path.startswith("examples/"):
        return f"{path.rstrip('/')}.md"
    return PAGES.get(path, path.removeprefix("docs/"))


def site_link(link: str, here: str) -> str:
    """A link of a file of the repository, as one between pages of the site.

    >>> site_link("../examples/fine_tuned.py", "docs/theory.md"), site_link("docs/theory.md#rounding", "README.md")
    ('examples/fine_tuned.py.md', 'theory.md#rounding')
    >>> site_link("https://example.org", "README.md"), site_link("#here", "README.md")
    ('https://example.org', '#here')
    """
    path, mark, anchor = link.partition("#")
    if re.match(r"[a-z]+:", link) or not path:
        return link
    target = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
    start = posixpath.dirname(site_path(here)) or "."
    return posixpath.relpath(site_path(target), start) + mark + anchor


def for_the_theme(text: str) -> str:
    """A picture for light and one for dark follow the theme that was chosen on the site, which may not be the system's.

    >>> print(for_the_theme('<picture><source media="(prefers-color-scheme: dark)" srcset="d.svg"><img alt="a" src="l.svg"></picture>'))
    <img alt="a" src="l.svg#only-light"><img alt="a" src="d.svg#only-dark">
    """
    return PICTURE.sub(r'<img \2src="\3#only-light"\4><img \2src="\1#only-dark"\4>', text)


def with_site_links(text: str, here: str) -> str:
    def in_html(found: re.Match[str]) -> str:
        link = site_link(found[2], here)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), found[2].partition("#")[0]))
        if not re.match(r"[a-z]+:|#", link) and not (ROOT / path).exists():
            LOG.warning("%s links to %s, which does not exist", here, found[2])
        return found[1] + re.sub(r"\.md(?=#|$)", ".html", link)  # mkdocs looks at Markdown alone

    return IN_HTML.sub(in_html, IN_MARKDOWN.sub(lambda found: site_link(found[0], here), for_the_theme(text)))


def examples() -> list[Path]:
    folder = ROOT / "examples"
    return sorted(path for path in folder.rglob("*") if path.suffix in (*LANGUAGES, ".ipynb"))


def example_page(path: Path) -> str:
    name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return notebook_page(name, text)
    return f"# `{name}`\n\n```{LANGUAGES[path.suffix]}\n{text.rstrip()}\n```\n"


def notebook_page(name: str, text: str) -> str:
    parts = [f"# `{name}`"]
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        source = re.sub(r"^(#+) ", r"\1# ", source, flags=re.M) if cell["cell_type"] == "markdown" else source
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"


def examples_index() -> str:
    """A list of all examples, each with its first sentence."""
    lines = [
        f"- [`{path.relative_to(ROOT / 'examples')}`]({path.relative_to(ROOT)}): {about(path)}" for path in examples()
    ]
    return "# Examples\n\nEvery program here is run by the tests.\n\n" + "\n".join(lines) + "\n"


def about(path: Path) -> str:
    """The first sentence of a program, without how it is called."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return f"A notebook: {''.join(json.loads(text)['cells'][0]['source']).splitlines()[0].lstrip('# ')}."
    if path.suffix == ".py":
        said = ast.get_docstring(ast.parse(text)) or ""
    else:
        said = " ".join(
            line.lstrip("# ")
            for line in itertools.takewhile(
                lambda line: line.startswith("#"), text.removeprefix("#!/bin/sh\n").splitlines()
            )
        )
    return re.split(r"(?<=\.)\s|:? python |:\n", " ".join(said.split()) + " ")[0].strip().rstrip(".:") + "."
