"""Numerics as a value: how two are joined and compared, and that files hold them as they always did."""

import json
from dataclasses import fields, replace

import pytest

from recert import Gaussian
from recert.cache.manifest import Manifest
from recert.errors import ContextMismatch, CorruptCache
from recert.models.identity import ModelIdentity
from recert.models.numerics import Numerics
from tests.report.conftest import SETTINGS

FORMS = {"dtype": "float32", "batch_size": "64, 32", "processor": "x86_64 AVX2, x86_64 AVX512", "empty": ""}


def numerics(**texts: str) -> Numerics:
    return Numerics.from_text(texts)


def test_the_text_form_goes_there_and_back() -> None:
    assert Numerics.from_text(FORMS).to_text() == FORMS
    assert list(Numerics.from_text(FORMS).to_text()) == list(FORMS)
    assert Numerics.from_text(FORMS).values["batch_size"] == ("64", "32")
    assert Numerics.from_text(FORMS).text("nothing") is None


def test_values_are_joined_in_the_order_in_which_they_came() -> None:
    joined = numerics(batch_size="64, 32", device="cpu").joined(numerics(batch_size="16, 64", torch="2.11"))
    assert list(joined.to_text().items()) == [("batch_size", "64, 32, 16"), ("device", "cpu"), ("torch", "2.11")]


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        ({"batch_size": "64", "device": "cpu"}, []),
        ({"batch_size": "32, 64", "device": "cpu"}, []),
        ({"batch_size": "64, 16", "device": "cpu"}, ["batch_size"]),
        ({"batch_size": "64", "device": "cuda"}, ["device"]),
        ({"batch_size": "64"}, ["device"]),
        ({"batch_size": "64", "device": "cpu", "torch": "2.11"}, ["torch"]),
    ],
)
def test_a_store_is_continued_with_values_that_it_has_seen(here: dict[str, str], expected: list[str]) -> None:
    assert Numerics.from_text(here).not_seen_in(numerics(batch_size="64, 32", device="cpu")) == expected


@pytest.mark.parametrize(
    ("text", "size"), [("64, 32", 64), ("1", 1), ("0", None), ("-1", None), ("", None), ("auto, 32", None)]
)
def test_the_batch_size_of_the_first_votes(text: str, size: int | None) -> None:
    assert numerics(batch_size=text).batch_size == size


def manifest(recorded: Numerics) -> Manifest:
    return Manifest(
        model=ModelIdentity("w", "s"), noise=Gaussian(0.5), seed=0, classes=2, input_shape=(4,),
        selection_samples=10, samples=20, alpha=0.1, certificate="one-sided", family=1, numerics=recorded,
    )  # fmt: skip


def test_a_manifest_holds_texts() -> None:
    data = manifest(Numerics.from_text(FORMS)).to_json()
    assert json.loads(data)["numerics"] == FORMS
    assert Manifest.from_json(data) == manifest(Numerics.from_text(FORMS))
    assert Manifest.from_json(data).to_json() == data


@pytest.mark.parametrize(
    "wrong", [None, 3, "cpu", ["cpu"], {"device": 3}, {"device": ["cpu"]}, {"device": {"values": "x"}}]
)
def test_a_manifest_with_something_else_is_refused(wrong: object) -> None:
    raw = json.loads(manifest(Numerics.from_text(FORMS)).to_json()) | {"numerics": wrong}
    with pytest.raises(CorruptCache, match="expected numerics as"):
        Manifest.from_json(json.dumps(raw).encode())


def test_a_dictionary_is_no_numerics() -> None:
    with pytest.raises(ValueError, match=r"expected numerics as a Numerics, got .*; make one with Numerics\.from_text"):
        manifest({"device": "cpu"})  # type: ignore[arg-type]


def test_a_mismatch_shows_all_values_of_both_sides() -> None:
    with pytest.raises(ContextMismatch, match=r"numerics\.batch_size = 64, 32, but here it is 8, 4"):
        manifest(numerics(batch_size="64, 32")).check_context(
            manifest(numerics(batch_size="8, 4")), allow_numerics=False
        )


def test_results_carry_texts() -> None:
    settings = replace(SETTINGS, cache_numerics=numerics(batch_size="64, 32"))
    plain = settings.to_dict()
    assert plain["numerics"] == {"dtype": "float32", "device": "cpu"}
    assert plain["cache_numerics"] == {"batch_size": "64, 32"}
    assert SETTINGS.to_dict()["cache_numerics"] is None
    assert list(plain) == [field.name for field in fields(settings)]
    assert json.loads(json.dumps(plain))["noise"] == settings.noise
