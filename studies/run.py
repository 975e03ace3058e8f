"""Runs a study cell by cell: what is there is not computed again, what was drawn is not drawn again."""

import importlib
import json
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

from recert.errors import ContextMismatch, MissingVotes
from studies.request import Cell, OutOfTime, Request
from studies.results import read_result, write_result

LARGEST_TAR = 15 * 2**20


def run(request: Request) -> bool:
    """Compute every cell that is not there yet. False if something is left: run the same again."""
    if request.study.module != "binomial":
        from studies.networks import resolved

        request = resolved(request)
    module = importlib.import_module(f"studies.{request.study.module}")
    cells: list[Cell | None] = [*request.cells] or [None]
    missing = []
    for number, cell in enumerate(cells, start=1):
        name = f"{request.study.name} {number}/{len(cells)}: {_name(cell)}"
        try:
            request.clock.check()
            request.log(f"{name}: {_cell(request, module, cell)}")
        except OutOfTime as error:
            request.log(f"{name}: {error}")
            return False
        except (MissingVotes, ContextMismatch) as error:
            request.log(f"{name}: left out: {error}")
            missing.append(name)
    return not missing


def _cell(request: Request, module: ModuleType, cell: Cell | None) -> str:
    """Compute one cell, and say what became of it."""
    folder = request.out / request.study.name
    file = folder / f"{_name(cell)}.json"
    wanted = json.loads(json.dumps(module.settings(request, cell)))
    if not request.draw_only and not request.again and file.exists() and read_result(file)["settings"] == wanted:
        return f"there already ({file})"
    result: dict[str, Any] | None = module.compute(request, cell)
    if result is None:
        return "votes drawn"
    return f"wrote {write_result(folder, _name(cell), result)}"


def _name(cell: Cell | None) -> str:
    return "all" if cell is None else cell.name


def pack(store: Path, file: Path) -> list[Path]:
    """All votes of a store in plain tars of about 15 MiB each, to be carried elsewhere (they are compressed already)."""
    files = sorted(path for path in store.glob("*/*") if path.suffix in (".parquet", ".json"))
    if not files:
        raise ValueError(f"expected votes in {store}, got none; draw some first")
    file.parent.mkdir(parents=True, exist_ok=True)
    groups: list[list[Path]] = [[]]
    for path in files:
        if groups[-1] and sum(_in_tar(other) for other in groups[-1]) + _in_tar(path) > LARGEST_TAR:
            groups.append([])
        groups[-1].append(path)
    tars = [file.with_stem(f"{file.stem}-{number}") for number in range(1, len(groups) + 1)]
    for tar, group in zip(tars, groups, strict=True):
        with tarfile.open(tar, "w") as archive:
            for path in group:
                archive.add(path, arcname=str(path.relative_to(store)))
    return tars


def _in_tar(path: Path) -> int:
    """Bytes that a file takes in a tar: its contents, a header, and what fills the last block."""
    return path.stat().st_size + 1536
