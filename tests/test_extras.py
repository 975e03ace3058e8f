"""Everything that needs an optional package says so in one form when the package is not there."""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

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
    with pytest.raises(
        MissingExtra, match=rf"needs {package}, which .*; install it with: pip install 'recert\[{extra}\]'"
    ):
        call(tmp_path)


def test_the_error_is_caught_as_ours_and_as_an_import_error() -> None:
    assert issubclass(MissingExtra, RecertError)
    assert issubclass(MissingExtra, ImportError)


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
