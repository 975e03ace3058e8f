"""Certificates in columns, one row per input, with everything that a published number needs beside it."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from recert import metrics
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


@dataclass(frozen=True, repr=False)
class Certificates:
    """One row per input. Counts that a method does not use are 0."""

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
        if columns:
            raise TypeError(f"unknown columns: {', '.join(columns)}")
        return cls(
            input=np.array(digests, dtype=object), index=np.arange(rows), **vars(claims), settings=settings,
            norm=np.full(rows, noise.norm, dtype=object), alpha=np.full(rows, settings.alpha),
            method=np.broadcast_to(np.asarray(method, dtype=object), rows),
            seconds=np.broadcast_to(np.asarray(seconds, dtype=float), rows),
            **counts,
        )  # fmt: skip

    def __repr__(self) -> str:
        share = f"{self.certified.mean():.1%} certified" if len(self) else "none"
        return f"<Certificates of {len(self)} inputs: {share}, {self.settings.method}, alpha {self.settings.alpha:g}; see to_pandas()>"

    def _repr_html_(self) -> str:
        return certificates_as_html(self)

    def __len__(self) -> int:
        return len(self.index)

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
        columns = {f.name: getattr(self, f.name)[chosen] for f in fields(self) if f.name != "settings"}
        # All rows are repeats but the first of each, which `unique` names.
        repeated = np.ones(len(chosen), dtype=bool)
        repeated[np.unique(chosen, return_index=True)[1]] = False
        columns["index"] = np.arange(len(chosen))
        columns["forward_passes"] = np.where(repeated, 0, columns["forward_passes"])
        columns["seconds"] = np.where(repeated, 0.0, columns["seconds"])
        return replace(self, **columns)

    def to_arrow(self) -> pa.Table:
        """An Arrow table; its schema metadata holds the settings."""
        columns = {name: getattr(self, name) for name in _columns()}
        # By way of Python values: columns of texts are object arrays, whose type arrow then finds by itself.
        table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
        return table.replace_schema_metadata({"recert": json.dumps(self.settings.to_dict())})

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas data frame; `frame.attrs["recert"]` holds the settings."""
        pandas = import_extra("pandas", extra="pandas", purpose="to_pandas")
        frame: pd.DataFrame = pandas.DataFrame({name: getattr(self, name) for name in _columns()})
        frame.attrs["recert"] = self.settings.to_dict()
        return frame

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file with the settings in its metadata; `recert report` reads what `-o FILE.parquet` wrote."""
        whole = pa.BufferOutputStream()
        pq.write_table(self.to_arrow(), whole)
        write_whole(path, whole.getvalue().to_pybytes())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV file; settings are not in it."""
        whole = pa.BufferOutputStream()
        pyarrow.csv.write_csv(self.to_arrow(), whole)
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


def _columns() -> list[str]:
    """Columns of a table: the fields, with the explanation beside the outcome. Votes for nobody are in the explanation."""
    names = [f.name for f in fields(Certificates) if f.name not in ("settings", "nobody")]
    names.insert(names.index("outcome") + 1, "explanation")
    return names


def _explain(outcome: Outcome, nobody: int) -> str:
    # A reader who wonders why fewer votes count than were drawn finds the reason beside the outcome.
    note = f" {nobody} samples had logits that were not finite; they voted for nobody." if nobody else ""
    return outcome.explanation + note
