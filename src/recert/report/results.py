"""A result: certificates with what a reader needs beside them, and the file that holds it all."""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from recert.certificates import Certificates
from recert.certificates.certificates import COLUMNS, whole_table
from recert.storage import write_whole

Ints = NDArray[np.int64]
NOTES = b"recert.report"
BASELINES = ("scratch", "scratch-cached")
_ANEW = ("certify", "sequential", "predict")
"""Methods that need no votes of another model."""


@dataclass(frozen=True, eq=False)
class Result:
    """Certificates under a name, with the labels and positions of their inputs, and what is known of how they were made."""

    name: str
    certificates: Certificates
    labels: Ints | None = None
    positions: Ints | None = None
    command: str | None = None
    model: str | None = None
    """What people call the model, and what was changed in it."""
    data: str | None = None
    requirements: tuple[str, ...] = ()
    """What `--require` asked of it."""

    @property
    def is_baseline(self) -> bool:
        """Whether it shows what certifying without a cache costs."""
        return self.certificates.settings.method in BASELINES

    @property
    def is_original(self) -> bool:
        """Whether it certifies a model from votes of its own: changed models are compared with it."""
        return self.certificates.settings.method == "certify" and not self.is_proxied

    @property
    def is_changed(self) -> bool:
        """Whether it certifies a changed model from the votes of the original."""
        return self.certificates.settings.method not in (*BASELINES, *_ANEW) and not self.is_proxied

    @property
    def is_proxied(self) -> bool:
        """Whether a faster network drew most votes: its passes are not among those of the certificates."""
        return self.certificates.settings.proxy is not None

    def take(self, rows: Ints) -> "Result":
        """The same in another order of inputs."""
        labels, positions = (None if column is None else column[rows] for column in (self.labels, self.positions))
        # Not `Certificates.take`, which numbers rows anew and charges repeated rows nothing.
        c = self.certificates
        columns = {name: getattr(c, name)[rows] for name in COLUMNS}
        changed = replace(c, **columns, **{**c.optional(rows), "labels": labels})
        return replace(self, certificates=changed, labels=labels, positions=positions)


def write_result(result: Result, path: str | os.PathLike[str]) -> None:
    """Certificates as Parquet, with labels and positions as columns and the command in the metadata.

    The file's name is the result's name, and is stored only where it differs.
    """
    joined = result.certificates if result.labels is None else result.certificates.with_labels(result.labels)
    table = whole_table(joined)
    if result.positions is not None:
        table = table.append_column("position", pa.array(result.positions.tolist(), pa.int64()))
    notes = {
        "name": None if result.name == Path(path).stem else result.name, "command": result.command,
        "model": result.model, "data": result.data, "requirements": list(result.requirements),
    }  # fmt: skip
    metadata = {**table.schema.metadata, NOTES: json.dumps(notes).encode()}
    whole = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(metadata), whole)
    write_whole(path, whole.getvalue().to_pybytes())
