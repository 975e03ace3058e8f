"""Whose code it is: torch's, of an installed package, or the user's own."""

import functools
import importlib.util
import inspect
import sys
import sysconfig
import types
from typing import Any

OURS = "recert"


def is_torchs(what: Any) -> bool:
    """Whether a class or function is torch's or Python's own: known by its name and by torch's version."""
    return _comes_with_torch(getattr(what, "__module__", None) or "")


def _comes_with_torch(module: str) -> bool:
    root = module.partition(".")[0]
    return root == "torch" or root in sys.stdlib_module_names - {"__main__"}


def is_installed(what: Any) -> bool:
    """Whether a module, class or function belongs to an installed package, to Python, or to this library."""
    name = what.__name__ if inspect.ismodule(what) else getattr(what, "__module__", None)
    return name is None or is_torchs(what) or is_installed_name(name)


def is_torchs_code(function: types.FunctionType) -> bool:
    """Whether a function was defined there. `functools.wraps` gives a function of the user's the names of torch's."""
    return _comes_with_torch(str(function.__globals__.get("__name__")))


def is_installed_code(function: types.FunctionType) -> bool:
    """Whether a function was defined in an installed package, or is torch's or this library's."""
    return is_torchs_code(function) or is_installed_name(str(function.__globals__.get("__name__")))


@functools.cache
def is_installed_name(name: str) -> bool:
    """Whether the module of this name belongs to an installed package, to Python, or to this library."""
    root = name.partition(".")[0]
    if root == "__main__":
        return False
    if root == OURS or root in sys.stdlib_module_names or root in sys.builtin_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or _file_of(root)
    places = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib")}
    return file is not None and (
        any(file.startswith(f"{place}/") for place in places) or "site-packages" in file or "dist-packages" in file
    )


def _file_of(root: str) -> str | None:
    """The file of a module that is not loaded."""
    spec = importlib.util.find_spec(root) if root and root not in sys.modules else None
    return spec.origin if spec is not None else None


def is_constant_of_a_package(value: Any) -> bool:
    """Whether an object is a global of the installed package that its class is of, such as `scipy.stats.norm`."""
    root = type(value).__module__.partition(".")[0]
    if not is_installed_name(type(value).__module__):
        return False
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == root]
    return any(value is each for module in modules for each in list(getattr(module, "__dict__", {}).values()))
