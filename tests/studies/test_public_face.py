"""The studies stand outside the package: they use its public names only, and it neither needs nor ships them."""

import ast
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import recert

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "studies").glob("*.py"))
PUBLIC = {
    "recert", "recert.approximations", "recert.bounds", "recert.data", "recert.errors", "recert.figures", "recert.metrics",
    "recert.models",
}  # fmt: skip


def used(file: Path) -> Iterator[tuple[str, str]]:
    """Every use of `recert` in a file, as (module, name)."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "recert":
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "__name__") for alias in node.names if alias.name.split(".")[0] == "recert")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "recert":
            yield "recert", node.attr


def is_public(module: str, name: str) -> bool:
    """Whether a module is one of the public ones, and says that the name is for everyone."""
    if module not in PUBLIC or (name.startswith("_") and name != "__name__"):
        return False
    return name == "__name__" or name in getattr(importlib.import_module(module), "__all__", [name])


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.name)
def test_studies_use_public_names_only(file: Path) -> None:
    assert {(module, name) for module, name in used(file) if not is_public(module, name)} == set()


@pytest.mark.parametrize(
    "line",
    [
        "from recert.recertification.task import Task",
        "import recert.cache.directory",
        "from recert.bounds import _rounded",
        "import recert\nrecert.sampling.collect",
        "def f():\n    from recert.planning import Beliefs",
    ],
)
def test_private_names_are_noticed(line: str, tmp_path: Path) -> None:
    (tmp_path / "study.py").write_text(line)
    assert not all(is_public(module, name) for module, name in used(tmp_path / "study.py"))


def test_the_package_does_not_know_the_studies() -> None:
    for file in Path(recert.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.split(".")[0] == "studies" for name in names), file


def test_the_wheel_holds_the_package_alone() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    assert built == {"packages": ["src/recert"]}
    assert not (ROOT / "src" / "recert" / "studies").exists()
    assert (ROOT / "studies" / "__main__.py").exists()
