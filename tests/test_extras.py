"""Everything that needs an optional package says so in one form when the package is not there."""

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

import recert
from recert import Gaussian
from recert.approximations import Calibration, approximate
from recert.approximations.onnx_file import describe
from recert.approximations.twin.module import Twin
from recert.cache import signing
from recert.choosing.onnx_weights import nonzero_in_file, zeros_save
from recert.data import load_data
from recert.engines.cluster import Cluster
from recert.errors import MissingExtra, RecertError
from recert.extras import _command
from recert.models import load_model
from recert.models.onnx_export import to_onnxruntime
from recert.models.onnx_model import _EXTERNAL, OnnxModel
from tests.engines.networks import digits_network

IMAGES = np.zeros((2, 1, 8, 8), np.float32)


def with_side_file(folder: Path) -> Path:
    (folder / "g.onnx").write_bytes(_EXTERNAL)
    return folder / "g.onnx"


def with_image(folder: Path) -> str:
    (folder / "cat").mkdir()
    (folder / "cat" / "1.png").write_bytes(b"")
    return f"folder:{folder}"


def calibrated(spec: str) -> object:
    return approximate(digits_network(), spec, calibration=Calibration(IMAGES, Gaussian(0.5)))


NEEDS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "--engine ray": ("ray", "ray", lambda folder: Cluster()),
    "a key": ("cryptography", "sign", lambda folder: signing.create_key(folder / "key")),
    "a signature": ("cryptography", "sign", lambda folder: signing.check_signature(folder, folder / "key.pub")),
    "signing": ("cryptography", "sign", lambda folder: signing.sign(folder, folder / "key")),
    "digits": ("sklearn", "demo", lambda folder: load_data("digits")),
    "images": ("PIL", "vision", lambda folder: load_data(with_image(folder))),
    "data of torchvision": ("torchvision", "vision", lambda folder: load_data("torchvision:MNIST:data")),
    "a model of torchvision": ("torchvision", "vision", lambda folder: load_model("torchvision:resnet50")),
    "a model of timm": ("timm", "vision", lambda folder: load_model("timm:resnet50")),
    "a graph": ("onnxruntime", "onnx", lambda folder: OnnxModel(b"")),
    "a graph with a side file": ("onnx", "onnx", lambda folder: load_model(with_side_file(folder))),
    "onnxruntime": ("onnxruntime", "onnx", lambda folder: to_onnxruntime(digits_network(), IMAGES)),
    "an export": ("onnxscript", "onnx", lambda folder: to_onnxruntime(digits_network(), IMAGES)),
    "int8": ("onnxruntime", "onnx", lambda folder: calibrated("int8")),
    "int8-twin": ("onnx", "onnx", lambda folder: calibrated("int8-twin")),
    "a twin": ("onnx", "onnx", lambda folder: Twin(b"\0")),
    "what is quantised": ("onnx", "onnx", lambda folder: describe(b"")),
    "weights of a graph": ("onnx", "onnx", lambda folder: nonzero_in_file(b"")),
    "zeros of a graph": ("onnx", "onnx", lambda folder: zeros_save(b"")),
}


@pytest.mark.parametrize("what", NEEDS)
def test_what_is_missing_and_how_to_get_it(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra, call = NEEDS[what]
    for module in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)  # makes the import fail
    with pytest.raises(MissingExtra, match=rf"needs {package}, which .*; install it with: pip install .*\[{extra}\]'"):
        call(tmp_path)


def test_the_error_is_caught_as_ours_and_as_an_import_error() -> None:
    assert issubclass(MissingExtra, RecertError)
    assert issubclass(MissingExtra, ImportError)


HERE = Path(__file__).parent.parent
GIT = {"url": "https://example.org/recert.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'recert[onnx]'"),
        ({"url": HERE.as_uri(), "dir_info": {"editable": True}}, f"pip install -e '{HERE}[onnx]'"),
        ({"url": HERE.as_uri(), "dir_info": {}}, f"pip install '{HERE}[onnx]'"),
        ({"url": (HERE / "README.md").as_uri(), "archive_info": {}}, f"pip install '{HERE}/README.md[onnx]'"),
        ({"url": "file:///nowhere/a.whl", "archive_info": {}}, "pip install 'recert[onnx]'"),
        ({"url": "https://example.org/a.whl", "archive_info": {}}, "pip install 'recert[onnx] @ https://example.org/a.whl'"),
        (GIT, "pip install 'recert[onnx] @ git+https://example.org/recert.git@0a1b'"),
    ],
    ids=["an index", "a checkout, editable", "a checkout", "a file", "a file that is gone", "an address", "git"],
)  # fmt: skip
def test_the_command_is_for_where_recert_came_from(
    origin: dict[str, Any] | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _command("onnx", origin, checkout=tmp_path) == command


def test_in_its_checkout_the_command_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    assert _command("onnx", {"url": HERE.as_uri(), "dir_info": {}}, checkout=HERE) == "pip install '.[onnx]'"
    assert _command("onnx", None, checkout=HERE) == "pip install '.[onnx]'", "on the path, and not installed"


@pytest.mark.parametrize("name", ["a folder with spaces", "it's"])
def test_pip_understands_the_command(name: str, tmp_path: Path) -> None:
    """As a shell would read it: pip finds the extra of a project in a folder with any name."""
    project = tmp_path / name
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "recert"\nversion = "1"\n[project.optional-dependencies]\nonnx = ["numpy"]\n'
        "[tool.hatch.build.targets.wheel]\nbypass-selection = true\n"
    )
    _, _, *what = shlex.split(
        _command("onnx", {"url": project.as_uri(), "dir_info": {"editable": True}}, checkout=HERE)
    )
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-build-isolation", "--no-deps", *what]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "Would install recert-1" in found.stdout, found.stdout + found.stderr


def test_all_is_every_extra_and_the_demo_is_all_that_the_readme_shows() -> None:
    extras = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def named(extra: str) -> set[str]:
        own = [Requirement(each) for each in extras[extra]]
        return {extra}.union(*(named(inner) for each in own if each.name == "recert" for inner in each.extras))

    assert named("all") == set(extras) - {"dev", "docs"}
    assert named("demo") >= {"onnx", "pandas"}


@pytest.mark.parametrize("what", NEEDS)
def test_the_extras_exist(what: str) -> None:
    package, extra, _ = NEEDS[what]
    listed = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    (packages,) = re.findall(rf"^{extra} = \[(.*)\]$", listed, re.MULTILINE)
    brings = {"sklearn": "scikit-learn", "PIL": "torchvision"}  # under another name; as a dependency
    assert brings.get(package, package) in packages


# The command line prints every ImportError; the others are not moved to import_extra yet.
MAY_CATCH = {"extras.py", "cli/__init__.py", "cli/reproduce.py", "figures/style.py", "choosing/picture.py", "certificates/certificates.py"}  # fmt: skip


def test_no_other_module_catches_a_failed_import() -> None:
    package = Path(recert.__file__).parent
    catching = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "ImportError" in ast.unparse(node.type)
    }
    assert catching <= MAY_CATCH
