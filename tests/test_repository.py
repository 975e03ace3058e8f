"""What other tools read of this repository: the workflow, the issue templates, the citation, the classifiers."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

yaml = pytest.importorskip("yaml")
classifiers = pytest.importorskip("trove_classifiers").classifiers

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_workflow_runs_the_tests_on_the_oldest_python_and_a_newer_one() -> None:
    job = read(".github/workflows/ci.yml")["jobs"]["test"]
    versions = sorted(map(Version, job["strategy"]["matrix"]["python"]))
    assert len(versions) >= 2
    assert str(versions[0]) == PROJECT["requires-python"].removeprefix(">=")
    assert all(version in SpecifierSet(PROJECT["requires-python"]) for version in versions)
    claimed = {c.rpartition(" :: ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    assert claimed == set(map(str, versions)), "a classifier is a claim: the workflow tests it"
    lock = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").partition("\n")[0]
    assert f"Python {versions[0]}," in lock


def test_the_workflow_calls_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [step["run"] for step in read(".github/workflows/ci.yml")["jobs"]["test"]["steps"] if "run" in step]
    assert any(command.startswith("make test") for command in commands)
    for command in commands:
        assert re.search(rf"^{command.split()[1]}:", makefile, re.M), command


def test_classifiers_are_known_ones() -> None:
    assert set(PROJECT["classifiers"]) <= set(classifiers)


def test_issue_templates_are_forms() -> None:
    forms = [path for path in TEMPLATES.glob("*.yml") if path.name != "config.yml"]
    assert len(forms) == 2
    for form in forms:
        content = read(f".github/ISSUE_TEMPLATE/{form.name}")
        assert {"name", "description", "body"} <= set(content)
        fields = [field for field in content["body"] if field["type"] != "markdown"]
        assert len({field["id"] for field in fields}) == len(fields)
        assert any(field.get("validations", {}).get("required") for field in fields)
        assert all(field["attributes"]["label"] for field in fields)
    assert isinstance(read(".github/ISSUE_TEMPLATE/config.yml")["blank_issues_enabled"], bool)


def test_the_citation_has_what_the_format_asks_for() -> None:
    citation = read("CITATION.cff")
    assert {"cff-version", "title", "message", "authors"} <= set(citation)
    assert citation["authors"] == [{"name": "The recert developers"}]
    assert citation["license"] == PROJECT["license"]
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert all(set(author) == {"family-names", "given-names"} for author in reference["authors"])
