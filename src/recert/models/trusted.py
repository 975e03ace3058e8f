"""Whose code it is: torch's, of an installed package, or the user's own."""

import functools
import importlib.util
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

OURS = "recert"
MADE_BY_CODE = 1 << 9
"""The flag of classes that were made by a `class` statement, and of a few written in C (Py_TPFLAGS_HEAPTYPE)."""


def is_torchs(what: Any) -> bool:
    """Whether a class or function is torch's or Python's own: known by its name and by torch's version."""
    module = getattr(what, "__module__", None)
    if module == "builtins":  # so says code that was run by `exec` without a name, too
        return not (isinstance(what, type) and what.__flags__ & MADE_BY_CODE)
    if module == "types" and isinstance(what, type):  # so do classes that `dataclasses.make_dataclass` makes
        return is_found_by_name(what) or not what.__flags__ & MADE_BY_CODE
    return isinstance(module, str) and _comes_with_torch(module)


def _comes_with_torch(module: str) -> bool:
    root = module.partition(".")[0]
    return root == "torch" or _is_pythons(root)


def _is_pythons(root: str) -> bool:
    """Whether a module is Python's own. A file of the user's may have its name: `profile.py`, `code.py`, ..."""
    if root == "__main__" or root not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(root), "__file__", None)
    return file is None or _is_pythons_file(file)


@functools.cache
def _is_pythons_file(file: str) -> bool:
    """Python's own are beside `os`, wherever Python was moved to, or in a folder that it names."""
    places = {os.path.dirname(os.__file__), *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib"))}
    places |= {os.path.realpath(place) for place in places}
    return any(each.startswith(f"{place}{os.sep}") for place in places for each in (file, os.path.realpath(file)))


def is_installed(what: Any) -> bool:
    """Whether a module, class or function belongs to an installed package, to Python, or to this library."""
    if inspect.ismodule(what):  # asked for anything else, one may answer with code of its own
        return _comes_with_torch(what.__name__) or is_installed_name(what.__name__)
    name = getattr(what, "__module__", None)
    if name in ("builtins", "types") and isinstance(what, type):
        return is_torchs(what)
    return name is None or is_torchs(what) or is_installed_name(name)


def is_ours(kind: type) -> bool:
    """Whether a class is this library's."""
    return kind.__module__.partition(".")[0] == OURS


def packages_of(classes: Iterable[type]) -> list[str]:
    """Installed packages that classes come from, with their versions. torch's own is recorded apart."""
    roots = {each.__module__.partition(".")[0] for each in classes if is_installed(each) and not is_torchs(each)} - {
        OURS
    }
    return [f"{root} {_version(root)}" for root in sorted(roots)]


def _version(root: str) -> str:
    try:
        return version(root)
    except PackageNotFoundError:  # a distribution may have another name than its package
        return str(getattr(sys.modules.get(root), "__version__", "of an unknown version")).replace(",", ";")


def is_torchs_code(function: types.FunctionType) -> bool:
    """Whether a function was defined there. `functools.wraps` gives a function of the user's the names of torch's."""
    return _comes_with_torch(str(function.__globals__.get("__name__")))


def is_installed_code(function: types.FunctionType) -> bool:
    """Whether a function was defined in an installed package, or is torch's or this library's."""
    return is_torchs_code(function) or is_installed_name(str(function.__globals__.get("__name__")))


def is_installed_name(name: str) -> bool:
    """Whether the module of this name belongs to an installed package, to Python, or to this library."""
    root = name.partition(".")[0]
    if root == "__main__":
        return False
    if root == OURS or root in sys.builtin_module_names or _is_pythons(root):
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or _file_of(root)
    return file is not None and _is_installed_file(file)


@functools.cache
def _is_installed_file(file: str) -> bool:
    places = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib")}
    return any(file.startswith(f"{place}{os.sep}") for place in places) or any(
        f"{os.sep}{folder}{os.sep}" in file for folder in ("site-packages", "dist-packages")
    )


@functools.cache
def _file_of(root: str) -> str | None:
    """The file of a module that is not loaded."""
    spec = importlib.util.find_spec(root) if root and root not in sys.modules else None
    return spec.origin if spec is not None else None


def is_found_by_name(value: Any) -> bool:
    """Whether an object is where it says: wrappers in C take the names of what they wrap, and `numpy.frompyfunc` makes some."""
    parts = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", "")).split(".")
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in parts:
        found = getattr(found, part, None)
    return found is value


def constant_of_a_package(value: Any) -> str | None:
    """Under which name an object is a global of the installed package that its class is of, such as `scipy.stats.norm`."""
    root = type(value).__module__.partition(".")[0]
    if not is_installed_name(type(value).__module__):
        return None
    modules = [(name, module) for name, module in list(sys.modules.items()) if name.partition(".")[0] == root]
    names = [
        f"{module}.{name}"
        for module, contents in modules
        for name, each in list(getattr(contents, "__dict__", {}).items())
        if value is each
    ]
    return min(names, key=lambda name: (len(name), name), default=None)  # the same, whatever else is imported
