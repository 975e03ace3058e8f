"""Packages, the direction of their imports, and the rules of the architecture, checked by reading the source."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import recert
from recert.noise import available_noises

PACKAGE = Path(recert.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def imported(file: Path, *, lazily: bool = True) -> set[str]:
    """Modules that a file imports: anywhere in it, or only when it is itself imported."""
    tree = parsed(file)
    nodes = ast.walk(tree) if lazily else iter(tree.body)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def package(file: Path) -> str:
    """The package of a file, or the module itself at the top level."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def named(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


PURE = {"bounds", "metrics", "planning", "votes"}
NO_TORCH = PURE | {"certificates", "cache", "errors", "figures", "report", "storage"}
ALLOWED = {
    "errors": set(), "interrupts": set(), "extras": {"errors"}, "registration": set(), "units": set(), "version": set(), "votes": set(), "storage": {"errors"}, "metrics": set(), "compiled": set(), "parquet_pages": set(), "requirements": {"certificates"},
    "bounds": {"compiled"}, "noise": {"compiled", "registration"},
    "models": {"errors", "extras", "registration"},
    "certificates": {"bounds", "errors", "extras", "metrics", "models", "noise", "parquet_pages", "storage", "version"},
    "cache": {"certificates", "errors", "extras", "interrupts", "models", "noise", "parquet_pages", "storage", "votes"},
    "sampling": {"errors", "models", "noise", "votes"},
    "caching": {"cache", "errors", "models", "sampling", "spot_check"},
    "keeping": {"cache", "caching", "errors", "sampling"},
    "engines": {"registration", "units", "errors", "extras", "models", "noise", "sampling", "votes"},
    "planning": {"bounds", "noise", "votes"},
    "progress": {"sampling"},
    "billing": {"cache", "certification", "noise", "sampling", "spot_check"},
    "spot_check": {"cache", "errors", "models", "noise", "sampling"},
    "sequential": {"bounds", "certificates", "errors", "noise", "sampling", "votes"},
    "certification": {"engines", "bounds", "cache", "caching", "certificates", "models", "noise", "planning", "progress", "sampling", "sequential", "spot_check", "votes"},
    "proxy": {
        "engines", "approximations", "cache", "certificates", "certification", "keeping", "models", "noise", "recertification", "sampling",
    },
    "recertification": {
        "compiled", "registration", "engines", "bounds", "cache", "certificates", "certification", "errors", "keeping", "models", "noise", "planning", "progress", "sampling", "sequential", "votes",
    },
    "auditing": {"engines", "bounds", "cache", "certificates", "noise", "progress", "sampling"},
    "comparison": {"engines", "cache", "caching", "certificates", "certification", "keeping", "metrics", "models", "progress", "recertification", "sampling"},
    "gain": {"cache", "noise", "planning", "recertification", "votes"},
    "choosing": {
        "engines", "bounds", "cache", "caching", "certificates", "certification", "extras", "keeping", "models", "noise", "planning", "progress", "recertification", "sampling",
    },
    "bundles": {
        "approximations", "auditing", "bounds", "cache", "caching", "certificates", "certification", "choosing", "engines", "errors", "keeping", "models", "noise",
        "planning", "recertification", "report", "sampling", "sequential", "storage", "version", "votes",
    },
    "smoothed": {"bounds", "certificates", "certification", "noise", "sampling"},
    "approximations": {"registration", "units", "errors", "models", "noise", "sampling", "storage", "version"},
    "data": {"errors", "extras", "models"},
    "figures": {"choosing", "storage"},
    "report": {"bounds", "cache", "certificates", "data", "errors", "figures", "models", "noise", "requirements", "storage", "version"},
    "training": {"bounds", "data", "errors", "models", "noise", "sampling", "storage", "units", "version"},
}  # fmt: skip


@pytest.mark.parametrize("file", [f for f in FILES if package(f) in ALLOWED], ids=named)
def test_packages_import_only_those_before_them(file: Path) -> None:
    packages = {name.split(".")[1] for name in imported(file) if name.startswith("recert.")}
    assert packages - ALLOWED[package(file)] - {package(file)} == set()


@pytest.mark.parametrize("file", [f for f in FILES if package(f) in NO_TORCH], ids=named)
def test_packages_without_torch(file: Path) -> None:
    assert not any(name.split(".")[0] == "torch" for name in imported(file))


def test_reading_a_cache_does_not_load_torch() -> None:
    program = "import sys, recert; recert.Cache, recert.metrics, recert.Gaussian; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_no_certificate_uses_an_approximate_interval() -> None:
    users = [f.name for f in FILES if "wilson" in f.read_text() or "agresti" in f.read_text()]
    assert set(users) <= {"approximate.py", "sample_size.py", "__init__.py", "binomial.py"}
    assert not any("bounds.approximate" in name for f in FILES if package(f) != "bounds" for name in imported(f))


def test_labels_are_unknown_before_metrics() -> None:
    """No function of the packages that make claims takes labels."""
    for file in (
        f
        for f in FILES
        if package(f) in ("sampling", "cache", "bounds", "sequential", "certification", "recertification")
    ):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.arg):
                assert node.arg not in ("labels", "y_true", "targets"), f"{file}:{node.lineno}"


def test_engines_know_no_caches_and_no_certificates() -> None:
    known = {name for file in FILES if package(file) == "engines" for name in imported(file)}
    assert not any(name.startswith(("recert.cache", "recert.caching", "recert.certificates")) for name in known)


CALLING = {"sampling", "models", "approximations", "training"}
"""Sampling draws votes. The others do not: a wrapper is itself a model, and approximations and training make models."""
MODELS = {"model", "network", "net", "module", "modified", "original", "proxy", "forward", "uncompiled"}
"""What models are called in the package."""


def test_only_sampling_calls_a_model() -> None:
    """Votes are then drawn in one way only: checked, in padded batches, on noise of their own."""
    files = [file for file in FILES if package(file) not in CALLING]
    assert [f"{named(file)}:{line}" for file in files for name, line in called(file) if name in MODELS] == []


def called(file: Path) -> Iterator[tuple[str, int]]:
    """Names of what a file calls, without what they are attributes of, and lines."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name):
                yield function.id, node.lineno
            elif isinstance(function, ast.Attribute):
                yield function.attr, node.lineno


FILES_OF_A_CACHE = ("_manifest", "_look-", "_batches", "part-")
"""How the names of all files of a cache begin."""


def test_only_the_cache_touches_its_files() -> None:
    """No other module names them, or uses what reads and writes them; training has checkpoints of its own. Others may write a file."""
    for file in (f for f in FILES if package(f) not in ("cache", "storage")):
        strings = [node.value for node in ast.walk(parsed(file)) if isinstance(node, ast.Constant)]
        used = imported(file)
        assert not any(isinstance(text, str) and text.startswith(FILES_OF_A_CACHE) for text in strings), named(file)
        stored = {name for name in used if name.startswith("recert.storage")} - {"recert.storage.write_whole"}
        assert stored <= {"recert.storage"} or package(file) == "training", named(file)
        assert not used & {"recert.cache.manifest.MANIFEST", "recert.cache.parts.encode", "recert.cache.parts.decode"}


GAUSSIAN = {
    "__init__.py": "the public face",
    "cli/catalogue.py": "lists the noise scales that weights are shipped for",
    "cli/demo.py": "the noise of the demonstration",
    "models/registry.py": "shipped networks are known by the scale that they were trained with",
}
"""Modules outside of noise/ and training/ that may name Gaussian noise or its scale, and why."""


def test_only_noise_knows_a_family() -> None:
    """Another family of noise is then a file in noise/, and nothing else changes."""
    for file in (f for f in FILES if package(f) not in ("noise", "training")):
        found = {name for name in identifiers(file) if {"gaussian", "sigma", "sigmas"} & set(name.lower().split("_"))}
        found -= {"_sub_gaussian"}  # a term of probability: tails that are no heavier than a normal one's
        assert bool(found) == (named(file) in GAUSSIAN), (named(file), found)


def identifiers(file: Path) -> Iterator[str]:
    """Names that a file uses, defines, imports, or gives to arguments; texts are not among them."""
    for node in ast.walk(parsed(file)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield from name.split(".")
                yield other or name


GLOBAL_SETTINGS = {"rcParams", "rcdefaults", "rc", "rc_file", "rc_file_defaults", "rcParamsDefault"}


def test_matplotlib_is_left_as_it_was() -> None:
    """No module chooses a backend, and settings change only inside of a context that restores them."""
    for file in FILES:
        assert not any(name.startswith("matplotlib.pyplot") for name in imported(file)), named(
            file
        )  # which chooses one
        tree = parsed(file)
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        assert not any(ast.unparse(node) == "matplotlib.use" or node.attr == "switch_backend" for node in attributes)
        restored = {id(node) for block in ast.walk(tree) if _restores_settings(block) for node in ast.walk(block)}
        changed = [node for node in attributes if node.attr in GLOBAL_SETTINGS]
        assert [node.lineno for node in changed if id(node) not in restored] == [], named(file)


def _restores_settings(block: ast.AST) -> bool:
    return isinstance(block, ast.With) and any("rc_context" in ast.unparse(item) for item in block.items)


def test_public_names_exist() -> None:
    for name in recert.__all__:
        assert getattr(recert, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = recert.nonsense


class WithoutDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


def test_only_the_files_of_the_recipe_know_a_family_of_noise() -> None:
    """A new family touches what CONTRIBUTING says and nothing else: certifying, planning, storing and showing ask the noise itself."""
    recipe = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text().partition("A noise of the package touches:")[2]
    named_there = set(re.findall(r"`(?:src/recert/)?([a-z_/]+\.py)`", recipe.partition("\n\n")[0]))
    families = re.compile(r"\b(Laplace|Splitting|Uniform)\b|\b(laplace|splitting):", re.ASCII)
    for file in FILES:
        of_a_family = file.stem in available_noises() and file.parent.name == "noise"
        if named(file) in named_there or of_a_family:
            continue
        found = families.search(ast.unparse(WithoutDocstrings().visit(ast.parse(file.read_text()))))
        assert not found, f"{named(file)} knows {found[0]}"
