"""Bundles: what goes in comes out, one changed byte is named, and claims are bounded again by other means."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import recert
from recert.bundles.claims import check_claims
from recert.bundles.layout import CONTENTS
from recert.cache.signing import create_key
from recert.data import load_data
from recert.errors import CorruptBundle
from recert.report import read_result
from tests.bundles.conftest import Chosen, forged, listed_anew
from tests.test_cli import SMALL
from tests.test_cli import recert as command


def test_from_select_to_check_in_a_fresh_folder_and_process(chosen: Chosen, tmp_path: Path) -> None:
    bundle = tmp_path / "winner.recert"
    made = command(
        "bundle", str(chosen.result), "-m", str(chosen.model), "--cache", str(chosen.cache), "-o", str(bundle)
    )
    assert made.returncode == 0, made.stderr
    run = subprocess.run(
        [sys.executable, "-m", "recert", "check", bundle.name, "--audit", "--data", "digits", "--original", "digits", "-f", "json"],
        cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["holds"]
    assert found["sentence"].startswith("winner.recert holds: this model file has the certificates of 6 inputs")
    assert any("kept votes that were replayed" in line and "audit: 0 of" in line for line in found["checked"])
    assert any(line.startswith("audit of the original: genuine") for line in found["checked"])
    assert "labels: they are those of the data" in found["checked"]
    assert [line.partition(":")[0] for line in found["not checked"]] == ["signature"]


def test_one_changed_byte_anywhere_is_named(copied: Path) -> None:
    """The middle byte of every file in turn."""
    files = sorted(path for path in copied.rglob("*") if path.is_file())
    assert {path.relative_to(copied).parts[0] for path in files} == {
        "model", "result", "cache", "votes", "report.html", CONTENTS,
    }  # fmt: skip
    for path in files:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
        run = command("check", str(copied))
        name = path.relative_to(copied).as_posix()
        if name == CONTENTS:
            assert run.returncode == 1
            assert CONTENTS in run.stderr
        else:
            assert run.returncode == 3
            assert run.stdout.splitlines()[0].startswith(f"{name}: it was changed")
        path.write_bytes(data)
    assert command("check", str(copied)).returncode == 0


def test_missing_and_added_files_are_named(copied: Path) -> None:
    (copied / "report.html").rename(copied / "model" / "other.onnx")
    found = recert.check(copied)
    assert found.problems[:2] == (
        "model/other.onnx: it is not in the list of contents; it was added",
        "report.html: it is missing",
    )


def test_signatures(chosen: Chosen, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = create_key(tmp_path / "mine.pem"), create_key(tmp_path / "other.pem")
    signed = tmp_path / "signed"
    recert.bundle(chosen.result, chosen.model, signed, cache=chosen.cache, key=tmp_path / "mine.pem")
    assert "signature: by the owner of this key" in recert.check(signed, public_key=mine).checked
    assert "another key signed it" in recert.check(signed, public_key=other).problems[0]
    signature = (signed / "bundle.sig").read_bytes()
    for at in (0, 30, len(signature) - 4, len(signature) - 1):  # fourth from the end: some of its bits are not used
        (signed / "bundle.sig").write_bytes(signature[:at] + bytes([signature[at] + 1]) + signature[at + 1 :])
        assert recert.check(signed, public_key=mine).problems[0].startswith("bundle.sig: it ")
    (signed / "bundle.sig").write_bytes(signature)
    assert "there is none" in recert.check(copied, public_key=mine).problems[0]
    monkeypatch.setenv("RECERT_PUBLIC_KEY", str(other))
    assert not recert.check(signed).holds
    monkeypatch.delenv("RECERT_PUBLIC_KEY")
    # A forger who writes the hashes anew passes without a key, and not with one.
    listed_anew(signed, made="2000-01-01T00:00:00Z")
    assert recert.check(signed).holds
    assert "bundle.json was changed" in recert.check(signed, public_key=mine).problems[0]


def test_another_model_is_not_the_one(chosen: Chosen, copied: Path, tmp_path: Path) -> None:
    other = recert.approximate(
        recert.load_model("digits").model, "int8",
        calibration=recert.Calibration(load_data("digits", split="train", count=32).inputs, recert.Gaussian(0.5)),
    )  # fmt: skip
    other.save(copied / "model" / "winner.onnx")
    listed_anew(copied)
    found = recert.check(copied)
    assert found.problems == (
        "winner.onnx: it is not the model that the certificates are about; its weights are others",
    )
    with pytest.raises(CorruptBundle, match="belong together"):
        recert.bundle(chosen.result, copied / "model" / "winner.onnx", tmp_path / "b.recert")
    assert not (tmp_path / "b.recert").exists()
    run = command("check", "--model", str(copied / "model" / "winner.onnx"), "--result", str(chosen.result))
    assert run.returncode == 3
    run = command("check", "--model", str(chosen.model), "--result", str(chosen.result), "--cache", str(chosen.cache))
    assert run.returncode == 0, run.stdout


def test_without_its_card_a_graph_is_computed_by_another_class(copied: Path) -> None:
    (copied / "model" / "winner.onnx.json").unlink()
    listed_anew(copied)
    assert "computes otherwise" in recert.check(copied).problems[0]


@pytest.mark.parametrize(
    ("column", "change", "expected"),
    [
        ("radius", lambda c: c.radius * 1.01, "do not follow from their bounds"),
        ("prediction", lambda c: np.where(c.certified, (c.prediction + 1) % 10, -1), "other classes or counts"),
        ("top_votes", lambda c: c.top_votes + 1, "other classes or counts"),
        ("alpha", lambda c: c.alpha / 2, "alpha that is not that of the settings"),
        ("outcome", lambda c: np.full(len(c), "no-majority", dtype=object), "do not follow"),
        ("settings", lambda c: replace(c.settings, seed=1), "seed 0, the result 1"),
        ("settings", lambda c: replace(c.settings, error=c.settings.alpha / 2), "is below alpha"),
        ("input", lambda c: np.array(["0" * 64] * len(c), dtype=object), "inputs of the result are not in it"),
    ],
)
def test_forged_results_are_found(column: str, change: object, expected: str, copied: Path) -> None:
    path = copied / "result" / "winner.parquet"
    before = read_result(path).certificates
    assert before.certified.any()
    forged(path, **{column: change(before)})  # type: ignore[operator]
    listed_anew(copied)
    found = recert.check(copied)
    assert any(expected in problem for problem in found.problems), found.problems


def test_a_result_of_the_original_is_bounded_again_from_its_cache(chosen: Chosen, tmp_path: Path) -> None:
    found = recert.bundle(chosen.folder / "base.parquet", "digits", tmp_path / "base.recert", cache=chosen.cache)
    assert "claims: all of 6 inputs follow from the votes of the cache, bounded again" in found.checked
    inputs = load_data("digits").inputs
    audited = recert.check(tmp_path / "base.recert", audit=inputs)
    assert audited.holds
    assert any(line.startswith("audit: genuine") for line in audited.checked)
    assert not recert.check(tmp_path / "base.recert", audit=inputs[100:]).holds


def test_bounds_are_those_of_scipy() -> None:
    """One vote less than the bound needs, by scipy's own beta distribution, is a claim that does not follow."""
    x = load_data("digits", count=4).inputs
    cache = recert.certify(
        recert.load_model("digits").model, x, noise=recert.Gaussian(0.5), samples=200, certificate="one-sided"
    )
    result = cache.certificates
    for row in range(len(x)):
        votes = int(result.top_votes[row])
        bound = stats.beta.ppf(0.001, votes, 200 - votes + 1)
        assert result.top_lower[row] == pytest.approx(bound, rel=1e-6)
    assert check_claims(result, None).problems == ()
    fewer = replace(result, top_votes=result.top_votes - (result.certified * 1))
    assert "larger than their counts allow" in check_claims(fewer, None).problems[0]


@pytest.mark.parametrize("method", ["series", "joint", "paired", "irs", "scratch", "scratch-cached"])
@pytest.mark.parametrize("certificate", ["one-sided", "two-sided"])
def test_what_a_method_claims_is_never_refused_and_a_flip_less_is(method: str, certificate: str) -> None:
    if method == "irs" and certificate == "two-sided":
        return
    x = load_data("digits", count=6).inputs
    net = recert.load_model("digits").model
    cache = recert.certify(net, x, noise=recert.Gaussian(0.5), samples=600, certificate=certificate)
    pruned = recert.approximate(net, "prune:0.5").model
    result = recert.recertify(pruned, x, cache, samples=100, method=method, certificate=certificate, keep=False)
    found = check_claims(result, cache.manifest)
    assert found.problems == ()
    assert result.certified.any()
    if certificate == "one-sided":
        assert not any("not all of their counts" in line for line in found.not_checked)
    # More flips than there were: the bounds no longer follow. Of fresh votes, fewer votes for the class.
    flipped = (result.replayed > 0) & (result.kept > 10) & result.certified
    if flipped.any():
        result = replace(result, lost=result.lost + 10 * flipped, kept=result.kept - 10 * flipped)
    else:
        result = replace(result, top_votes=np.maximum(0, result.top_votes - 10))
    worse = check_claims(result, cache.manifest)
    if method == "joint" and certificate == "two-sided":
        assert any("joint: not all of their counts" in line for line in worse.not_checked)
    else:
        assert any("larger than their counts allow" in line for line in worse.problems)


def test_a_bound_that_spends_all_of_alpha_beside_one_on_the_runner_up_is_found() -> None:
    x = load_data("digits", count=6).inputs
    net = recert.load_model("digits").model
    cache = recert.certify(net, x, noise=recert.Gaussian(0.5), samples=600)
    pruned = recert.approximate(net, "prune:0.5").model
    result = recert.recertify(pruned, x, cache, samples=100, method="series", keep=False)
    own = (result.runner_up_upper < 0.999 * (1 - result.top_lower)) & result.certified
    assert own.any()
    counts = (result.top_votes, 600, result.kept, np.maximum(1, result.kept + result.lost))
    whole = recert.bounds.series_lower(*counts, result.settings.alpha)
    whole = np.where(own, np.maximum(whole, result.top_lower), result.top_lower)
    assert (whole > result.top_lower).any()
    radius = recert.Gaussian(0.5).radius(whole, result.runner_up_upper)
    forged = replace(result, top_lower=whole, radius=np.where(result.certified, radius, 0.0))
    assert "larger than their counts allow" in check_claims(forged, cache.manifest).problems[0]


def test_another_look_at_the_same_model_does_not_confuse(chosen: Chosen, tmp_path: Path) -> None:
    """Two plans with all else equal: each result is computed again by its own."""
    for plan in ("acr", "accuracy:0.3"):
        saved, result = tmp_path / "m.safetensors", tmp_path / f"{plan[:3]}.parquet"
        run = command(
            "recertify", *SMALL, "--store", str(chosen.cache), "--samples", "90", "-a", "prune:0.35", "--save", str(saved),
            "-o", str(result), "--votes", str(tmp_path / "votes"), "--plan", plan,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
    for plan in ("acr", "acc"):
        found = recert.bundle(
            tmp_path / f"{plan}.parquet", saved, tmp_path / plan, cache=chosen.cache, votes=tmp_path / "votes"
        )
        assert any("planned, counted and bounded again" in line for line in found.checked)


def test_everything_is_computed_again_from_the_votes_of_both_models(
    chosen: Chosen, copied: Path, tmp_path: Path
) -> None:
    again = "claims: all of 6 inputs were planned, counted and bounded again from the votes of both models"
    assert again in recert.check(copied).checked
    saved, result = tmp_path / "m.safetensors", tmp_path / "r.parquet"
    run = command(
        "recertify", *SMALL, "--store", str(chosen.cache), "--samples", "100", "-a", "prune:0.4", "--save", str(saved),
        "-o", str(result), "--votes", str(tmp_path / "votes"), "--plan", "accuracy:0.25",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = recert.bundle(result, saved, tmp_path / "b", cache=chosen.cache, votes=tmp_path / "votes")
    assert again in found.checked
    assert not any(line.startswith("claims") for line in found.not_checked)
    # A bound on the runner-up that no count of the result shows, made a little smaller, with the radius that follows.
    path = tmp_path / "b" / "result" / "r.parquet"
    before = read_result(path).certificates
    own = before.runner_up_upper < 0.999 * (1 - before.top_lower)
    assert own.any()
    upper = np.where(own, 0.98, 1.0) * before.runner_up_upper
    radius = recert.Gaussian(0.5).radius(before.top_lower, upper)
    forged(path, runner_up_upper=upper, radius=np.where(before.certified, radius, 0.0))
    listed_anew(tmp_path / "b")
    assert any(
        "rows of the result are not what the stored votes" in line for line in recert.check(tmp_path / "b").problems
    )


def test_only_what_the_cache_is_about(chosen: Chosen, tmp_path: Path) -> None:
    found = recert.bundle(chosen.result, chosen.model, tmp_path / "b", cache=chosen.cache, whole_cache=False)
    assert not list((tmp_path / "b").rglob("part-*"))
    assert "cache: votes, which are not in the bundle" in found.not_checked
    audited = recert.check(tmp_path / "b", audit=load_data("digits").inputs)
    assert "there are no votes of this model to replay" in audited.problems[0]


def test_votes_of_another_model_are_found_by_an_audit(chosen: Chosen, tmp_path: Path) -> None:
    """Kept votes that say another class than the model does, in a store that is sound in itself."""
    from recert.cache import Cache
    from recert.cache.parts import Row, encode
    from recert.storage import Directory

    recert.bundle(chosen.result, chosen.model, tmp_path / "b", cache=chosen.cache)
    votes = tmp_path / "b" / "votes"
    store = Cache.open(votes)
    name = store.part_names()[0]
    _, rows = store.part(name)
    shifted = [Row.of(r.digest, r.stream, r.samples, (r.votes + 1) % 10, r.seconds, 10) for r in rows]
    new, data = encode(shifted, 10, store.manifest.context)
    (votes / name).unlink()
    Directory(votes).write(new, data)
    manifest = json.loads((votes / "_manifest.json").read_text())
    manifest["parts"] = [new]
    (votes / "_manifest.json").write_text(json.dumps(manifest))
    listed_anew(tmp_path / "b")
    found = recert.check(tmp_path / "b", audit=load_data("digits").inputs)
    assert "are not what the model says" in found.problems[0]


def test_recertify_saves_what_it_certifies(chosen: Chosen, tmp_path: Path) -> None:
    saved, result = tmp_path / "m.safetensors", tmp_path / "r.parquet"
    run = command(
        "recertify", *SMALL, "--store", str(chosen.cache), "--samples", "100", "-a", "prune:0.3[!conv1]", "--save", str(saved),
        "-o", str(result), "--votes", str(tmp_path / "votes"),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert recert.check(model=saved, result=result, cache=chosen.cache).holds
    graph = tmp_path / "g.onnx"
    run = command(
        "recertify", *SMALL, "--store", str(chosen.cache), "--samples", "100", "-a", "prune:0.3", "--save", str(graph),
        "--runtime", "onnxruntime", "-o", str(result), "--no-keep-votes",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert recert.check(model=graph, result=result).holds


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-a", "int8", "--save", "m.safetensors"], "ending in .onnx for this model"),
        (["-a", "prune:0.3", "--save", "m.onnx"], "ending in .safetensors for this model"),
        (["--save", "m.pt"], "expected an output file ending in .safetensors or .onnx"),
        (["-a", "bf16", "--save", "m.safetensors", "--precision", "bf16"], "expected no --precision"),
    ],
)
def test_recertify_refuses_what_cannot_be_saved_at_once(arguments: list[str], message: str) -> None:
    run = command("recertify", *SMALL, "--store", "nowhere", *arguments)
    assert run.returncode == 1
    assert message in run.stderr


def test_bad_arguments(chosen: Chosen, tmp_path: Path) -> None:
    for arguments, message in (
        (["check"], "got neither"),
        (["check", "x.recert", "--model", "m.onnx"], "got both"),
        (["check", "x.recert", "--audit"], "expected --audit and --data together"),
        (["check", "x.recert", "--original", "digits"], "expected --original with --audit"),
        (["check", str(tmp_path / "none.recert")], "does not exist"),
        (["check", str(chosen.model)], "expected a bundle"),
        (["bundle", str(chosen.cache), "-m", str(chosen.model), "-o", "b.recert"], "export it first"),
        (["bundle", str(chosen.result), "-m", str(chosen.model), "-o", str(chosen.folder)], "choose another name"),
    ):
        run = command(*arguments)
        assert run.returncode == 1, arguments
        assert message in run.stderr, run.stderr
