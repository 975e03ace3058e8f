"""Bundles whose hashes fit and whose parts do not: another model, other numbers, other votes, or a page and a card that say something else."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import recert
from recert.bundles.claims import check_claims
from recert.bundles.decisions import decide_again
from recert.bundles.page import page_of
from recert.cache import Cache
from recert.cache.looks import Look
from recert.cache.parts import Row, encode
from recert.data import load_data
from recert.errors import CorruptBundle, MissingExtra
from recert.noise import Stream
from recert.report import read_result, write_result
from recert.storage import Directory
from tests.bundles.conftest import Chosen, forged, listed_anew
from tests.test_cli import SMALL
from tests.test_cli import recert as command

NOISE = recert.Gaussian(0.5)
FORGED = ("prediction", "outcome", "radius", "top_lower", "runner_up_upper")


def problem(folder: Path) -> str:
    found = recert.check(folder)
    assert found.problems, found.checked
    return found.problems[0]


def with_votes(store: Path, change) -> None:
    """The votes of a store changed row by row, and everything in it written to fit."""
    cache = Cache.open(store)
    names = []
    for name in cache.part_names():
        rows = [
            Row.of(row.digest, row.stream, row.samples, change(row), row.seconds, cache.manifest.classes)
            for row in cache.part(name)[1]
        ]
        new, data = encode(rows, cache.manifest.classes, cache.manifest.context)
        (store / name).unlink()
        Directory(store).write(new, data)
        names.append(new)
    manifest = json.loads((store / "_manifest.json").read_text())
    (store / "_manifest.json").write_text(json.dumps({**manifest, "parts": names}))


@pytest.fixture(scope="session")
def original(chosen: Chosen) -> Path:
    """A bundle of the original, as a folder."""
    folder = chosen.folder / "original"
    recert.bundle(chosen.folder / "base.parquet", "digits", folder, cache=chosen.cache)
    return folder


@pytest.fixture
def copied_original(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "original"))


def test_a_second_model_and_a_second_result_are_named(copied: Path) -> None:
    """Somebody who unpacks the bundle could take them for what was checked."""
    recert.save_model(recert.load_model("digits").model, copied / "model" / "release.safetensors")
    shutil.copy(copied / "result" / "winner.parquet", copied / "result" / "certificates.parquet")
    listed_anew(copied)
    assert [line.partition(":")[0] for line in recert.check(copied).problems] == [
        "model/release.safetensors", "model/release.safetensors.json", "result/certificates.parquet",
    ]  # fmt: skip


def test_a_report_that_shows_other_numbers(copied: Path) -> None:
    page = copied / "report.html"
    before = page.read_text()
    assert "report: report.html is what this result gives, made again" in recert.check(copied).checked
    for changed in (re.sub(r"[1-9]\d\.\d%", "99.9%", before), before.replace("</main>", "<p>all is well</p></main>")):
        assert changed != before
        page.write_text(changed)
        listed_anew(copied)
        assert problem(copied) == "report.html: it does not show this result; make it anew with recert report"
    page.write_text(before.replace("</svg>", "<!-- --></svg>", 1))
    listed_anew(copied)
    assert any(line.startswith("report: figures of report.html") for line in recert.check(copied).not_checked)
    page.write_text("another page")
    listed_anew(copied, version="0.0.0")
    assert any(line.startswith("report: report.html, which recert 0.0.0") for line in recert.check(copied).not_checked)


@pytest.mark.parametrize("field", ["weights", "structure"])
def test_a_card_of_another_model(field: str, copied: Path) -> None:
    card = copied / "model" / "winner.onnx.json"
    said = json.loads(card.read_text())
    card.write_text(json.dumps({**said, field: "0" * 64}))
    listed_anew(copied)
    assert problem(copied).startswith("winner.onnx.json: it has the digests of another model")
    if field == "structure":  # another version digests other code
        card.write_text(json.dumps({**said, field: "0" * 64, "versions": {"recert": "0.0.0"}}))
        listed_anew(copied)
        assert any(line.startswith("card: ") for line in recert.check(copied).not_checked)


def test_labels_are_compared_with_the_data(copied_original: Path) -> None:
    path = copied_original / "result" / "base.parquet"
    data = load_data("digits")
    assert "labels: they are those of the data" in recert.check(copied_original, audit=data).checked
    assert any(line.startswith("labels: ") for line in recert.check(copied_original, audit=data.inputs).not_checked)
    before = read_result(path)
    labels = before.labels.copy()
    labels[2] = (labels[2] + 1) % 10
    write_result(replace(before, labels=labels, certificates=replace(before.certificates, labels=labels)), path)
    (copied_original / "report.html").write_bytes(page_of(read_result(path)).encode())
    listed_anew(copied_original)
    assert recert.check(copied_original).holds
    assert recert.check(copied_original, audit=data).problems == ("labels: 1 of the result are not those of the data",)


def test_inputs_that_were_not_given_are_said(copied: Path) -> None:
    found = recert.check(copied, audit=load_data("digits").inputs[[0, 60]])
    assert found.holds
    assert any(line.startswith("data: the result is about ") for line in found.checked)
    assert any(line.startswith("votes on ") and "of the 6 inputs" in line for line in found.not_checked)


def test_votes_of_the_original_are_replayed_where_it_is_named(chosen: Chosen, copied: Path, tmp_path: Path) -> None:
    """Every certificate of a changed model follows from them, too, and the bundle has no model that gives them."""
    saved, result = tmp_path / "m.safetensors", tmp_path / "r.parquet"
    cache = Path(shutil.copytree(chosen.cache, tmp_path / "forged"))
    tops = dict(zip((c := Cache.open(cache)).digests, c.counts(Stream.SELECTION).argmax(axis=1), strict=True))
    with_votes(cache, lambda row: np.full_like(row.votes, tops[row.digest]))
    run = command(
        "recertify", *SMALL, "--store", str(cache), "--samples", "100", "-a", "prune:0.3", "--save", str(saved), "-o", str(result),
        "--method", "series", "--plan", "uniform",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    recert.bundle(result, saved, tmp_path / "b", cache=cache)
    data, model = load_data("digits"), recert.load_model("digits").model
    found = recert.check(tmp_path / "b", audit=data)
    assert found.holds
    assert any(line.startswith("votes of the original") for line in found.not_checked)
    assert "audit of the original: not genuine" in recert.check(tmp_path / "b", audit=data, original=model).problems[0]
    genuine = recert.check(copied, audit=data, original=model)
    assert any(line.startswith("audit of the original: genuine") for line in genuine.checked)
    assert not any("original" in line for line in genuine.not_checked)
    other = recert.load_model("digits:0.25").model
    assert not recert.check(copied, audit=data, original=other).holds
    with pytest.raises(ValueError, match="expected audit="):
        recert.check(copied, original=model)


@pytest.mark.parametrize(
    ("field", "value"),
    [("model", {"weights": "0" * 64, "structure": "2-" + "0" * 64}), ("noise", "gaussian:0.1"), ("seed", 5)],
)
def test_kept_votes_of_something_else(field: str, value: object, copied: Path) -> None:
    path = copied / "votes" / "_manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    listed_anew(copied)
    assert f"votes: those that were kept are of another {field} than the certificates" in recert.check(copied).problems


def test_without_kept_votes_counts_are_what_the_result_says(copied: Path) -> None:
    shutil.rmtree(copied / "votes")
    listed_anew(copied)
    assert any(line.startswith("votes of the changed model") for line in recert.check(copied).not_checked)


def test_an_old_result_does_not_know_what_is_computed(copied: Path) -> None:
    path = copied / "result" / "winner.parquet"
    before = read_result(path).certificates
    forged(path, settings=replace(before.settings, model={**before.settings.model, "structure": "0" * 64}))
    listed_anew(copied)
    found = recert.check(copied)
    assert "model: winner.onnx has the weights that the certificates are about" in found.checked
    assert any(line.startswith("model: what it computes with them") for line in found.not_checked)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": {"weights": "0" * 64}}, "says which model it is about"),
        ({"noise": "gaussian:abc"}, "expected a noise like"),
        ({"certificate": "three-sided"}, "'three-sided', where"),
    ],
)
def test_settings_that_there_are_not(changes: dict[str, object], expected: str, copied: Path) -> None:
    path = copied / "result" / "winner.parquet"
    forged(path, settings=replace(read_result(path).certificates.settings, **changes))  # type: ignore[arg-type]
    listed_anew(copied)
    assert any(expected in line for line in recert.check(copied).problems)


@pytest.mark.parametrize("changes", [{"plan": "acr"}, {"at": (0.5,)}])
def test_settings_do_not_switch_the_check_off(changes: dict[str, object], copied: Path) -> None:
    """Radii that follow from no bounds, under settings in which votes are not shared out as usual."""
    path = copied / "result" / "winner.parquet"
    before = read_result(path).certificates
    settings = replace(before.settings, **changes)  # type: ignore[arg-type]
    for columns in (
        {"radius": np.where(before.certified, 0.5 + before.radius, 0.0)},
        {
            "radius": np.where(before.certified, 0.5, 0.0),
            "top_lower": np.where(before.certified, 1.0, before.top_lower),
        },
    ):
        write_result(replace(read_result(path), certificates=replace(before, **columns, settings=settings)), path)  # type: ignore[arg-type]
        listed_anew(copied)
        assert problem(copied).startswith("claims: ")


def test_a_runner_up_without_counts_is_not_passed_over(copied_original: Path) -> None:
    """A bound on it that is too small, once with no votes in the bundle and once under a certificate that has none."""
    path = copied_original / "result" / "base.parquet"
    before = read_result(path).certificates
    upper = np.minimum(before.runner_up_upper, 1e-4)
    radius = np.where(before.certified, NOISE.radius(before.top_lower, upper), 0.0)
    small = replace(before, runner_up_upper=upper, radius=radius)
    assert any("bounds on the runner-up of 6 inputs" in line for line in check_claims(small, None).not_checked)
    cache = Cache.open(copied_original / "cache")
    manifest_alone = check_claims(small, cache.manifest)
    assert any("bounds on the runner-up of 6 inputs" in line for line in manifest_alone.not_checked)
    one_sided = replace(small, settings=replace(small.settings, certificate="one-sided"))
    assert any("which one-sided certificates have not" in line for line in check_claims(one_sided, None).problems)


def test_where_it_cannot_be_loaded_nothing_is_said_of_it(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match="onnx"):
        recert.check(copied)


def test_another_version_may_plan_otherwise(copied: Path) -> None:
    """What a later version gives from the same votes does not make a bundle bad; it is said that it was not checked."""
    path = copied / "result" / "winner.parquet"
    forged(path, forward_passes=read_result(path).certificates.forward_passes + 1)
    listed_anew(copied)
    listed_anew(copied, version="0.0.0")  # who bundled it does not matter where it is known who made it
    assert "are not what the stored votes of both models give" in problem(copied)
    for made, bundled in (("0.0.1", recert.__version__), ("", "0.0.1")):  # files of older versions do not say
        settings = replace(read_result(path).certificates.settings, version=made)
        forged(path, settings=settings)
        (copied / "report.html").write_bytes(page_of(read_result(path)).encode())
        listed_anew(copied, version=bundled)
        found = recert.check(copied)
        assert found.holds
        assert any("as they were by recert 0.0.1" in line for line in found.not_checked)


def test_an_upgrade_before_it_is_bundled(chosen: Chosen, tmp_path: Path) -> None:
    """A result of the version before, which planned otherwise, is bundled: it is said that it was not planned again."""
    path = tmp_path / "w.parquet"
    shutil.copyfile(chosen.result, path)
    forged(path, forward_passes=read_result(path).certificates.forward_passes + 1)
    with pytest.raises(CorruptBundle, match="are not what the stored votes of both models give"):
        recert.bundle(path, chosen.model, tmp_path / "b", cache=chosen.cache)
    forged(path, settings=replace(read_result(path).certificates.settings, version="0.0.1"))
    found = recert.bundle(path, chosen.model, tmp_path / "b", cache=chosen.cache)
    assert any("as they were by recert 0.0.1" in line for line in found.not_checked)


def test_votes_that_are_there_are_looked_at(copied_original: Path) -> None:
    """Whatever the list of contents says of them."""
    path = copied_original / "result" / "base.parquet"
    forged(path, top_votes=read_result(path).certificates.samples)
    listed_anew(copied_original, whole_cache=False)
    assert "are not what the votes of the cache give" in problem(copied_original)


def test_votes_by_a_plan_are_counted_again(tmp_path: Path) -> None:
    result = tmp_path / "r.parquet"
    run = command(
        "certify", *SMALL, "--noise", "gaussian:0.5", "--samples", "300", "--plan", "acr", "--store", str(tmp_path / "s"), "-o", str(result)
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = recert.bundle(result, "digits", tmp_path / "b", cache=tmp_path / "s")
    assert len(set(read_result(result).certificates.samples.tolist())) > 1
    assert "claims: all of 6 inputs follow from the votes of the cache, bounded again" in found.checked
    audited = recert.check(tmp_path / "b", audit=load_data("digits"))
    assert any(line.startswith("audit: 0 of ") for line in audited.checked)
    path = tmp_path / "b" / "result" / "r.parquet"
    before = read_result(path).certificates
    forged(path, top_votes=before.samples.copy())
    listed_anew(tmp_path / "b")
    assert "are not what the votes of the cache give" in problem(tmp_path / "b")


@pytest.mark.parametrize("changed", [False, True])
def test_decisions_at_a_radius_are_made_again(changed: bool, tmp_path: Path) -> None:
    saved, result, store, votes = (tmp_path / name for name in ("m.safetensors", "r.parquet", "s", "v"))
    many = ("--model", "digits", "--data", "digits", "--count", "24")
    if changed:
        cached = command("certify", *many, "--noise", "gaussian:0.5", "--samples", "1000", "--store", str(store))
        assert cached.returncode == 0, cached.stderr
        run = command(
            "recertify", *many, "--store", str(store), "--samples", "200", "-a", "prune:0.3", "--at", "0.3", "--save", str(saved),
            "-o", str(result), "--votes", str(votes),
        )  # fmt: skip
    else:
        run = command(
            "certify", *many, "--noise", "gaussian:0.5", "--samples", "400", "--at", "0.2", "--at", "0.4", "--store", str(store),
            "-o", str(result),
        )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = recert.bundle(result, saved if changed else "digits", tmp_path / "b", cache=store, votes=votes)
    before = read_result(result).certificates
    count = int(before.certified.sum())
    assert 0 < count < len(before)
    assert f"claims: all of {count} radii are shown again by the stored votes" in found.checked
    assert not any(line.startswith("claims") for line in found.not_checked)
    assert any(
        line.startswith("audit: 0 of ") for line in recert.check(tmp_path / "b", audit=load_data("digits")).checked
    )

    def claimed(**columns: object) -> str:
        forged(tmp_path / "b" / "result" / "r.parquet", **{name: getattr(before, name) for name in FORGED} | columns)
        listed_anew(tmp_path / "b")
        return problem(tmp_path / "b")

    largest = max(before.settings.at)
    more = ~before.certified
    bounds = {
        "top_lower": np.where(more, 0.99, before.top_lower),
        "runner_up_upper": np.where(more, 0.01, before.runner_up_upper),
    }
    radius = np.where(more, largest, before.radius)
    outcome = np.full(len(before), "certified", dtype=object)
    classes = {"prediction": np.where(more, 3, before.prediction), "outcome": outcome}
    assert f"the radii of {int(more.sum())} inputs are not shown" in claimed(**bounds, **classes, radius=radius)
    other = np.where(before.certified, (before.prediction + 1) % 10, -1)
    assert f"the radii of {count} inputs are not shown" in claimed(prediction=other)
    # The error that was spent, no smaller one: what is drawn ends soon after it is enough.
    smaller = replace(before.settings, alpha=before.settings.alpha / (50 if changed else 4))
    again = decide_again(
        replace(before, settings=smaller),
        Cache.open(store),
        str(next(votes.iterdir()) if not (votes / "_manifest.json").exists() else votes) if changed else None,
    )
    assert "inputs are not shown by the stored votes" in again.problems[0]
    assert "do not follow from their bounds" in claimed(radius=np.where(before.certified, 0.123, 0.0))


def test_the_share_of_an_error_that_a_choice_had(copied: Path) -> None:
    """By the record of the choice it was larger than the result states."""
    (look,) = (copied / "cache").glob("_look-*")
    raw = json.loads(look.read_text())
    asked = json.loads(raw["asked"])
    raw["asked"] = json.dumps({**asked, "of": asked["of"] * 1.3}, sort_keys=True)
    look.unlink()
    forged_look = Look.from_json(json.dumps(raw).encode())
    (copied / "cache" / forged_look.name).write_bytes(forged_look.to_json())
    listed_anew(copied)
    assert "its error is that of the whole choice" in problem(copied)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("looks", [200, 400], "were looked at when there were 200 of them, which is not said"),
        ("same_models", ["0" * 64 + " 2-" + "0" * 64], "of a model with other digests, which is not said"),
    ],
)
def test_what_the_guarantee_depends_on_is_said(
    field: str, value: object, expected: str, copied: Path, copied_original: Path
) -> None:
    for folder in (copied, copied_original):
        path = folder / "cache" / "_manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
        listed_anew(folder)
        assert any(expected in line for line in recert.check(folder).problems)


@pytest.mark.parametrize("column", ["forward_passes", "nobody", "radius_without_flips"])
def test_columns_that_the_report_shows(column: str, copied: Path, copied_original: Path) -> None:
    """What it cost and how many votes were for nobody are no claims; they are shown beside them."""
    for folder, name in ((copied, "winner"), (copied_original, "base")):
        path = folder / "result" / f"{name}.parquet"
        before = read_result(path).certificates
        if column == "radius_without_flips" and before.radius_without_flips is None:
            continue
        value = getattr(before, column)
        forged(path, **{column: value + 1})
        listed_anew(folder)
        assert problem(folder).startswith("claims: ")
