"""Reading results: certificates with the name, positions and command that stand beside them, and caches."""

import json
import os
from pathlib import Path

from recert.certificates.reading import (
    DAMAGE,
    certificates_in,
    damaged,
    integers_in,
    mapping,
    not_a_result,
    settings_in,
    stored_table,
)
from recert.errors import NotAResult as NotAResult
from recert.report.results import NOTES, Result
from recert.requirements import Requirement

MOST_REQUIREMENTS = 100


def read_result(path: str | os.PathLike[str]) -> Result:
    """Certificates from a Parquet file or from the folder of a cache."""
    where = Path(path)
    if where.is_dir():
        return _from_cache(where)
    table = stored_table(where)
    try:
        stored = table.schema.metadata.get(NOTES)
        settings, notes, requirements = settings_in(table), _notes(stored), _requirements(stored)
        # Before the rows are checked, since they are looked at as radii.
        if settings.method == "predict":
            raise not_a_result(where, "predictions, which have no radius")
        certificates, positions = certificates_in(table, settings), integers_in(table, "position")
    except DAMAGE as error:
        raise damaged(where, error) from error
    if not len(certificates):
        raise not_a_result(where, "one without a single input")
    about = {field: notes.get(field) for field in ("command", "model", "data")}
    # The name that it was given; else that of the model. Files of earlier versions have neither.
    name = notes.get("name") or notes.get("model") or where.stem
    return Result(name, certificates, certificates.labels, positions, **about, requirements=requirements)


def _from_cache(where: Path) -> Result:
    from recert.cache import Cache

    try:
        cache = Cache.open(where)
    except FileNotFoundError:
        raise not_a_result(where, "a folder that is no cache") from None
    return Result(where.name or str(where), cache.certificates, command=None)


def _requirements(data: bytes | None) -> tuple[str, ...]:
    texts = [] if data is None else mapping(json.loads(data)).get("requirements", [])
    if not isinstance(texts, list) or len(texts) > MOST_REQUIREMENTS:
        raise ValueError("requirements are not a list of a few texts")
    return tuple(Requirement.parse(text).text for text in texts)


def _notes(data: bytes | None) -> dict[str, str]:
    if data is None:
        return {}
    notes = {name: value for name, value in mapping(json.loads(data)).items() if isinstance(value, str)}
    # Names are also printed in terminals, where control characters could move the cursor or hide text.
    return {name: "".join(c if c.isprintable() else " " for c in value) for name, value in notes.items()}
