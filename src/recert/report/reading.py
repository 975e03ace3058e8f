"""Reading results. A file may be from an untrusted source, so all that a page shows of it is checked first."""

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from recert.certificates import Certificates, Outcome, Settings, Together
from recert.certificates.stored_table import read_table
from recert.errors import RecertError
from recert.models.numerics import Numerics
from recert.report.results import NOTES, PROXY_COSTS, Ints, Result


class NotAResult(RecertError):
    """The file does not hold certificates: give what certify or recertify wrote with -o FILE.parquet, or a cache."""


def read_result(path: str | os.PathLike[str]) -> Result:
    """Certificates from a Parquet file or from the folder of a cache."""
    where = Path(path)
    if where.is_dir():
        return _from_cache(where)
    if not where.is_file():
        raise FileNotFoundError(f"expected a result file, got {str(where)!r}, which does not exist")
    try:
        table = read_table(where)
    except (pa.ArrowException, OSError) as error:
        raise NotAResult(_refusal(where, "a file that is not Parquet")) from error
    except ValueError as error:
        raise NotAResult(_refusal(where, str(error))) from error
    metadata = table.schema.metadata or {}
    if b"recert" not in metadata:
        raise NotAResult(_refusal(where, "a table of something else"))
    try:
        settings, notes = _settings(metadata[b"recert"]), _notes(metadata.get(NOTES))
        # Before the rows are checked: predictions lack the bounds, and would be reported as damaged.
        if settings.method == "predict":
            raise NotAResult(_refusal(where, "predictions, which have no radius"))
        certificates = _certificates(table, settings)
        labels, positions = (_integers(table, name) for name in ("label", "position"))
    except (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException) as error:
        raise NotAResult(_refusal(where, f"one that is damaged or of another version ({_brief(error)})")) from error
    if not len(certificates):
        raise NotAResult(_refusal(where, "one without a single input"))
    return Result(notes.get("name") or where.stem, certificates, labels, positions, notes.get("command"))


def _from_cache(where: Path) -> Result:
    from recert.cache import Cache

    try:
        cache = Cache.open(where)
    except FileNotFoundError:
        raise NotAResult(_refusal(where, "a folder that is no cache")) from None
    return Result(where.name or str(where), cache.certificates, command=None)


def _refusal(where: Path, got: str) -> str:
    return (
        f"expected a result that certify or recertify wrote with -o FILE.parquet, or a cache, got {got}: {where}"
        + (" (.csv and .tsv keep no settings; write .parquet)" if where.suffix in (".csv", ".tsv") else "")
    )  # fmt: skip


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def _settings(data: bytes) -> Settings:
    # Settings that a later version adds are passed over: they cannot be shown, but the rest can.
    known = {f.name for f in fields(Settings)}
    stored = {name: value for name, value in _mapping(json.loads(data)).items() if name in known}
    together = stored.get("together")
    settings = Settings(
        **{**stored, "looks": tuple(stored.get("looks", ())), "planned": tuple(stored.get("planned", ())),
           "numerics": _numerics(stored["numerics"]),
           "cache_numerics": None if stored.get("cache_numerics") is None else _numerics(stored["cache_numerics"]),
           "together": None if together is None else Together(**_mapping(together))}
    )  # fmt: skip
    for name in ("method", "certificate", "noise"):
        if not isinstance(getattr(settings, name), str):
            raise TypeError(f"{name} is not a text")
    together = settings.together
    counts = {name: getattr(settings, name) for name in ("seed", "samples", "selection_samples", "family", "claims")}
    counts |= {} if settings.drawn is None else {"drawn": settings.drawn}
    counts |= {"looks": together.looks, "models": together.models} if together else {}
    counts |= {f"size {i}": n for i, n in enumerate((*settings.looks, *settings.planned))}
    errors = {"alpha": settings.alpha, "error": settings.error}
    errors |= {name: value for name, value in vars(together).items() if name.endswith("error")} if together else {}
    # bool is a subclass of int in Python; "True samples" would pass without the first test.
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
            raise TypeError(f"{name} is not a whole number")
    for name, value in errors.items():
        # Errors are sums of alphas and may exceed 1. NaN fails the comparison, and infinity the limit.
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
            raise TypeError(f"{name} is not a number")
    proxy = {} if settings.proxy is None else settings.proxy
    for identity in (settings.model, proxy):
        _texts(identity)
    if settings.proxy is not None and "made by" not in proxy:
        raise ValueError("the proxy is not named")
    for name in PROXY_COSTS:
        if not np.isfinite(float(proxy.get(name, 0))):
            raise ValueError(f"{name} of the proxy is not a number")
    return settings


def _numerics(value: Any) -> Numerics:
    return Numerics.from_text(_texts(value))


def _notes(data: bytes | None) -> dict[str, str]:
    if data is None:
        return {}
    notes = {name: value for name, value in _mapping(json.loads(data)).items() if isinstance(value, str)}
    # Names are also printed in terminals, where control characters could move the cursor or hide text.
    return {name: "".join(c if c.isprintable() else " " for c in value) for name, value in notes.items()}


def _texts(value: Any) -> Mapping[str, str]:
    if not all(isinstance(text, str) for text in _mapping(value).values()):
        raise TypeError("an identity is not a text")
    return _mapping(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected a mapping, got {type(value).__name__}")
    return value


def _certificates(table: pa.Table, settings: Settings) -> Certificates:
    columns: dict[str, Any] = {}
    for f in fields(Certificates):
        if f.name == "settings" or (f.name == "nobody" and "nobody" not in table.column_names):
            continue
        values = table[f.name].to_numpy()
        # Integers of any width become int64 and texts objects, as in certificates that were never stored.
        kind = {"O": object, "U": object}.get(values.dtype.kind) or (float if values.dtype.kind == "f" else np.int64)
        columns[f.name] = values.astype(kind)
    # Files of earlier versions do not have this column.
    columns.setdefault("nobody", np.zeros(table.num_rows, dtype=np.int64))
    result = Certificates(**columns, settings=settings)
    _check(result)
    return result


def _check(result: Certificates) -> None:
    """Numbers that are drawn must be numbers, and outcomes must be known."""
    for name in (
        "radius",
        "top_lower",
        "runner_up_upper",
        "forward_passes",
        "replayed",
        "lost",
        "gained",
        "prediction",
    ):
        column = getattr(result, name)
        if column.dtype == object or not np.isfinite(column).all():
            raise ValueError(f"column {name} holds something that is not a number")
    if (result.radius < 0).any() or (result.forward_passes < 0).any():
        raise ValueError("a radius or a number of forward passes is negative")
    for outcome in set(result.outcome):
        Outcome(outcome)  # raises ValueError for an unknown one


def _integers(table: pa.Table, name: str) -> Ints | None:
    return table[name].to_numpy().astype(np.int64) if name in table.column_names else None
