"""Certificates in columns, one row per input, with everything that a published number needs beside it."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from recert import metrics
from recert.certificates.certificate import Certificate
from recert.certificates.claims import Claims
from recert.certificates.html_table import certificates_as_html
from recert.certificates.outcome import Outcome
from recert.certificates.settings import Settings
from recert.extras import import_extra
from recert.noise import Noise
from recert.storage import write_whole

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Counts = Annotated[Ints, "0 where a method does not use it"]
SETTINGS = b"recert"
"""Where a table has the settings, among its schema's metadata."""
LABEL = "label"
"""The column of labels, where they were joined."""
WITHOUT_FLIPS = "radius_without_flips"
"""The column of radii had nothing flipped, where a re-certification knows them."""


@dataclass(frozen=True, repr=False)
class Certificates:
    """One row per input. Counts that a method does not use are 0.

    `certificates[i]` is a `Certificate`, and so is what iteration gives; a slice, a mask or a list of rows gives `Certificates`.
    """

    input: NDArray[Any]
    index: Ints
    outcome: NDArray[Any]
    prediction: Ints
    radius: Floats
    norm: NDArray[Any]
    top_lower: Floats
    runner_up_upper: Floats
    top_votes: Counts
    samples: Counts
    replayed: Counts
    kept: Counts
    lost: Counts
    gained: Counts
    method: NDArray[Any]
    alpha: Floats
    forward_passes: Counts
    seconds: Floats
    nobody: Counts
    """Invalid votes (votes for nobody) among these: samples whose logits were not finite."""
    settings: Settings = field(repr=False)
    labels: Ints | None = field(default=None, repr=False)
    """The true classes, where `with_labels` joined them. They are for tables and scores; no claim depends on them."""
    radius_without_flips: Floats | None = field(default=None, repr=False)
    """Of a re-certification: what the radius would be had no vote flipped. What it lacks of the original's is lost to too few samples,
    and what the radius lacks of it to the change. Fresh votes are compared with the cached share of votes. NaN where it is
    not known. Nothing is claimed by it."""
    decided: NDArray[np.bool_] | None = field(default=None, repr=False)
    """With `at`: which inputs are given no more votes, since all radii were shown, or the next is out of reach, or they had as many as
    they may. It is for `enough`, and in no file."""

    @classmethod
    def build(cls, digests: Sequence[str], claims: Claims, settings: Settings, noise: Noise, **columns: Any) -> Self:
        """Certificates from claims and other columns (arrays or numbers); counts and seconds that are not given are 0."""
        rows = len(digests)
        # Columns are listed once, as fields: those of the type Counts are filled here, so that a new count needs no line of code.
        counts: dict[str, Any] = {
            f.name: np.broadcast_to(np.asarray(columns.pop(f.name, 0), dtype=np.int64), rows)
            for f in fields(cls)
            if f.type is Counts
        }
        seconds, method = columns.pop("seconds", 0.0), columns.pop("method", settings.method)
        without_flips, decided = columns.pop("radius_without_flips", None), columns.pop("decided", None)
        if columns:
            raise TypeError(f"unknown columns: {', '.join(columns)}")
        return cls(
            input=np.array(digests, dtype=object), index=np.arange(rows), **vars(claims), settings=settings,
            norm=np.full(rows, noise.norm, dtype=object), alpha=np.full(rows, settings.alpha),
            method=np.broadcast_to(np.asarray(method, dtype=object), rows),
            seconds=np.broadcast_to(np.asarray(seconds, dtype=float), rows),
            radius_without_flips=without_flips, decided=decided, **counts,
        )  # fmt: skip

    def __repr__(self) -> str:
        word = "predicted" if self.settings.method == "predict" else "certified"
        share = f"{1 - self.abstention_rate:.1%} {word}" if len(self) else "none"
        line = f"<Certificates of {len(self)} inputs: {share}, {self.settings.method}, alpha {self.settings.alpha:g}; see to_pandas()>"
        return "\n".join((line, *self.remarks))

    def _repr_html_(self) -> str:
        return certificates_as_html(self)

    def __len__(self) -> int:
        return len(self.index)

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> Certificate: ...

    @overload
    def __getitem__(self, rows: slice | ArrayLike) -> Self: ...

    def __getitem__(self, rows: Any) -> Any:
        """One certificate, or those of a slice, a mask or a list of rows, numbered anew as by `take`."""
        places = np.arange(len(self))[rows]  # a place that is not there, or a mask of another length, raises IndexError
        return self.take(places) if places.ndim else self._one(int(places))

    def __iter__(self) -> Iterator[Certificate]:
        return map(self._one, range(len(self)))

    def _one(self, row: int) -> Certificate:
        names = [f.name for f in fields(Certificate) if f.name not in ("outcome", "explanation", LABEL)]
        outcome = Outcome(self.outcome[row])
        return Certificate(
            **{name: _plain(getattr(self, name)[row]) for name in names},
            outcome=outcome, explanation=_explain(outcome, int(self.nobody[row])),
            label=None if self.labels is None else int(self.labels[row]),
        )  # fmt: skip

    def with_labels(self, labels: ArrayLike) -> Self:
        """The same with the true classes joined, one for each row: files and tables then have a column `label`."""
        y = np.asarray(labels)
        if y.shape != self.index.shape or y.dtype.kind not in "iu":
            raise ValueError(f"expected {len(self)} labels, whole numbers, got {y.dtype} of shape {y.shape}")
        return replace(self, labels=y.astype(np.int64))

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Which inputs have a certificate; the others abstained, and `explanation` says why."""
        return np.asarray(self.outcome == Outcome.CERTIFIED, dtype=bool)

    @property
    def explanation(self) -> NDArray[Any]:
        """Why each input has its outcome."""
        return np.array(
            [_explain(Outcome(o), int(n)) for o, n in zip(self.outcome, self.nobody, strict=True)], dtype=object
        )

    @property
    def guarantee(self) -> str:
        """What holds, with which probability, in a sentence; and what must be added to it."""
        return self.settings.guarantee

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else there is to know of a whole re-certification, in sentences: where samples were the limit, what the plan left out."""
        return self.settings.remarks

    @property
    def mean_forward_passes(self) -> float:
        """Forward passes per input: what the certificates cost."""
        return float(self.forward_passes.mean())

    def average_certified_radius(self, labels: ArrayLike) -> float:
        """Mean radius, counting 0 where the prediction is wrong or abstained (ACR)."""
        return metrics.average_certified_radius(self.prediction, self.radius, labels)

    def certified_accuracy(self, labels: ArrayLike, at: ArrayLike) -> Any:
        """Share of inputs predicted right with a radius of at least `at`, a number or several."""
        return metrics.certified_accuracy(self.prediction, self.radius, labels, at)

    def smoothed_accuracy(self, labels: ArrayLike) -> float:
        """Share of inputs predicted right, whatever the radius; an abstention is not right."""
        return metrics.smoothed_accuracy(self.prediction, labels)

    @property
    def abstention_rate(self) -> float:
        """Share of inputs without a prediction."""
        return metrics.abstention_rate(self.prediction)

    def take(self, rows: ArrayLike) -> Self:
        """The given rows, in that order, numbered anew. What a row cost is charged once, however often it is taken."""
        chosen = np.asarray(rows, dtype=np.int64)
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        # All rows are repeats but the first of each, which `unique` names.
        repeated = np.ones(len(chosen), dtype=bool)
        repeated[np.unique(chosen, return_index=True)[1]] = False
        columns["index"] = np.arange(len(chosen))
        columns["forward_passes"] = np.where(repeated, 0, columns["forward_passes"])
        columns["seconds"] = np.where(repeated, 0.0, columns["seconds"])
        return replace(self, **columns, **self.optional(chosen))

    def optional(self, rows: Ints) -> dict[str, Any]:
        """Columns that not all certificates have, at these rows."""
        found = {name: getattr(self, name) for name in OPTIONAL}
        return {name: None if column is None else column[rows] for name, column in found.items()}

    def to_arrow(self) -> pa.Table:
        """An Arrow table; its schema metadata holds the settings."""
        columns = self._shown()
        # By way of Python values: columns of texts are object arrays, whose type arrow then finds by itself.
        table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
        return table.replace_schema_metadata({SETTINGS: json.dumps(self.settings.to_dict())})

    def _shown(self) -> dict[str, NDArray[Any]]:
        """The columns of a table, with the explanation beside the outcome. Votes for nobody are in the explanation."""
        names = [name for name in COLUMNS if name != "nobody"]
        names.insert(names.index("outcome") + 1, "explanation")
        shown = {name: getattr(self, name) for name in names}
        if self.radius_without_flips is not None:
            shown[WITHOUT_FLIPS] = self.radius_without_flips
        return shown | ({} if self.labels is None else {LABEL: self.labels})

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas data frame; `frame.attrs["recert"]` holds the settings."""
        pandas = import_extra("pandas", extra="pandas", purpose="to_pandas")
        frame: pd.DataFrame = pandas.DataFrame(self._shown())
        frame.attrs["recert"] = self.settings.to_dict()
        return frame

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file with the settings in its metadata, for `from_parquet` and for `recert report`."""
        whole = pa.BufferOutputStream()
        pq.write_table(whole_table(self), whole)
        write_whole(path, whole.getvalue().to_pybytes())

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str]) -> "Certificates":
        """Read back what `to_parquet` or `-o FILE.parquet` wrote, with all settings and with labels where the file has them.

        A file that is damaged, or is something else, is refused with `recert.errors.NotAResult`.
        """
        from recert.certificates.reading import read_certificates  # which needs this class

        return read_certificates(path)

    def to_csv(self, path: str | os.PathLike[str], labels: ArrayLike | None = None) -> None:
        """Write a CSV file, with a column `label` if labels are given or were joined; settings are not in it."""
        whole = pa.BufferOutputStream()
        pyarrow.csv.write_csv((self if labels is None else self.with_labels(labels)).to_arrow(), whole)
        write_whole(path, whole.getvalue().to_pybytes())

    def to_tsv(self, path: str | os.PathLike[str], labels: ArrayLike, *, idx: ArrayLike | None = None) -> None:
        """The field's log: idx, label, predict, radius, correct, time; radii at full precision."""
        y = np.asarray(labels)
        if y.shape != self.index.shape:
            raise ValueError(f"expected {len(self)} labels, got {y.shape}")
        names = self.index if idx is None else np.asarray(idx)
        lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime\n"]
        for i, label, predict, r, s in zip(names, y, self.prediction, self.radius, self.seconds, strict=True):
            lines.append(
                f"{i}\t{label}\t{predict}\t{float(r)!r}\t{int(predict == label)}\t{timedelta(seconds=float(s))}\n"
            )
        # No last line that says how many rows there are: readers of this format would take it for a row.
        write_whole(path, "".join(lines).encode())


OPTIONAL = ("labels", "radius_without_flips", "decided")
"""Fields with a value for each input, or None."""
COLUMNS = tuple(f.name for f in fields(Certificates) if f.name not in ("settings", *OPTIONAL))
"""Fields that always have a value for each input."""


def whole_table(certificates: Certificates) -> pa.Table:
    """All that is needed to read certificates back: their table with the votes for nobody as a column."""
    return certificates.to_arrow().append_column("nobody", pa.array(certificates.nobody.tolist(), pa.int64()))


def _plain(value: Any) -> Any:
    """A number of Python in place of one of numpy."""
    return value.item() if isinstance(value, np.generic) else value


def _explain(outcome: Outcome, nobody: int) -> str:
    # A reader who wonders why fewer votes count than were drawn finds the reason beside the outcome.
    note = f" {nobody} invalid votes: logits were not finite, and count for no class." if nobody else ""
    return outcome.explanation + note
