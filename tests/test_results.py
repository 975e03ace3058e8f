"""Results: columns, exports at full precision, and a guarantee in words."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
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
    assert table.column_names == COLUMNS
    assert table["radius"].to_pylist() == result.radius.tolist()
    settings = json.loads(table.schema.metadata[b"recert"])
    assert (settings["noise"], settings["samples"], settings["selection_samples"], settings["alpha"]) == (
        "gaussian:0.25",
        1_000,
        100,
        0.001,
    )
    assert [float(row["radius"]) for row in csv.DictReader((tmp_path / "r.csv").open())] == result.radius.tolist()


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
