"""Results on disk: one small JSON file for each cell of a study, numbers rounded to what is meaningful."""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

Result = dict[str, Any]


def write_result(folder: Path, name: str, result: Result) -> Path:
    """Put a result in place, or nothing of it: the file appears under its name when it is whole."""
    text = json.dumps(_rounded(result), indent=1, sort_keys=True)
    text = (
        re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"
    )  # lists of numbers on one line
    path = folder / f"{name}.json"
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    folder.mkdir(parents=True, exist_ok=True)
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
    return path


def read_results(folder: Path) -> list[Result]:
    """All results of a study, in the order of their names."""
    return [read_result(path) for path in sorted(folder.glob("*.json"))]


def read_result(path: Path) -> Result:
    try:
        result: Result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"expected a result in {path}, got {error}; delete it and run the study again") from None
    return result


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"expected finite numbers in a result, got {value}")
        return float(f"{value:.6g}")
    return value
