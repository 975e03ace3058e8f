"""What goes into a cache comes out of it; merging in any order gives the same votes; specs are read or refused in words."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recert
from recert import parquet_pages
from recert.approximations.registry import parse
from recert.cache import Cache, merge, parts, strict_json
from recert.cache.manifest import Manifest
from recert.cache.votes import VoteTable
from recert.cache.writer import PartWriter
from recert.cli.requirements import check_forms
from recert.cli.shards import parse_shard, plain_name
from recert.data import Dataset, load_data
from recert.errors import RecertError
from recert.models import load_model
from recert.models.numerics import Numerics
from recert.noise import Stream, parse_noise
from recert.planning import parse_plan
from recert.votes import count_votes, nobody, vote_dtype
from tests.cache.stores import OPTIONS, network

FEW = settings(max_examples=12, deadline=None, derandomize=True)
MANY = settings(max_examples=100, deadline=None, derandomize=True)

classes = st.sampled_from([2, 3, 10, 255, 256, 1000])


@st.composite
def vote_arrays(draw: Any) -> tuple[int, np.ndarray, np.ndarray]:
    """Classes, estimation and selection votes, -1 for nobody, few different or many."""
    kinds = draw(classes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, n, n0 = draw(st.integers(1, 5)), draw(st.integers(20, 200)), draw(st.integers(1, 40))
    top = draw(st.integers(0, kinds))
    return kinds, rng.integers(-1, top, size=(count, n)), rng.integers(-1, top, size=(count, n0))


@FEW
@given(vote_arrays(), st.integers(1, 400))
def test_votes_survive_the_store(given_votes: tuple[int, np.ndarray, np.ndarray], votes_per_part: int) -> None:
    kinds, votes, selection = given_votes
    source = recert.StoredVotes(votes, selection=selection, classes=kinds)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("recert.cache.writer.VOTES_PER_PART", votes_per_part)
        options = {
            "noise": recert.Gaussian(1.0),
            "samples": votes.shape[1],
            "selection_samples": selection.shape[1],
            "alpha": 0.3,
        }
        recert.certify(source, None, **options, store=folder)  # type: ignore[arg-type]
        opened = Cache.open(folder)
        for i, digest in enumerate(opened.digests):
            for stream, wanted in ((Stream.ESTIMATION, votes[i]), (Stream.SELECTION, selection[i])):
                back = opened.votes(digest, stream).astype(int)
                assert np.where(back == nobody(vote_dtype(kinds)), -1, back).tolist() == wanted.tolist()
        assert opened.verify() == []
        merged = merge(Path(folder) / "merged", [folder, folder])
        assert merged.certificates.radius.tolist() == opened.certificates.radius.tolist()


@MANY
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=12), st.data())
def test_pieces_in_any_order_are_one_tally(pieces: list[tuple[int, int]], data: st.DataObject) -> None:
    """Ranges that overlap are refused; ranges that do not give the counts of the whole, whatever their order."""
    truth = np.random.default_rng(0).integers(0, 3, size=100).astype(np.uint8)
    table = VoteTable(None, "context", 3)
    taken: list[range] = []
    for start, length in data.draw(st.permutations(pieces)):
        row = parts.Row(
            "ab" * 32,
            Stream.ESTIMATION,
            start,
            length,
            count_votes(truth[start : start + length], 3),
            0.0,
            truth[start : start + length],
        )
        again = range(start, start + length) in taken
        overlaps = any(set(range(start, start + length)) & set(r) for r in taken)
        if overlaps and not again:
            with pytest.raises(RecertError):
                table.add([row], None)
        else:
            table.add([row], None)
            taken += [] if again else [range(start, start + length)]
    known = sorted(i for r in taken for i in r)
    reached = next((i for i in range(101) if i not in set(known)), 100)
    assert table.votes("ab" * 32, Stream.ESTIMATION, reached).tolist() == truth[:reached].tolist()
    assert table.counts("ab" * 32, Stream.ESTIMATION, reached, 3).tolist() == count_votes(truth[:reached], 3).tolist()
    assert sorted(i for gap in table.missing("ab" * 32, Stream.ESTIMATION, 90) for i in gap) == sorted(
        set(range(90)) - set(known)
    )


@MANY
@given(st.lists(st.integers(1, 50), min_size=1, max_size=10))
def test_a_writer_joins_what_follows(lengths: list[int]) -> None:
    closed: list[list[parts.Row]] = []
    writer = PartWriter(3, closed.append)
    votes = np.random.default_rng(1).integers(0, 3, size=sum(lengths)).astype(np.uint8)
    at = 0
    for length in lengths:
        writer.add("cd" * 32, Stream.SELECTION, at, votes[at : at + length], 0.5)
        at += length
    writer.flush()
    ((row,),) = closed
    assert row.votes is not None
    assert (row.votes.tolist(), row.length, row.seconds) == (votes.tolist(), at, 0.5 * len(lengths))


texts = st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=4)


@MANY
@given(texts, texts)
def test_mixing_keeps_every_value_and_repeats_nothing(before: dict[str, str], now: dict[str, str]) -> None:
    first, second = Numerics.from_text(before), Numerics.from_text(now)
    mixed = first.joined(second)
    assert set(mixed.values) == {*before, *now}
    assert mixed.joined(second) == mixed
    for name, values in mixed.values.items():
        seen = [value for texts in (before, now) if name in texts for value in texts[name].split(", ")]
        assert list(values) == sorted(set(seen), key=seen.index)
    assert first.to_text() == before
    assert first.not_seen_in(mixed) == [name for name in sorted(now) if name not in before]


@MANY
@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_refused(data: bytes) -> None:
    with pytest.raises(RecertError):
        Manifest.from_json(data)


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=10,
)  # fmt: skip


@MANY
@given(nested)
def test_strict_json_reads_what_json_reads(value: object) -> None:
    import json

    assert strict_json.parse(json.dumps(value).encode()) == value


@MANY
@given(st.binary(max_size=300), st.integers(0, 300), st.integers(1, 10**6), st.integers(0, 10**6))
def test_page_headers_of_any_bytes(data: bytes, offset: int, values: int, size: int) -> None:
    class Column:
        data_page_offset, num_values, total_compressed_size, has_dictionary_page, dictionary_page_offset = (
            offset,
            values,
            size,
            False,
            None,
        )

    try:
        held, unpacked = parquet_pages.unpacked(data, Column)
        assert held >= 0
        assert unpacked >= 0
    except ValueError:
        pass


SPECS: dict[str, Callable[[str], Any]] = {
    "noise": parse_noise,
    "plan": parse_plan,
    "shard": parse_shard,
    "requirement": lambda text: check_forms([text]),
    "approximation": parse,
    "name": plain_name,
}
WORDS = ["gaussian", "laplace", "digits", "cifar10", "prune", "int8", "acr", "accuracy", "1", "0.5", "-1", "nan", "inf", "1e9", ":", "@", "/", ">=", ".", "", " ", "[", "\x00", "é", "٣"]  # fmt: skip
spec_texts = st.text(max_size=30) | st.lists(st.sampled_from(WORDS), max_size=6).map("".join)


def answer(read: Callable[[str], Any], text: str, *refusals: type[Exception]) -> str:
    """What a reader says: nothing else than a refusal in words may come out of it."""
    try:
        read(text)
    except refusals as error:
        return str(error)
    return "read"


@pytest.mark.parametrize("kind", SPECS)
@MANY
@given(spec_texts)
def test_specs_are_read_or_refused_in_words(kind: str, text: str) -> None:
    assert answer(SPECS[kind], text, RecertError, ValueError)


@pytest.mark.parametrize("load", [load_model, load_data])
@MANY
@given(text=spec_texts.filter(lambda text: text.strip() not in ("digits", "/", ".") and not text.startswith("/")))
def test_specs_of_files_are_read_or_refused_in_words(load: Callable[[str], Any], text: str) -> None:
    assert answer(load, text, RecertError, ValueError, OSError, ImportError)


def dataset(count: int) -> Dataset:
    """Inputs, labels and positions that tell each other apart."""
    inputs = np.random.default_rng(count).normal(size=(count, 4)).astype(np.float32)
    return Dataset("some", inputs, 100 + np.arange(count), 7 * np.arange(count))


def shards_of(data: Dataset, total: int) -> list[Dataset]:
    shards = [parse_shard(f"{number}/{total}") for number in range(1, total + 1)]
    return [shard.of(data) for shard in shards if shard is not None]


@MANY
@given(st.integers(1, 40), st.integers(1, 40))
def test_shards_share_out_everything_once(count: int, total: int) -> None:
    """Every input goes to one shard, with its label and its position; no shard has more than one input more than another."""
    data = dataset(count)
    if total > count:
        with pytest.raises(ValueError, match=f"at most {count} shards"):
            shards_of(data, total)
        return
    shards = shards_of(data, total)
    assert len(shards) == total
    sizes = [len(shard) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    found = {}
    for shard in shards:
        assert shard.labels is not None
        for x, label, position in zip(shard.inputs, shard.labels, shard.indices, strict=True):
            assert position not in found, "an input is in two shards"
            found[int(position)] = (x.tobytes(), int(label))
    assert found == {7 * i: (data.inputs[i].tobytes(), 100 + i) for i in range(count)}


@FEW
@given(st.integers(1, 7), st.data())
def test_merged_shards_certify_as_the_whole_does(count: int, drawn: st.DataObject) -> None:
    data, total = dataset(count), drawn.draw(st.integers(1, count))
    whole = recert.certify(network(), data.inputs, **OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        stores = [Path(folder) / str(number) for number in range(total)]
        for store, shard in zip(stores, shards_of(data, total), strict=True):
            recert.certify(network(), shard.inputs, **OPTIONS, store=store)
        merged = merge(Path(folder) / "merged", drawn.draw(st.permutations(stores)))
        assert sorted(merged.digests) == sorted(whole.digests)
        ours, theirs = merged.about(whole.digests).certificates, whole.certificates
        for column in ("input", "outcome", "prediction", "radius", "top_votes", "forward_passes"):
            assert getattr(ours, column).tolist() == getattr(theirs, column).tolist()
        again = Cache.open(Path(folder) / "merged")
        assert [again.votes(d).tolist() for d in whole.digests] == [whole.votes(d).tolist() for d in whole.digests]
