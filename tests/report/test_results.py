"""Result files: nothing lost on the way, foreign and damaged files refused, several results aligned or told apart."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recert
from recert import Gaussian, StoredVotes
from recert.certificates.certificates import OPTIONAL
from recert.report import NotAResult, Result, read_result, write_result
from recert.report.alignment import DifferentInputs, align
from recert.report.results import NOTES
from tests.report.conftest import MakeResult


def test_a_result_is_read_as_it_was_written(make_result: MakeResult, tmp_path: Path) -> None:
    made = make_result("a name of its own", method="auto")
    written = replace(made, model="net, int8", data="digits test", requirements=("acr>=0.4", "accuracy:0.5>=0.6"))
    write_result(written, tmp_path / "r.parquet")
    read = read_result(tmp_path / "r.parquet")
    for name in ("name", "command", "model", "data", "requirements"):
        assert getattr(read, name) == getattr(written, name)
    assert read.labels is not None
    assert read.positions is not None
    assert read.labels.tolist() == written.labels.tolist()
    assert read.positions.tolist() == written.positions.tolist()
    for field in fields(written.certificates):
        if field.name in OPTIONAL:
            continue
        ours, theirs = getattr(written.certificates, field.name), getattr(read.certificates, field.name)
        assert ours == theirs if field.name == "settings" else ours.tolist() == theirs.tolist(), field.name


def test_the_file_gives_the_name_even_after_it_was_renamed(make_result: MakeResult, tmp_path: Path) -> None:
    write_result(make_result("int8"), tmp_path / "int8.parquet")
    assert read_result((tmp_path / "int8.parquet").rename(tmp_path / "final.parquet")).name == "final"


def test_a_model_that_is_named_gives_the_name(make_result: MakeResult, tmp_path: Path) -> None:
    write_result(replace(make_result("r"), model="digits, int8"), tmp_path / "r.parquet")
    assert read_result(tmp_path / "r.parquet").name == "digits, int8"


@pytest.mark.parametrize("wrong", ["acr>=0.4", ["acr>=0.4; rm"], [3], ["acr>=0.4"] * 101])
def test_requirements_that_cannot_be_read_are_refused(make_result: MakeResult, tmp_path: Path, wrong: object) -> None:
    table = make_result("r", 3).certificates.to_arrow()
    notes = json.dumps({"requirements": wrong}).encode()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, NOTES: notes}), tmp_path / "r.parquet")
    with pytest.raises(NotAResult, match="damaged or of another version"):
        read_result(tmp_path / "r.parquet")


def test_names_cannot_steer_a_terminal(make_result: MakeResult, tmp_path: Path) -> None:
    write_result(make_result("\x1b[2Jinnocent"), tmp_path / "r.parquet")
    assert read_result(tmp_path / "r.parquet").name == " [2Jinnocent"


def test_what_the_library_wrote_and_a_cache_are_results_without_labels(tmp_path: Path) -> None:
    votes = (np.random.default_rng(0).random((4, 1_100)) < 0.9).astype(np.int64)
    source = StoredVotes(votes[:, 100:], selection=votes[:, :100], classes=2)
    cache = recert.certify(source, None, noise=Gaussian(0.25), samples=1_000, store=tmp_path / "store")
    cache.certificates.to_parquet(tmp_path / "r.parquet")
    for path in (tmp_path / "r.parquet", tmp_path / "store"):
        result = read_result(path)
        assert result.labels is None
        assert result.certificates.radius.tolist() == cache.certificates.radius.tolist()
        assert result.certificates.settings.alpha == 0.001


def foreign(folder: Path, make_result: MakeResult) -> dict[str, Path]:
    """Files that are no results, each in its own way, by what the error says of it."""
    paths = {name: folder / f"{i}.parquet" for i, name in enumerate((
        "not Parquet", "something else", "outcome", "column radius", "without a single input", "no text", "mapping", '"radius"',
    ))}  # fmt: skip
    paths["not Parquet"].write_bytes(b"PAR1 hello")
    pq.write_table(pa.table({"x": [1]}), paths["something else"])
    table = make_result("r", 3).certificates.to_arrow()
    metadata = table.schema.metadata

    def put(name: str, changed: pa.Table, settings: object = None) -> None:
        kept = metadata[b"recert"] if settings is None else json.dumps(settings).encode()
        pq.write_table(changed.replace_schema_metadata({b"recert": kept}), paths[name])

    put("outcome", table.set_column(2, "outcome", pa.array(["sure"] * 3)))
    put(
        "column radius",
        table.set_column(table.column_names.index("radius"), "radius", pa.array([0.1, float("nan"), 0.2])),
    )
    put("without a single input", table.slice(0, 0))
    put("no text", table, json.loads(metadata[b"recert"]) | {"noise": 3})
    put("mapping", table, [1, 2])
    put('"radius"', table.drop_columns(["radius"]))
    return paths


def test_foreign_and_damaged_files_are_refused(make_result: MakeResult, tmp_path: Path) -> None:
    said = {
        "outcome": "'sure' is not a valid Outcome",
        "no text": "noise is not a text",
        "mapping": "expected a mapping",
    }
    for name, path in foreign(tmp_path, make_result).items():
        with pytest.raises(NotAResult, match="expected a result that certify or recertify wrote") as caught:
            read_result(path)
        assert said.get(name, name) in str(caught.value)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_result(tmp_path / "missing.parquet")
    with pytest.raises(NotAResult, match="a folder that is no cache"):
        read_result(tmp_path)
    (tmp_path / "log.tsv").write_text("idx\tlabel\n")
    with pytest.raises(NotAResult, match=r"keep no settings; write \.parquet"):
        read_result(tmp_path / "log.tsv")


def test_predictions_are_refused_as_such(tmp_path: Path) -> None:
    votes = (np.random.default_rng(0).random((4, 100)) < 0.9).astype(np.int64)
    predicted = recert.predict(StoredVotes(votes, classes=2), None, noise=Gaussian(0.25), samples=100)
    predicted.to_parquet(tmp_path / "p.parquet")
    with pytest.raises(NotAResult, match="predictions, which have no radius"):
        read_result(tmp_path / "p.parquet")


@pytest.mark.parametrize(
    "proxy", ["int8", {}, {"x": "y"}, {"made by": 5}, {"made by": "int8", "passes per input": "many"},
              {"made by": "int8", "seconds": "inf"}],
)  # fmt: skip
def test_a_proxy_that_cannot_be_shown_is_refused(make_result: MakeResult, tmp_path: Path, proxy: object) -> None:
    write_result(make_result("r", 3, proxy=proxy), tmp_path / "r.parquet")
    with pytest.raises(NotAResult, match="damaged or of another version"):
        read_result(tmp_path / "r.parquet")


@pytest.mark.parametrize("drawn", ["many", -1, True, 0.5])
def test_passes_drawn_that_are_no_number_are_refused(make_result: MakeResult, tmp_path: Path, drawn: object) -> None:
    for known in (None, 0, 7):
        write_result(make_result("r", 3, drawn=known), tmp_path / "r.parquet")
        assert read_result(tmp_path / "r.parquet").certificates.settings.drawn == known
    write_result(make_result("r", 3, drawn=drawn), tmp_path / "r.parquet")
    with pytest.raises(NotAResult, match="drawn is not a whole number"):
        read_result(tmp_path / "r.parquet")


@pytest.mark.parametrize("field", ["numerics", "cache_numerics"])
@pytest.mark.parametrize("wrong", [3, "cpu", ["cpu"], {"device": 3}, {"device": ["cpu"]}, {"device": None}])
def test_numerics_that_are_no_texts_are_refused(
    make_result: MakeResult, tmp_path: Path, field: str, wrong: object
) -> None:
    table = make_result("r", 3).certificates.to_arrow()
    settings = json.loads(table.schema.metadata[b"recert"])
    assert settings["numerics"] == {"dtype": "float32", "device": "cpu"}
    pq.write_table(
        table.replace_schema_metadata({b"recert": json.dumps(settings | {field: wrong})}), tmp_path / "r.parquet"
    )
    with pytest.raises(
        NotAResult, match=r"damaged or of another version \((expected a mapping|an identity is not a text)"
    ):
        read_result(tmp_path / "r.parquet")


def test_a_proxy_is_read_as_it_was_written(make_result: MakeResult, tmp_path: Path) -> None:
    for proxy in (None, {"made by": "int8"}, {"made by": "int8", "passes per input": "20500", "seconds": "1.2e+03"}):
        write_result(make_result("r", 3, proxy=proxy), tmp_path / "r.parquet")
        assert read_result(tmp_path / "r.parquet").certificates.settings.proxy == proxy


def test_notes_of_the_wrong_kind_are_refused(make_result: MakeResult, tmp_path: Path) -> None:
    table = make_result("r", 3).certificates.to_arrow()
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, NOTES: b"[]"}), tmp_path / "r.parquet")
    with pytest.raises(NotAResult, match="expected a mapping, got list"):
        read_result(tmp_path / "r.parquet")


def test_results_are_brought_into_one_order(make_result: MakeResult) -> None:
    first, second = make_result("a"), make_result("b", seed=1)
    shuffled = second.take(np.random.default_rng(0).permutation(40))
    assert shuffled.certificates.radius.tolist() != second.certificates.radius.tolist()
    aligned = align([first, replace(shuffled, labels=None)])
    assert aligned[1].certificates.radius.tolist() == second.certificates.radius.tolist()
    assert aligned[1].labels is first.labels  # labels known to one are known to all


def test_baselines_come_last_and_names_are_told_apart(make_result: MakeResult) -> None:
    results = [
        make_result("r", method="scratch", passes=900),
        make_result("r"),
        make_result("r", method="scratch", passes=200),
    ]
    assert [r.name for r in align(results)] == [
        "r",
        "r, scratch, 200 passes",
        "r, scratch, 900 passes",
    ]
    changed = make_result("r", method="auto")
    assert [r.name for r in align([results[1], changed])] == [f"r, auto, {changed.certificates.mean_forward_passes:,.0f} passes", "r, certify, 1,100 passes"]  # fmt: skip
    assert [r.name for r in align([results[1]] * 2)] == ["r, certify, 1,100 passes #1", "r, certify, 1,100 passes #2"]


def test_what_all_names_of_models_share_is_left_out(make_result: MakeResult) -> None:
    def named(model: str, method: str) -> Result:
        return replace(make_result(model, method=method), model=model)

    results = [named("digits", "certify"), named("digits, int8", "auto"), named("mine.onnx", "auto")]
    assert [r.name for r in align(results)] == ["int8", "mine.onnx", "original"]
    assert [r.name for r in align(results[:1])] == ["digits"]
    given = replace(results[1], name="digits, my name")  # which is not the model's
    assert [r.name for r in align([results[0], given])] == ["digits, my name", "original"]


def test_different_inputs_and_labels_are_named(make_result: MakeResult) -> None:
    first, fewer = make_result("all"), make_result("few", 38)
    lacking = [digest[:12] for digest in first.certificates.input[38:]]
    with pytest.raises(DifferentInputs, match=rf"few lacks 2 of the 40 inputs of all \({lacking[0]}, {lacking[1]}\)"):
        align([first, fewer])
    with pytest.raises(DifferentInputs, match="all has 2 that few does not have"):
        align([fewer, first])
    other = replace(first, name="other", labels=np.where(np.arange(40) == 5, 99, first.labels))
    with pytest.raises(DifferentInputs, match="other and all differ in 1 of them, the first at row 5"):
        align([first, other])
