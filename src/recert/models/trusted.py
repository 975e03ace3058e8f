"""Whose code it is: torch's, of an installed package, or the user's own."""

import functools
import inspect
import sys
import sysconfig
from typing import Any

OURS = "recert"


def is_torchs(what: Any) -> bool:
    """Whether a class or function is torch's or Python's own: known by its name and by torch's version."""
    root = (getattr(what, "__module__", None) or "").partition(".")[0]
    return root in ("torch", "builtins", "typing") or root in sys.stdlib_module_names - {"__main__"}


def is_installed(what: Any) -> bool:
    """Whether a module, class or function belongs to an installed package, to Python, or to this library."""
    name = what.__name__ if inspect.ismodule(what) else getattr(what, "__module__", None)
    return name is None or is_torchs(what) or _installed(name)


@functools.cache
def _installed(name: str) -> bool:
    root = name.partition(".")[0]
    if root == "__main__":
        return False
    if root == OURS or root in sys.stdlib_module_names or root in sys.builtin_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None)
    places = {sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib")}
    return file is not None and (
        any(file.startswith(f"{place}/") for place in places) or "site-packages" in file or "dist-packages" in file
    )


def is_constant_of_a_package(value: Any) -> bool:
    """Whether an object is a global of the installed package that its class is of, such as `scipy.stats.norm`."""
    root = type(value).__module__.partition(".")[0]
    if not _installed(type(value).__module__):
        return False
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == root]
    return any(value is each for module in modules for each in list(getattr(module, "__dict__", {}).values()))
