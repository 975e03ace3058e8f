"""Results: columns, exports at full precision, and a guarantee in words."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recert
from recert import Gaussian, Outcome, StoredVotes

COLUMNS = [
    "input",
    "index",
    "outcome",
    "explanation",
    "prediction",
    "radius",
    "norm",
    "top_lower",
    "runner_up_upper",
    "top_votes",
    "samples",
    "replayed",
    "kept",
    "lost",
    "gained",
    "method",
    "alpha",
    "forward_passes",
    "seconds",
]
LABELS = np.array([0, 1, 1, 0])


@pytest.fixture
def cache() -> recert.Cache:
    rng = np.random.default_rng(0)
    votes = (rng.random((4, 1_100)) < np.array([[0.1], [0.9], [0.95], [0.5]])).astype(np.int64)
    source = StoredVotes(votes[:, 100:], selection=votes[:, :100], fresh=votes[:, 100:], classes=2)
    return recert.certify(source, None, noise=Gaussian(0.25), samples=1_000, certificate="one-sided")


def test_pandas_has_the_documented_columns(cache: recert.Cache) -> None:
    frame = cache.certificates.to_pandas()
    assert list(frame.columns) == COLUMNS
    assert frame["outcome"].tolist() == ["certified", "certified", "certified", "no-majority"]
    assert frame["prediction"].tolist() == [0, 1, 1, -1]
    assert frame.attrs["recert"]["alpha"] == 0.001


def test_parquet_and_csv_keep_every_bit(cache: recert.Cache, tmp_path: Path) -> None:
    result = cache.certificates
    result.to_parquet(tmp_path / "r.parquet")
    result.to_csv(tmp_path / "r.csv")
    table = pq.read_table(tmp_path / "r.parquet")
    assert table.column_names == [*COLUMNS, "nobody"]
    assert table["radius"].to_pylist() == result.radius.tolist()
    settings = json.loads(table.schema.metadata[b"recert"])
    assert (settings["noise"], settings["samples"], settings["selection_samples"], settings["alpha"]) == (
        "gaussian:0.25",
        1_000,
        100,
        0.001,
    )
    assert [float(row["radius"]) for row in csv.DictReader((tmp_path / "r.csv").open())] == result.radius.tolist()


@pytest.fixture
def recertified(cache: recert.Cache) -> recert.Certificates:
    """With every setting that is not a plain number: numerics, looks, a proxy."""
    rng = np.random.default_rng(1)
    votes = (rng.random((4, 1_100)) < np.array([[0.1], [0.9], [0.95], [0.5]])).astype(np.int64)
    changed = StoredVotes(votes[:, 100:], selection=votes[:, :100], fresh=votes[:, 100:], classes=2)
    for samples in (60, 120):
        result = recert.recertify(changed, None, cache, samples=samples, method="series", family=8)
    proxy = {"made by": "int8", "passes per input": "100", "seconds": "1.5"}
    nobody = np.array([0, 3, 0, 1])
    return replace(result, nobody=nobody, settings=replace(result.settings, proxy=proxy, drawn=7))


def same(ours: recert.Certificates, theirs: recert.Certificates) -> None:
    assert ours.settings == theirs.settings
    assert ours.guarantee == theirs.guarantee
    pd.testing.assert_frame_equal(ours.to_pandas(), theirs.to_pandas())  # dtypes as well
    assert ours.nobody.tolist() == theirs.nobody.tolist()


def test_certificates_are_read_back_with_all_settings(recertified: recert.Certificates, tmp_path: Path) -> None:
    assert recertified.settings.together is not None
    recertified.to_parquet(tmp_path / "r.parquet")
    back = recert.Certificates.from_parquet(tmp_path / "r.parquet")
    same(back, recertified)
    assert back.labels is None
    recertified.with_labels(LABELS).to_parquet(tmp_path / "l.parquet")
    assert recert.Certificates.from_parquet(tmp_path / "l.parquet").labels.tolist() == LABELS.tolist()


def test_a_result_says_which_version_made_it(recertified: recert.Certificates, tmp_path: Path) -> None:
    """Files of older versions do not, and are read all the same."""
    path = tmp_path / "r.parquet"
    recertified.to_parquet(path)
    table = pq.read_table(path)
    settings = json.loads(table.schema.metadata[b"recert"])
    assert settings.pop("version") == recert.__version__
    pq.write_table(table.replace_schema_metadata({b"recert": json.dumps(settings)}), path)
    assert recert.Certificates.from_parquet(path).settings == replace(recertified.settings, version="")
    pq.write_table(table.replace_schema_metadata({b"recert": json.dumps(settings | {"version": 1})}), path)
    with pytest.raises(recert.errors.NotAResult, match="version is not a text"):
        recert.Certificates.from_parquet(path)


def test_predictions_are_read_back(tmp_path: Path) -> None:
    votes = StoredVotes(np.array([[0] * 90 + [1] * 10, [0] * 50 + [1] * 50]), classes=2)
    predicted = recert.predict(votes, None, noise=Gaussian(0.5), samples=100)
    predicted.to_parquet(tmp_path / "p.parquet")
    back = recert.Certificates.from_parquet(tmp_path / "p.parquet")
    same(back, predicted)
    assert back.prediction.tolist() == [0, -1]


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def with_column(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


DAMAGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a column is missing": lambda t: t.drop_columns(["alpha"]),
    "an unknown outcome": lambda t: with_column(t, "outcome", ["certified"] * 3 + ["sure"]),
    "a negative radius": lambda t: with_column(t, "radius", [0.1, 0.1, -0.1, 0.0]),
    "a radius that is no number": lambda t: with_column(t, "radius", [0.1, 0.1, float("nan"), 0.0]),
    "a bound that is no number": lambda t: with_column(t, "top_lower", [0.6, 0.6, float("nan"), 0.0]),
    "a null": lambda t: with_column(t, "prediction", [0, 1, None, 1]),
    "a prediction between classes": lambda t: with_column(t, "prediction", [0.0, 1.0, 0.5, 1.0]),
    "a text for a number": lambda t: with_column(t, "samples", ["1", "2", "3", "4"]),
    "a number for a text": lambda t: with_column(t, "input", [1, 2, 3, 4]),
    "labels that are none": lambda t: t.append_column("label", pa.array([0.5] * 4)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(cache: recert.Cache, tmp_path: Path, damage: str) -> None:
    cache.certificates.to_parquet(tmp_path / "r.parquet")
    rewritten(tmp_path / "r.parquet", DAMAGES[damage])
    with pytest.raises(recert.errors.NotAResult, match="damaged or of another version"):
        recert.Certificates.from_parquet(tmp_path / "r.parquet")


def test_what_is_no_result_is_refused(cache: recert.Cache, tmp_path: Path) -> None:
    cache.certificates.to_parquet(tmp_path / "r.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "r.parquet").read_bytes()[:-100])
    with pytest.raises(recert.errors.NotAResult, match="not Parquet"):
        recert.Certificates.from_parquet(tmp_path / "cut.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(recert.errors.NotAResult, match="a table of something else"):
        recert.Certificates.from_parquet(tmp_path / "other.parquet")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        recert.Certificates.from_parquet(tmp_path / "none.parquet")


def test_one_certificate_is_a_row(recertified: recert.Certificates) -> None:
    frame = recertified.to_pandas()
    rows = list(recertified)
    assert len(rows) == 4
    for i, one in enumerate(rows):
        assert recertified[i] == recertified[i - 4] == recertified[np.int64(i)] == one
        for name in ("input", "index", "outcome", "explanation", "prediction", "radius", "norm", "top_lower"):
            assert getattr(one, name) == frame[name][i]
        assert type(one.prediction) is int
        assert type(one.radius) is float
        assert one.abstained == (frame["prediction"][i] == -1)
        assert one.label is None
    with pytest.raises(AttributeError):
        rows[0].radius = 9.0  # type: ignore[misc]
    with pytest.raises(IndexError):
        recertified[4]


def test_slices_masks_and_lists_are_certificates(cache: recert.Cache) -> None:
    result = cache.certificates.with_labels(LABELS)
    frame = cache.certificates.to_pandas()
    for rows in (slice(1, 3), slice(None, None, -1), [3, 0], np.array([False, True, False, True])):
        part = result[rows]
        assert isinstance(part, recert.Certificates)
        assert part.input.tolist() == frame["input"].to_numpy()[rows].tolist()
        assert part.labels.tolist() == LABELS[rows].tolist()
        assert part.index.tolist() == list(range(len(part)))
    with pytest.raises(IndexError):
        result[[True, False]]


def test_labels_stand_in_tables_once_they_are_joined(cache: recert.Cache, tmp_path: Path) -> None:
    result = cache.certificates
    result.to_csv(tmp_path / "a.csv", LABELS)
    result.with_labels(LABELS).to_csv(tmp_path / "b.csv")
    result.to_csv(tmp_path / "c.csv")
    assert pd.read_csv(tmp_path / "a.csv")["label"].tolist() == LABELS.tolist()
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert "label" not in pd.read_csv(tmp_path / "c.csv")
    assert result.with_labels(LABELS).to_pandas()["label"].tolist() == LABELS.tolist()
    assert [one.label for one in result.with_labels(LABELS)] == LABELS.tolist()
    for wrong in (LABELS[:3], LABELS + 0.5, LABELS[None]):
        with pytest.raises(ValueError, match="expected 4 labels, whole numbers"):
            result.with_labels(wrong)


def test_the_fields_log_at_full_precision(cache: recert.Cache, tmp_path: Path) -> None:
    result = cache.certificates
    result.to_tsv(tmp_path / "log.tsv", LABELS, idx=[0, 20, 40, 60])
    log = pd.DataFrame(list(csv.DictReader((tmp_path / "log.tsv").open(), delimiter="\t")))
    log[["idx", "predict", "correct"]] = log[["idx", "predict", "correct"]].astype(int)
    log["radius"] = [float(r) for r in log["radius"]]
    assert list(log.columns) == ["idx", "label", "predict", "radius", "correct", "time"]
    assert log["idx"].tolist() == [0, 20, 40, 60]
    assert log["predict"].tolist() == [0, 1, 1, -1]
    assert log["correct"].tolist() == [1, 1, 1, 0]
    assert log["radius"].tolist() == result.radius.tolist()
    assert (log["radius"] * log["correct"]).mean() == pytest.approx(result.average_certified_radius(LABELS))
    with pytest.raises(ValueError, match="expected 4 labels"):
        result.to_tsv(tmp_path / "log.tsv", LABELS[:2])


def test_summary_numbers(cache: recert.Cache) -> None:
    result = cache.certificates
    assert result.abstention_rate == 0.25
    assert result.smoothed_accuracy(LABELS) == 0.75
    assert result.certified_accuracy(LABELS, [0, 10]).tolist() == [0.75, 0]
    assert result.mean_forward_passes == 1_100
    assert len(result) == 4


def test_the_guarantee_names_its_probability(cache: recert.Cache) -> None:
    assert "probability at least 0.999" in cache.certificates.guarantee
    result = recert.recertify(
        StoredVotes(np.ones((4, 1_000), np.int64), fresh=np.ones((4, 1_000), np.int64), classes=2),
        None,
        cache,
        samples=100,
        method="irs",
    )
    assert result.settings.error == pytest.approx(0.003)
    assert "probability at least 0.997" in result.guarantee


def test_every_outcome_explains_itself() -> None:
    explanations = {outcome.explanation for outcome in Outcome}
    assert len(explanations) == len(Outcome)
    assert all(text.endswith(".") for text in explanations)
    assert [o for o in Outcome if not o.abstained] == [Outcome.CERTIFIED, Outcome.PREDICTED]


def test_predict_returns_classes_without_radii(cache: recert.Cache) -> None:
    votes = np.concatenate([np.zeros((1, 500), np.int64), np.tile([0, 1], (1, 250))])
    result = recert.predict(StoredVotes(votes, classes=2), None, noise=Gaussian(0.25), samples=500)
    assert result.outcome.tolist() == [Outcome.PREDICTED, Outcome.NOT_SIGNIFICANT]
    assert result.prediction.tolist() == [0, -1]
    assert result.radius.tolist() == [0, 0]


def test_a_family_of_claims_shares_alpha(cache: recert.Cache) -> None:
    """Bonferroni: each claim gets alpha / k, and the result says what holds jointly."""
    votes = StoredVotes(np.ones((4, 1_000), np.int64), fresh=np.ones((4, 1_000), np.int64), classes=2)
    alone = recert.recertify(votes, None, cache, samples=100, alpha=0.02, method="scratch-cached")
    joint = recert.recertify(votes, None, cache, samples=100, alpha=0.02, method="scratch-cached", family=5)
    single = recert.recertify(votes, None, cache, samples=100, alpha=0.004, method="scratch-cached")
    assert joint.top_lower.tolist() == single.top_lower.tolist() != alone.top_lower.tolist()
    assert "all 5 claims of the family hold together with probability at least 0.98" in joint.guarantee
    every = recert.recertify(votes, None, cache, samples=100, alpha=0.02, method="scratch-cached", family="bonferroni")
    assert every.settings.family == 4
    with pytest.raises(ValueError, match="family='bonferroni', a number of claims or None"):
        recert.recertify(votes, None, cache, samples=100, family="holm")
    default = recert.recertify(votes, None, cache, samples=100, method="scratch-cached", family="bonferroni")
    assert default.settings.alpha == pytest.approx(0.002 / 4)
    base = np.ones((3, 200), np.int64)
    certified = recert.certify(
        StoredVotes(base, selection=base, classes=2),
        None,
        noise=Gaussian(1.0),
        samples=200,
        alpha=0.03,
        family="bonferroni",
    )
    assert certified.certificates.settings.alpha == pytest.approx(0.01)
    assert "all 3 claims" in certified.certificates.guarantee
