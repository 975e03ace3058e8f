"""Packages that only onnxruntime's networks need, imported when these are asked for."""

import importlib
from typing import Any

from recert.errors import RecertError


def needed(module: str) -> Any:
    """A module of the `onnx` extra, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RecertError(
            f"this needs onnx, onnxscript and onnxruntime, and {module} could not be imported ({error}); "
            "install them with: pip install 'recert[onnx]'"
        ) from error
