"""recert cache and --shard on the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from recert import Cache, Gaussian
from recert.caching import CachingSource
from recert.cli.shards import Shard, parse_shard
from recert.data import load_data
from recert.noise import Stream
from recert.sampling import Sampler, Work, collect
from tests.cache.stores import forge, inputs, network
from tests.test_cli import recert

SMALL = ["--model", "digits", "--data", "digits", "--count", "7"]
CERTIFY = ["certify", *SMALL, "--samples", "400"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards, merged, and the same in one run."""
    folder = tmp_path_factory.mktemp("shards")
    for i in (1, 2, 3):
        run = recert(*CERTIFY, "--shard", f"{i}/3", cwd=folder)
        assert run.returncode == 0, run.stderr
    stores = [f"runs/digits-gaussian-0.5-shard-{i}-of-3" for i in (1, 2, 3)]
    merged = recert("cache", "merge", "merged", *stores, cwd=folder)
    assert merged.returncode == 0, merged.stderr
    assert "7 inputs of 3 stores" in merged.stderr
    size = str(Cache.open(folder / "merged").manifest.batch_size)
    assert recert(*CERTIFY, "--store", str(folder / "whole"), "--batch-size", size).returncode == 0
    return folder


def test_shards_are_exactly_the_inputs(runs: Path) -> None:
    merged, whole = Cache.open(runs / "merged"), Cache.open(runs / "whole")
    sizes = [len(Cache.open(store).digests) for store in sorted((runs / "runs").iterdir())]
    assert sizes == [3, 2, 2]
    assert merged.manifest.batch_size == 2_048  # the usual one for 64 elements, whatever a clock says
    assert sorted(merged.manifest.inputs) == sorted(whole.manifest.inputs)
    assert [merged.votes(d).tolist() for d in whole.digests] == [whole.votes(d).tolist() for d in whole.digests]


@pytest.mark.parametrize("total", [1, 2, 5, 7])
def test_every_input_is_in_one_shard(total: int) -> None:
    data = load_data("digits", count=7)
    indices = [Shard(i, total).of(data).indices for i in range(1, total + 1)]
    assert sorted(np.concatenate(indices)) == sorted(data.indices)
    assert Shard(2, 7).of(data).indices.tolist() == [data.indices[1]]
    assert np.array_equal(Shard(1, 3).of(data).inputs, data.inputs[[0, 3, 6]])
    with pytest.raises(ValueError, match="at most 7 shards of 7 inputs, got 8"):
        Shard(1, 8).of(data)


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "1", "1/0", "-1/3", "1/3/5", " 1/3", "a/b", "1/", "٣/٤", "1" * 30 + "/2"]
)
def test_bad_shards(text: str) -> None:
    with pytest.raises(ValueError, match="expected a shard like 1/8"):
        parse_shard(text)


def test_show(runs: Path) -> None:
    shown = recert("cache", "show", "merged", cwd=runs)
    assert shown.returncode == 0
    for word in (
        "model name (untrusted)",
        "gaussian:0.5",
        "megabytes",
        "batch size",
        "█",
        "certified inputs by radius",
    ):
        assert word in shown.stdout
    facts = json.loads(recert("cache", "show", "merged", "-f", "json", cwd=runs).stdout)[0]
    assert (facts["model name (untrusted)"], facts["inputs"], facts["seed"]) == ("digits", 7, 0)
    shares = Cache.open(runs / "merged").certificates.top_votes / 400
    for b in facts["inputs by share of votes for the class"]:
        last = b["end"] == 1.0
        expected = sum(b["start"] <= s < b["end"] or (last and s == 1.0) for s in shares)
        assert b["inputs"] == expected
    assert (
        sum(b["inputs"] for b in facts["certified inputs by radius"])
        == Cache.open(runs / "merged").certificates.certified.sum()
    )
    assert recert("cache", "show", "merged", "-f", "csv", cwd=runs).stdout.count("\n") == 2


def test_audit(runs: Path, tmp_path: Path) -> None:
    run = recert("cache", "audit", str(runs / "merged"), "--model", "digits", "--data", "digits")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("genuine: 0 of ")  # the answer first
    assert "[]" not in run.stdout
    assert not re.search(r"[1-9][0-9]*\.[0-9]{4}", run.stdout)
    assert "tried many seeds" in run.stderr
    facts = json.loads(recert("cache", "audit", str(runs / "merged"), *SMALL, "-f", "json").stdout)[0]
    assert facts["verdict"] == "genuine"
    assert 0 < facts["average certified radius that survives"] < facts["average certified radius claimed"]
    few = recert("cache", "audit", str(runs / "merged"), *SMALL, "--samples", "4")
    assert few.returncode == 3
    assert few.stdout.startswith("not decided: ")
    part = recert("cache", "audit", str(runs / "merged"), *SMALL[:-1], "3")
    assert "4 inputs of the cache are not in this data" in part.stderr


def test_audit_of_votes_that_were_computed_otherwise(tmp_path: Path) -> None:
    few = [*SMALL[:-1], "2"]
    otherwise = ["--precision", "bf16", "--no-channels-last"]
    made = recert("certify", *few, *otherwise, "--samples", "200", "--store", str(tmp_path / "run"))
    assert made.returncode == 0, made.stderr
    plain = recert("cache", "audit", str(tmp_path / "run"), *few)
    assert plain.returncode == 1
    assert "the cache was made with model" in plain.stderr
    audit = recert("cache", "audit", str(tmp_path / "run"), *few, *otherwise, "--detect", "0.1", "-f", "json")
    assert audit.returncode == 0, audit.stderr
    facts = json.loads(audit.stdout)[0]
    assert (facts["verdict"], facts["other numerics"]) == ("genuine", [])


def test_audit_of_a_forged_cache(runs: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(runs / "merged", tmp_path / "forged")
    forge(tmp_path / "forged", 0.3)
    run = recert("cache", "audit", str(tmp_path / "forged"), *SMALL)
    assert run.returncode == 3
    assert run.stdout.startswith("not genuine: ")
    other = recert("cache", "audit", str(tmp_path / "forged"), *SMALL, "--model", "digits:0.25")
    assert other.returncode == 1
    assert "model weights" in other.stderr


def test_keygen_sign_and_verify(runs: Path) -> None:
    pytest.importorskip("cryptography")
    assert recert("cache", "keygen", "key.pem", cwd=runs).returncode == 0
    assert recert("cache", "sign", "whole", "--key", "key.pem", cwd=runs).returncode == 0
    assert recert("cache", "verify", "whole", "--public-key", "key.pem.pub", cwd=runs).returncode == 0
    data = load_data("digits", count=7)
    np.savez(runs / "renamed.npz", inputs=data.inputs, labels=data.labels)
    for called in ("digits", "renamed.npz"):  # nothing to draw, nothing changed
        again = recert(*CERTIFY, "--data", called, "--store", "whole", cwd=runs)
        assert again.returncode == 0, again.stderr
    assert recert("cache", "verify", "whole", "--public-key", "key.pem.pub", cwd=runs).returncode == 0
    assert recert("certify", *SMALL[:-1], "8", "--samples", "400", "--store", str(runs / "whole")).returncode == 0
    broken = recert("cache", "verify", "whole", "--public-key", "key.pem.pub", cwd=runs)
    assert broken.returncode == 1
    assert "sign again" in broken.stdout


def test_a_store_that_is_busy_when_names_are_noted_costs_no_result(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes the lock after the last vote, before the names: the table and --out are written all the same."""
    real = Cache.remember_names

    def late(self: Cache, **names: str) -> None:
        with Cache.locked(tmp_path / "run"):
            real(self, **names)

    monkeypatch.setattr(Cache, "remember_names", late)
    run = recert(*CERTIFY, "--store", str(tmp_path / "run"), "--out", str(tmp_path / "out.csv"))
    assert run.returncode == 0, run.stderr
    assert "names of model and data were not noted" in run.stderr
    assert "another process is writing" in " ".join(run.stderr.split())
    assert "digits" in run.stdout
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 8


def test_a_store_that_cannot_be_named_after_deciding_costs_no_result(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --at the store is opened anew to be named: locked, or with a part that went bad, the result is still written."""
    command = [*CERTIFY, "--at", "0.25", "--store", str(tmp_path / "run"), "--out", str(tmp_path / "out.csv")]
    real = Cache.just_written

    def late(store: str) -> Cache:
        part = next((tmp_path / "run").glob("part-*"))
        part.write_bytes(part.read_bytes()[:-1])
        return real(store)

    monkeypatch.setattr(Cache, "just_written", late)
    run = recert(*command)
    assert run.returncode == 0, run.stderr
    assert "names of model and data were not noted" in run.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 8


def test_a_configured_key_costs_no_result_that_is_decided(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can have signed a store that is only now written."""
    pytest.importorskip("cryptography")
    assert recert("cache", "keygen", "key.pem", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("RECERT_PUBLIC_KEY", str(tmp_path / "key.pem.pub"))
    run = recert(*CERTIFY, "--at", "0.25", "--store", "run", "--out", "out.csv", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 8
    assert json.loads((tmp_path / "run" / "_manifest.json").read_text())["names"]["data"] == "digits"


def test_a_mismatch_names_the_model_and_a_short_hash(runs: Path) -> None:
    run = recert(*CERTIFY, "--store", str(runs / "merged"), "--model", "digits:0.25")
    line = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 1
    assert "(digits), but here it is" in line
    assert not any(len(word) > 40 and set(word) <= set("0123456789abcdef") for word in line.replace(";", " ").split())


def test_stores_of_scattered_votes_are_shown_verified_and_merged(tmp_path: Path) -> None:
    source = Sampler(network(), inputs(7), noise=Gaussian(0.5), seed=0, batch_size=16)
    for name, first in (("a", 0), ("b", 3)):
        with CachingSource(source, store=tmp_path / name) as votes:
            works = [Work(i, Stream.ESTIMATION, np.array([2, 5, 90]) + i) for i in range(first, first + 4)]
            collect(votes, [*works, Work(0, Stream.FRESH, range(20))], "test")
    merged = recert("cache", "merge", "whole", "a", "b", cwd=tmp_path)
    assert merged.returncode == 0, merged.stderr
    assert "7 inputs of 2 stores, scattered votes, in 2 parts" in merged.stderr
    verified = recert("cache", "verify", "whole", cwd=tmp_path)
    assert (verified.returncode, verified.stdout) == (0, "")
    assert "such a store promises no votes" in verified.stderr
    assert "nothing is wrong with what was checked" in verified.stderr
    shown = recert("cache", "show", "whole", cwd=tmp_path)
    assert shown.returncode == 0
    assert "which certify nothing" in shown.stderr
    facts = json.loads(recert("cache", "show", "whole", "-f", "json", cwd=tmp_path).stdout)[0]
    counted = {name: facts[f"{name} votes of all inputs"] for name in ("selection", "estimation", "fresh")}
    assert counted == {"selection": 0, "estimation": 21, "fresh": 20}
    assert "votes per input" not in facts
    exported = recert("cache", "export", "whole", "x.csv", cwd=tmp_path)
    assert exported.returncode == 1
    assert "expected a cache with all votes of its inputs" in exported.stderr.strip().splitlines()[-1]
