"""Reading certificates back. A file may be from an untrusted source, so all of it is checked before it is used."""

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recert.certificates.certificates import COLUMNS, LABEL, SETTINGS, WITHOUT_FLIPS, Certificates
from recert.certificates.outcome import Outcome
from recert.certificates.settings import Settings, Together
from recert.certificates.stored_table import read_table
from recert.errors import NotAResult
from recert.models.numerics import Numerics

PROXY_COSTS = ("passes per input", "seconds")
"""What the votes of a proxy cost, where a certification by proxy states it: texts that are numbers."""
TEXTS = ("input", "outcome", "norm", "method")
BOUNDS = ("top_lower", "runner_up_upper")
FRACTIONS = ("radius", *BOUNDS, "alpha", "seconds")
_FRACTIONS_OR_NONE = (*FRACTIONS, WITHOUT_FLIPS)
"""Columns by what they hold; all others are whole numbers."""
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, pa.ArrowException)
"""What reading a damaged table raises."""


def read_certificates(path: str | os.PathLike[str]) -> Certificates:
    """Certificates or predictions from a Parquet file, with their settings, and with labels if the file has them."""
    where = Path(path)
    table = stored_table(where)
    try:
        return certificates_in(table, settings_in(table))
    except DAMAGE as error:
        raise damaged(where, error) from error


def stored_table(where: Path) -> pa.Table:
    """The table of a Parquet file that has settings of ours beside it; what they are is not looked at."""
    if not where.is_file():
        raise FileNotFoundError(f"expected a result file, got {str(where)!r}, which does not exist")
    try:
        table = read_table(where)
    except (pa.ArrowException, OSError) as error:
        raise not_a_result(where, "a file that is not Parquet") from error
    except ValueError as error:
        raise not_a_result(where, str(error)) from error
    if SETTINGS not in (table.schema.metadata or {}):
        raise not_a_result(where, "a table of something else")
    return table


def not_a_result(where: Path, got: str) -> NotAResult:
    """What was expected of a file, and what it is."""
    return NotAResult(
        f"expected a result that certify or recertify wrote with -o FILE.parquet, or a cache, got {got}: {where}"
        + (" (.csv and .tsv keep no settings; write .parquet)" if where.suffix in (".csv", ".tsv") else "")
    )


def damaged(where: Path, error: Exception) -> NotAResult:
    brief = " ".join(str(error).split())[:120]
    return not_a_result(where, f"one that is damaged or of another version ({brief})")


def settings_in(table: pa.Table) -> Settings:
    """The settings beside a table, each of the kind that it must be."""
    # Settings that a later version adds are passed over: they cannot be shown, but the rest can.
    known = {f.name for f in fields(Settings)}
    stored = {
        name: value for name, value in mapping(json.loads(table.schema.metadata[SETTINGS])).items() if name in known
    }
    together = stored.get("together")
    settings = Settings(
        **{**stored, "looks": tuple(stored.get("looks", ())), "planned": tuple(stored.get("planned", ())),
           "remarks": tuple(stored.get("remarks", ())), "at": tuple(stored.get("at", ())),
           "version": stored.get("version", ""),
           "same_models": tuple(str(each)[:300] for each in stored.get("same_models", ())),
           "numerics": _numerics(stored["numerics"]),
           "cache_numerics": None if stored.get("cache_numerics") is None else _numerics(stored["cache_numerics"]),
           "together": None if together is None else Together(**mapping(together))}
    )  # fmt: skip
    for name in ("method", "certificate", "noise", "plan", "version"):
        if not isinstance(getattr(settings, name), str):
            raise TypeError(f"{name} is not a text")
    if not all(isinstance(remark, str) for remark in settings.remarks):
        raise TypeError("a remark is not a text")
    together = settings.together
    counts = {name: getattr(settings, name) for name in ("seed", "samples", "selection_samples", "family", "claims")}
    optional = {"drawn": settings.drawn, "rows sent": settings.rows_sent}
    counts |= {name: count for name, count in optional.items() if count is not None}
    counts |= {"looks": together.looks, "models": together.models} if together else {}
    counts |= {f"size {i}": n for i, n in enumerate((*settings.looks, *settings.planned))}
    errors = {"alpha": settings.alpha, "error": settings.error}
    errors |= {name: value for name, value in vars(together).items() if name.endswith("error")} if together else {}
    # bool is a subclass of int in Python; "True samples" would pass without the first test.
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
            raise TypeError(f"{name} is not a whole number")
    errors |= {f"radius {i}": radius for i, radius in enumerate(settings.at)}
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


def _texts(value: Any) -> Mapping[str, str]:
    if not all(isinstance(text, str) for text in mapping(value).values()):
        raise TypeError("an identity is not a text")
    return mapping(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, or TypeError if it is no mapping."""
    if not isinstance(value, dict):
        raise TypeError(f"expected a mapping, got {type(value).__name__}")
    return value


def certificates_in(table: pa.Table, settings: Settings) -> Certificates:
    """The rows of a table, each column of the kind that it must be, with labels where there is a column of them."""
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        # Files of earlier versions do not have this column.
        missing = name == "nobody" and name not in table.column_names
        columns[name] = np.zeros(table.num_rows, dtype=np.int64) if missing else _column(table, name)
    # Only re-certifications have this column, and none of earlier versions.
    without = _column(table, WITHOUT_FLIPS) if WITHOUT_FLIPS in table.column_names else None
    result = Certificates(**columns, settings=settings, labels=integers_in(table, LABEL), radius_without_flips=without)
    _check(result)
    return result


def integers_in(table: pa.Table, name: str) -> NDArray[np.int64] | None:
    """A column of whole numbers, or None if there is none of this name."""
    return _column(table, name) if name in table.column_names else None


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    values = table[name].to_numpy()
    # Integers of any width become int64 and texts objects, as in certificates that were never stored. A null makes integers floats.
    fractions = name in _FRACTIONS_OR_NONE
    kind = object if name in TEXTS else np.float64 if fractions else np.int64
    if values.dtype.kind not in ("OU" if name in TEXTS else "fiu" if fractions else "iu"):
        raise ValueError(f"column {name} holds something that is not {'a text' if name in TEXTS else 'a number'}")
    if name in TEXTS and not all(isinstance(text, str) for text in values):
        raise ValueError(f"column {name} holds something that is not a text")
    column: NDArray[Any] = values.astype(kind)
    return column


def _check(result: Certificates) -> None:
    """Numbers must be finite, radii and passes not negative, and outcomes known."""
    for name in FRACTIONS:
        # Predictions have no bounds, which are NaN in them.
        if not np.isfinite(getattr(result, name)).all() and not (
            name in BOUNDS and result.settings.method == "predict"
        ):
            raise ValueError(f"column {name} holds something that is not a number")
    without = result.radius_without_flips
    if without is not None and ((without < 0) | np.isinf(without)).any():  # NaN is what is not known
        raise ValueError(f"column {WITHOUT_FLIPS} holds something that is not a radius")
    if (result.radius < 0).any() or (result.forward_passes < 0).any():
        raise ValueError("a radius or a number of forward passes is negative")
    for outcome in set(result.outcome):
        Outcome(outcome)  # raises ValueError for an unknown one
