"""What the documentation names exists: names of the package, options of commands, files. Reference pages are up to date."""

import ast
import builtins
import dataclasses
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

import recert
import studies.__main__
from recert.cli import app
from recert.recertification import available_methods

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "recert"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
]

OBJECTS = {
    "cache": recert.Cache, "result": recert.Certificates, "first": recert.Certificates, "found": "recert.auditing.result:Audit",
    "one": recert.Certificate, "settings": "recert.certificates:Settings", "context": "recert.approximations:Context", "terms": "recert.recertification.method:Terms",
    "noise": recert.Noise, "trained": recert.TrainedModel, "execution": recert.Execution, "source": recert.VoteSource, "votes": recert.CachingSource,
}  # fmt: skip
"""What variables of the documentation stand for."""
DATA_FILE = re.compile(r"\.(cff|json|sig|html|parquet|npz|onnx|pt2|csv|tsv|pem|png|tar|safetensors)$")
NOT_OURS = {"eval", "print", "view"}
"""Functions of torch and Python that are named without their module."""


def text_of(page: Path) -> str:
    """A page; of the changelog only the newest section, without its column "before": older ones may name what is gone."""
    text = page.read_text(encoding="utf-8")
    if page.name == "api.md":  # signatures are made from the source, and are no programs
        text = re.sub(r"^```python\n.*?^```|^- `[^`]*`", "", text, flags=re.M | re.S)
    if page.name == "CHANGELOG.md":
        text = re.sub(
            r"^\|[^|]*\|", "", "\n## ".join(text.split("\n## ")[:2]), flags=re.M
        )  # the first column says what was
    if page.name == "coming-from.md":  # the first column, and what is marked, are other projects' names
        text = re.sub(r"^\|[^|]*\||^<!-- theirs -->\n```.*?^```", "", text, flags=re.M | re.S)
    return text


def problems(text: str) -> list[str]:
    """Everything that a page names and that does not exist."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    plain = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.M | re.S)
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", plain)]
    found = [problem for span in spans for problem in problems_of_span(span)]
    for language, block in blocks:
        found += problems_of_python(block) if language == "python" else problems_of_commands(block)
    return found


# names


def problems_of_span(span: str) -> Iterator[str]:
    yield from problems_of_commands(span)
    if is_file(span):
        if not file_exists(span):
            yield f"there is no file {span}"
        return
    if re.match(r"(recert|python|make|pip|pytest) ", span):
        return
    try:
        expression: ast.expr | None = ast.parse(span, mode="eval").body
    except SyntaxError:
        expression = None
    if isinstance(expression, ast.Call):
        yield from problems_of_calls(expression)
    elif isinstance(expression, ast.Attribute) and (name := dotted(expression)) and not DATA_FILE.search(name):
        yield from problems_of_name(name)
    elif isinstance(expression, ast.Name) and re.search(r"_|^[A-Z][a-z]", span) and not known_word(span):
        yield f"nothing is called {span}"
    elif (method := re.match(r'method="(.*)"$', span)) and method[1] not in available_methods():
        yield f"there is no method {method[1]}"
    elif (keyword := re.match(r"([a-z_]\w*)=", span)) and not known_word(keyword[1]):
        yield f"nothing has a parameter {keyword[1]}"


def problems_of_calls(expression: ast.AST) -> Iterator[str]:
    """Functions that are called somewhere in an expression, and their keywords."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and (name := dotted(node.func)):
            yield from problems_of_name(name, [keyword.arg for keyword in node.keywords if keyword.arg])


def problems_of_name(name: str, keywords: Sequence[str] = ()) -> Iterator[str]:
    try:
        thing = resolved(name)
    except LookupError as error:
        yield f"{name} does not exist: {error}"
        return
    yield from (f"{name} has no parameter {keyword}" for keyword in keywords if not accepts(thing, keyword))


def resolved(name: str) -> Any:
    """What a name of the documentation stands for; None if it is known to exist and no more. LookupError if it does not."""
    first, *rest = name.split(".")
    if first in OBJECTS and rest:
        known = OBJECTS[first]
        if isinstance(known, str):
            module, _, attribute = known.partition(":")
            known = getattr(importlib.import_module(module), attribute)
        return member(known, rest)
    if first == "recert":
        return walked(recert, rest)
    if first in recert.__all__:
        return member(getattr(recert, first), rest)
    if (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").exists():
        return walked(importlib.import_module(f"recert.{first}"), rest)
    if not rest:
        if first in NOT_OURS or hasattr(builtins, first):
            return None
        owners = [recert.bounds, recert.Cache, recert.Certificates, importlib.import_module("recert.approximations")]
        for owner in owners:
            if hasattr(owner, first):
                return getattr(owner, first)
        raise LookupError("no public function has this name")
    try:
        return walked(importlib.import_module(first), rest)
    except ImportError:
        raise LookupError(f"{first} is neither a name of recert nor a package that is installed") from None


def walked(module: Any, rest: list[str]) -> Any:
    """Submodules are imported on the way."""
    thing, path = module, module.__name__
    for i, name in enumerate(rest):
        path = f"{path}.{name}"
        if inspect.ismodule(thing):
            if not hasattr(thing, name):
                try:
                    importlib.import_module(path)
                except ImportError as error:
                    raise LookupError(str(error)) from None
            thing = getattr(thing, name)
        else:
            return member(thing, rest[i:])
    return thing


def member(owner: Any, rest: list[str]) -> Any:
    """An attribute of a class, or of what its instances hold, as far as annotations say."""
    for i, name in enumerate(rest):
        fields = getattr(owner, "__annotations__", {})
        if dataclasses.is_dataclass(owner):
            fields = {field.name: field.type for field in dataclasses.fields(owner)} | fields
        if not hasattr(owner, name) and name not in fields and not is_set_in_init(owner, name):
            raise LookupError(f"{getattr(owner, '__name__', owner)} has no {name}")
        if i == len(rest) - 1:
            return getattr(owner, name, None)
        owner = next_owner(owner, name, fields.get(name))
        if owner is None:
            return None
    return owner


def next_owner(owner: Any, name: str, annotation: Any) -> Any:
    if inspect.isclass(annotation):
        return annotation
    value = inspect.getattr_static(owner, name, None)
    getter = getattr(value, "fget", None) or getattr(value, "func", None)
    returned = getattr(getter, "__annotations__", {}).get("return")
    return returned if inspect.isclass(returned) else None


def is_set_in_init(owner: Any, name: str) -> bool:
    return inspect.isclass(owner) and f"self.{name}" in inspect.getsource(owner)


def accepts(thing: Any, keyword: str) -> bool:
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return True
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@cache
def words() -> frozenset[str]:
    """Every word of the package, the studies, the benchmarks, the examples and the tools, and the names of their files."""
    files = [
        file
        for folder in ("src", "studies", "benchmarks", "examples", "tools")
        for file in (ROOT / folder).rglob("*.py")
    ]
    texts = [file.read_text(encoding="utf-8") for file in files]
    return frozenset({file.stem for file in files} | {word for text in texts for word in re.findall(r"\w+", text)})


def known_word(word: str) -> bool:
    return word in words()


def problems_of_python(block: str) -> Iterator[str]:
    """Names of `recert` in a program, what is imported from it, and the keywords of its functions."""
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recert":
            for alias in node.names:
                yield from problems_of_name(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Call) and (name := dotted(node.func)).startswith("recert."):
            yield from problems_of_name(name, [keyword.arg for keyword in node.keywords if keyword.arg])
        elif isinstance(node, ast.Attribute) and (name := dotted(node)).startswith("recert."):
            yield from problems_of_name(name)


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{before}.{node.attr}" if (before := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


# files


def is_file(span: str) -> bool:
    """Whether something is meant to be a file or folder of the repository."""
    if re.search(r"[\s<>*{}()=:…]|^\.|^-|^[A-Z]+\.", span) or span.endswith("..."):
        return False
    first, slash, _ = span.partition("/")
    ours = (PACKAGE / first).is_dir() or ((ROOT / first).is_dir() and first != "runs")
    return (
        bool(slash and ours)
        or bool(re.search(r"\.(py|md|ipynb|toml|txt|lock)$", span))
        or (bool(slash) and span.endswith("/"))
    )


def file_exists(span: str) -> bool:
    return any((folder / span).exists() for folder in (ROOT, PACKAGE, ROOT / "docs", ROOT / "benchmarks"))


# commands


def options_of(command: Any) -> set[str]:
    inner = getattr(command, "commands", {}).values()
    mine = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return mine.union({"--help"}, *(options_of(each) for each in inner))


@cache
def all_options() -> frozenset[str]:
    known = options_of(typer.main.get_command(app)) | options_of(typer.main.get_command(studies.__main__.app))
    for folder in ("benchmarks", "tests/mutants"):
        for file in (ROOT / folder).glob("*.py"):
            known |= set(re.findall(r"[\"'](--[a-z][\w-]*)[\"']", file.read_text(encoding="utf-8")))
    return frozenset(known)


def command_named(line: str) -> Any:
    """The command that a line calls: of recert, or of the studies; None if it is of neither."""
    if re.search(r"python -m studies\b", line):
        return typer.main.get_command(studies.__main__.app)
    called = re.search(r"(?:^|[\s;&])(?:recert|python -m recert)((?: [a-z]+)*)", line)
    command = typer.main.get_command(app)
    for word in called[1].split() if called else []:
        command = getattr(command, "commands", {}).get(word, command)
    return command if called and not hasattr(command, "commands") else None


def problems_of_commands(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("#SBATCH") or re.search(r"\b(pip|sbatch) ", line):
            continue
        for part in re.split(r"&&|;|\|(?!\w)", line):
            command = command_named(part)
            known = all_options() if command is None else options_of(command)
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", part.partition("  #")[0]):
                if option not in known:
                    yield f"no {'command' if command is None else command.name} has the option {option}"
        if (called := re.search(r"python ((?:benchmarks|docs|examples|studies)/\S+\.py)", line)) and not file_exists(
            called[1]
        ):
            yield f"there is no file {called[1]}"
        for target in re.findall(r"\bmake (\w+)", line):
            if re.match(r"\$ make |make ", line) and not re.search(
                rf"^{target}:", (ROOT / "Makefile").read_text(), re.M
            ):
                yield f"the Makefile has no target {target}"


# tests


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_that_is_named_exists(page: Path) -> None:
    assert problems(text_of(page)) == []


@pytest.mark.parametrize(
    "named",
    [
        "`recert.nonsense`", "`recert.bounds.nonsense_lower`", "`bounds.nonsense_lower`", "`recertification.irs._nonsense`",
        "`Cache.nonsense`", "`Stream.NONSENSE`", "`certify(nonsense=3)`", "`recert.certify(x, nonsense=...)`", "`nonsense(x)`",
        "`result.settings.nonsense`", "`nonsense_size`", "`nonsense_form=3`", "`bounds/_nonsense.py`", "`tests/nonsense/test_x.py`",
        "`nonsense.md`", "`docs/nonsense.md`", "`--nonsense`", "`recert certify --budgets`", "`python -m studies speedup --noise x`",
        "`python benchmarks/nonsense.py`", "`make nonsense`", "```console\n$ recert certify --method auto\n```\n",
        "```python\nimport recert\nrecert.certify(m, x, nonsense=3)\n```\n", "```python\nfrom recert.noise import Nonsense\n```\n",
        "`nonsense/`", "`Nonsense`", "`method=\"nonsense\"`", "`recert.Cache.nonsense`", "`elsewhere.name`",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_noticed(named: str) -> None:
    assert problems(f"Some text with {named} in it." if not named.startswith("```") else named) != []


@pytest.mark.parametrize(
    "named",
    [
        "`recert.bounds.series_lower`", "`bounds.series_lower`", "`recertification.irs.zeta_alpha`", "`Cache.certify`", "`Stream.SELECTION`",
        "`certify(family=3)`", "`recert.Cache.open(path)`", "`result.settings.error`", "`selection_samples`", "`looks=4`",
        "`bounds/_joint_chance.py`", "`tests/test_docs.py`", "`docs/theory.md`", "`--samples`", "`recert certify --samples 3`", "`planning/`",
        "`python -m studies speedup --full`", "`runs/digits`", "`torch.nn.Module`", "`Outcome.NO_MAJORITY`", "`make test`",
    ],
)  # fmt: skip
def test_what_exists_is_found(named: str) -> None:
    assert problems(f"Some text with {named} in it.") == []


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("page", "kind"), [("api.md", "api"), ("cli.md", "cli")])
def test_reference_pages_are_up_to_date(page: str, kind: str) -> None:
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == getattr(reference(), kind)()


def test_the_reference_has_every_public_name_in_a_group() -> None:
    groups = reference().GROUPS
    grouped = [name for names in groups.values() for name in names]
    assert len(grouped) == len(set(grouped))
    assert set(recert.__all__) - {"__version__"} <= set(grouped)
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(recert.__all__) - {"__version__"}:
        assert f"\n### `{name}`\n" in page or f"\n### `recert.{name}`\n" in page


def test_links_of_pages_at_the_root_lead_somewhere() -> None:
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
