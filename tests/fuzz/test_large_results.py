"""Result files that would take all memory: a few bytes may stand for millions of rows, or for one text in every row."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recert
from recert.certificates import Outcome, stored_table
from recert.report.reading import NotAResult, read_result

VOTES = recert.StoredVotes(np.zeros((3, 400), dtype=int), selection=np.zeros((3, 100), dtype=int), classes=2)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    path = tmp_path_factory.mktemp("results") / "three.parquet"
    made = recert.certify(VOTES, None, noise=recert.Gaussian(0.5), samples=400, selection_samples=100)
    made.certificates.to_parquet(path)
    return pq.read_table(path, partitioning=None)


def many_rows(table: pa.Table) -> pa.Table:
    """One number, so often that 32 bytes hold a column of 16 MiB."""
    rows = pa.table({"radius": np.zeros(stored_table.ROWS + 1)})
    return rows.replace_schema_metadata(table.schema.metadata)


def many_values_in_a_row(table: pa.Table) -> pa.Table:
    count = 2 * stored_table.ROWS + 1
    lists = pa.LargeListArray.from_arrays([0, count, count, count], np.zeros(count))
    return table.append_column("more", lists)


def one_long_text_in_every_row(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("norm")
    return table.set_column(place, "norm", pa.array(["l2" * 1_000] * len(table)).dictionary_encode().cast(pa.string()))


HOSTILE: dict[Callable[[pa.Table], pa.Table], str] = {
    many_rows: "2,097,153 rows",
    many_values_in_a_row: "3 rows, 4,194,308 values in a column",
    one_long_text_in_every_row: "a text of 2,000 bytes in column norm",
}


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_a_result_that_would_take_all_memory_is_refused(
    make: Callable[[pa.Table], pa.Table], result: pa.Table, tmp_path: Path
) -> None:
    pq.write_table(make(result), tmp_path / "hostile.parquet", compression="zstd")
    assert (tmp_path / "hostile.parquet").stat().st_size < 100_000
    with pytest.raises(NotAResult, match=f"expected a result.*{HOSTILE[make]}"):
        read_result(tmp_path / "hostile.parquet")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "sparse.parquet", "wb") as file:
        file.truncate(stored_table.FILE_BYTES + 1)
    with pytest.raises(NotAResult, match="1,073,741,825 bytes"):
        read_result(tmp_path / "sparse.parquet")


def test_what_unpacks_to_too_much_is_refused(result: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows of many columns."""
    wide: Any = {f"column {i}": np.arange(1_000.0) for i in range(40)}
    pq.write_table(pa.table(wide), tmp_path / "wide.parquet")
    monkeypatch.setattr(stored_table, "BYTES", 200_000)
    with pytest.raises(NotAResult, match=r"1,000 rows, 2,000 values in a column and 3\d\d,\d\d\d bytes"):
        read_result(tmp_path / "wide.parquet")


def test_results_of_ours_are_read_whatever_their_form(result: pa.Table, tmp_path: Path) -> None:
    for options in (
        {"use_dictionary": False},
        {"compression": "none"},
        {"row_group_size": 2},
        {"data_page_version": "2.0"},
    ):
        pq.write_table(result, tmp_path / "result.parquet", **options)
        read = read_result(tmp_path / "result.parquet").certificates
        assert read.input.tolist() == result["input"].to_pylist()
        assert json.loads(result.schema.metadata[b"recert"])["samples"] == read.settings.samples == 400


def test_no_explanation_of_ours_is_too_long_to_be_read_back() -> None:
    assert max(len(outcome.explanation.encode()) for outcome in Outcome) < stored_table.TEXT
