"""The rooms and the direction of imports, kept by reading the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import recert

PACKAGE = Path(recert.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(file: Path, *, lazily: bool = True) -> set[str]:
    """Modules that a file imports: anywhere in it, or only when it is itself imported."""
    tree = ast.parse(file.read_text())
    nodes = ast.walk(tree) if lazily else iter(tree.body)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def room(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


PURE = {"bounds", "metrics", "planning", "votes"}
NO_TORCH = PURE | {"certificates", "cache", "errors", "figures", "report", "storage"}
ALLOWED = {
    "errors": set(), "extras": {"errors"}, "registration": set(), "version": set(), "votes": set(), "storage": {"errors"}, "metrics": set(), "compiled": set(),
    "bounds": {"compiled"}, "noise": {"compiled", "registration"},
    "models": {"errors", "extras", "noise"},
    "certificates": {"bounds", "extras", "metrics", "models", "noise"},
    "cache": {"certificates", "errors", "extras", "models", "noise", "storage", "votes"},
    "sampling": {"errors", "models", "noise", "votes"},
    "caching": {"cache", "errors", "models", "noise", "sampling", "votes"},
    "engines": {"registration", "errors", "extras", "models", "noise", "sampling", "votes"},
    "planning": {"bounds", "noise", "votes"},
    "certification": {"engines", "bounds", "cache", "certificates", "noise", "sampling"},
    "proxy": {
        "engines", "approximations", "cache", "certificates", "certification", "models", "noise", "recertification", "sampling",
    },
    "recertification": {
        "registration", "engines", "bounds", "cache", "certificates", "certification", "errors", "models", "noise", "planning", "sampling", "votes",
    },
    "auditing": {"engines", "bounds", "cache", "certificates", "noise", "sampling"},
    "comparison": {"engines", "cache", "caching", "certificates", "certification", "metrics", "recertification", "sampling"},
    "choosing": {
        "engines", "bounds", "cache", "caching", "certificates", "certification", "extras", "models", "noise", "planning", "recertification", "sampling",
    },
    "approximations": {"registration", "errors", "models", "noise", "sampling"},
    "data": {"errors", "extras", "models"},
    "figures": {"choosing"},
    "report": {"bounds", "cache", "certificates", "data", "errors", "figures", "models", "noise", "version"},
    "training": {"data", "errors", "models", "noise", "storage", "version"},
}  # fmt: skip


@pytest.mark.parametrize("file", [f for f in FILES if room(f) in ALLOWED], ids=lambda f: str(f.relative_to(PACKAGE)))
def test_rooms_import_only_what_lies_before_them(file: Path) -> None:
    rooms = {name.split(".")[1] for name in imported(file) if name.startswith("recert.")}
    assert rooms - ALLOWED[room(file)] - {room(file)} == set()


@pytest.mark.parametrize("file", [f for f in FILES if room(f) in NO_TORCH], ids=lambda f: str(f.relative_to(PACKAGE)))
def test_rooms_without_torch(file: Path) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imported(file))


def test_reading_a_cache_does_not_load_torch() -> None:
    program = "import sys, recert; recert.Cache, recert.metrics, recert.Gaussian; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_no_certificate_uses_an_approximate_interval() -> None:
    users = [f.name for f in FILES if "wilson" in f.read_text() or "agresti" in f.read_text()]
    assert set(users) <= {"approximate.py", "sample_size.py", "__init__.py", "binomial.py"}
    assert not any("bounds.approximate" in name for f in FILES if room(f) != "bounds" for name in imported(f))


def test_labels_are_unknown_before_metrics() -> None:
    """No function of the rooms that make claims takes labels."""
    for file in (f for f in FILES if room(f) in ("sampling", "cache", "bounds", "certification", "recertification")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.arg):
                assert node.arg not in ("labels", "y_true", "targets"), f"{file}:{node.lineno}"


def test_public_names_exist() -> None:
    for name in recert.__all__:
        assert getattr(recert, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = recert.nonsense
