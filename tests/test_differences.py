"""Where two models are not the same, the message says in what; and a user may state that they are, which is recorded."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import recert
from recert import Cache, Execution
from recert.cache import merging
from recert.cache.manifest import MANIFEST
from recert.caching import CachingSource
from recert.errors import ContextMismatch
from recert.models import build_model
from recert.models.description import MOST_PARTS, describe
from recert.models.identity import differences
from recert.models.inference import prepare
from recert.report.reading import read_result
from recert.sampling import open_source
from tests.cache.stores import OPTIONS, inputs, make, network, rewrite_manifest
from tests.test_cli import recert as recert_command

NOISE = {"noise": OPTIONS["noise"], "seed": OPTIONS["seed"], "batch_size": OPTIONS["batch_size"]}
STATED = Execution(same_model=True, batch_size=32)


def annotated() -> Any:
    """The network with an attribute that its digest counts and no vote depends on."""
    model = network()
    model.note = "retrained"
    return model


def weight(model: Any) -> None:
    with torch.no_grad():
        model[2].weight[0, 0] += 1


def layer(model: Any) -> None:
    model[1] = nn.Sigmoid()


def attribute(model: Any) -> None:
    model[0].threshold = 3


def hook(model: Any) -> None:
    model[1].register_forward_hook(lambda module, given, answer: -answer)


def order(model: Any) -> None:
    model._modules = dict(sorted(model._modules.items(), reverse=True))


CHANGES: dict[Callable[[Any], None], list[str]] = {
    weight: ["2.weight"], layer: ["1.class"], attribute: ["0.threshold"], hook: ["1.hooks"], order: ["layers"],
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_only_what_was_changed_is_named(change: Callable[[Any], None]) -> None:
    model = network()
    before = describe(model).parts
    assert before == describe(copy.deepcopy(model)).parts == describe(network()).parts
    change(model)
    after = describe(model).parts
    assert [name for name in {**before, **after} if before.get(name) != after.get(name)] == CHANGES[change]
    assert differences(before, after).startswith(f"they differ in {CHANGES[change][0]} (")


def test_how_it_is_run_and_what_it_is_called() -> None:
    plain, half = describe(network()), describe(prepare(network(), precision="bf16"))
    assert "how it is run (only here)" in differences(plain.parts, half.parts)
    assert (plain.name, half.name, describe(network(), "mine").name) == ("Sequential", "Sequential", "mine")
    assert describe(order).name == "order"
    assert describe(order).parts == {}


def test_there_are_few_parts_of_a_large_network_and_they_still_name_the_block() -> None:
    model: Any = build_model("cifar-resnet110").eval()
    before = describe(model).parts
    assert len(before) <= MOST_PARTS
    assert max(map(len, (*before, *before.values()))) <= 120
    with torch.no_grad():
        model.layer2[7].conv1.weight[0, 0, 0, 0] += 1
    assert differences(before, describe(model).parts).startswith("they differ in layer2.7 (")


def test_names_that_no_terminal_should_see_are_escaped() -> None:
    model = network()
    setattr(model, "a\x1b[2J\n", 1)
    assert all(name.isprintable() and name.isascii() for name in describe(model).parts)


def test_a_store_that_another_model_made_names_the_difference(tmp_path: Path) -> None:
    make(tmp_path)
    other = network()
    weight(other)
    with pytest.raises(ContextMismatch, match=r"weights = \w{12} \(Sequential\), but here it is \w{12} \(Sequential\); they differ in "
                                              r"2\.weight \(\w{12}, here \w{12}\); use another store.*same_model=True"):  # fmt: skip
        recert.certify(other, inputs(), **OPTIONS, store=tmp_path)
    with pytest.raises(ContextMismatch, match=r"they differ in 2\.weight \("):
        recert.audit(other, inputs(), tmp_path)
    with pytest.raises(ContextMismatch, match=r"structure = .*they differ in note \(only here\)") as error:
        CachingSource(open_source(annotated(), inputs(), **NOISE), store=tmp_path)
    assert "same_model" not in str(error.value)  # where it is not taken, it is not offered


def test_a_store_of_an_older_version_says_less_and_stays_as_it_is(tmp_path: Path) -> None:
    make(tmp_path)
    rewrite_manifest(tmp_path, lambda m: {k: v for k, v in m.items() if k != "model_parts"} | {"names": {}})
    (tmp_path / MANIFEST).write_text(json.dumps(json.loads((tmp_path / MANIFEST).read_text()), indent=1) + "\n")
    before = (tmp_path / MANIFEST).read_bytes()
    make(tmp_path)
    assert (tmp_path / MANIFEST).read_bytes() == before  # a signature on it still holds
    with pytest.raises(ContextMismatch, match=r"but here it is \w{12} \(Sequential\); use another store"):
        recert.certify(annotated(), inputs(), **OPTIONS, store=tmp_path)
    assert make(tmp_path, samples=400).manifest.model_parts == describe(network()).parts


def test_on_the_users_word_a_store_is_continued_and_every_guarantee_says_so(tmp_path: Path) -> None:
    make(tmp_path / "s")
    grown = recert.certify(annotated(), inputs(), **_without_batch(samples=400), store=tmp_path / "s", execution=STATED)
    said = "which is the same on somebody's word"
    assert said in grown.certificates.guarantee
    read = Cache.open(tmp_path / "s")
    assert len(read.manifest.same_models) == 1
    assert said in read.certificates.guarantee
    assert said in recert.recertify(network(3), inputs(), read, samples=100).guarantee
    assert said not in recert.recertify(network(3), inputs(), read, samples=200, method="scratch").guarantee
    # It is stated once, and holds for this model alone.
    assert (
        recert.certify(annotated(), inputs(), **{**OPTIONS, "samples": 500}, store=tmp_path / "s").manifest.looks[-1]
        == 500
    )
    third = annotated()
    third.note = "another"
    with pytest.raises(ContextMismatch, match=r"they differ in note \(only here\)"):
        recert.certify(third, inputs(), **{**OPTIONS, "samples": 500}, store=tmp_path / "s")
    read.certificates.to_parquet(tmp_path / "r.parquet")
    assert said in read_result(tmp_path / "r.parquet").certificates.guarantee
    assert said not in make(tmp_path / "other").certificates.guarantee


def _without_batch(**changed: Any) -> dict[str, Any]:
    return {name: value for name, value in {**OPTIONS, **changed}.items() if name != "batch_size"}


def test_votes_that_differ_are_refused_whatever_is_stated(tmp_path: Path) -> None:
    make(tmp_path)
    before = (tmp_path / MANIFEST).read_bytes()
    other = network()
    with torch.no_grad():
        other[2].bias += torch.tensor([5.0, 0, 0])  # type: ignore[index, union-attr, operator]
    with pytest.raises(ContextMismatch, match="another class on"):
        recert.certify(other, inputs(), **_without_batch(), store=tmp_path, execution=STATED)
    assert (tmp_path / MANIFEST).read_bytes() == before


def test_other_noise_is_no_matter_of_the_model(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ContextMismatch, match="seed"):
        recert.certify(network(), inputs(), **_without_batch(seed=2), store=tmp_path, execution=STATED)


def test_an_audit_on_the_users_word_says_so(tmp_path: Path) -> None:
    make(tmp_path)
    found = recert.audit(annotated(), inputs(), tmp_path, detect=0.2, execution=STATED)
    assert found.verdict == "genuine"
    assert "whose digests are not those of the cache" in found.sentence
    assert found.to_dict()["other digests"] is True
    assert "digests" not in recert.audit(network(), inputs(), tmp_path, detect=0.2).sentence


def test_stores_that_are_merged_keep_what_was_stated(tmp_path: Path) -> None:
    make(tmp_path / "a", slice(0, 3))
    make(tmp_path / "b", slice(3, 6), samples=200)
    recert.certify(annotated(), inputs()[3:], **_without_batch(), store=tmp_path / "b", execution=STATED)
    make(tmp_path / "c", slice(3, 6))
    assert merging.merge(tmp_path / "whole", [tmp_path / "a", tmp_path / "b"]).manifest.same_models != ()
    assert merging.merge(tmp_path / "plain", [tmp_path / "a", tmp_path / "c"]).manifest.same_models == ()
    recert.certify(annotated(), inputs()[3:], **OPTIONS, store=tmp_path / "d")
    with pytest.raises(ContextMismatch, match=r"they differ in note \(only here\)") as error:
        merging.merge(tmp_path / "none", [tmp_path / "b", tmp_path / "d"])
    assert "same_model" not in str(error.value)


@pytest.mark.parametrize(
    "wrong", [{"x": "a" * 300}, {str(i): "a" for i in range(300)}, {"x": 1}, ["x"], {"a\x1b": "b"}]
)
def test_parts_beyond_all_limits_are_refused(tmp_path: Path, wrong: Any) -> None:
    make(tmp_path)
    rewrite_manifest(tmp_path, lambda m: m | {"model_parts": wrong})
    with pytest.raises(recert.RecertError, match="model_parts"):
        Cache.open(tmp_path)


def test_the_command_line_shows_names_and_takes_the_word(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "from recert.models import load_model\n\ndef one():\n    return load_model('digits').model\n\n"
        "def other():\n    model = one()\n    model.note = 1\n    return model\n"
    )
    common = ["--data", "digits", "--count", "3", "--samples", "300", "--store", "store"]
    assert recert_command("certify", "--model", "nets:one", *common, cwd=tmp_path).returncode == 0
    refused = recert_command("certify", "--model", "nets:other", *common, cwd=tmp_path)
    assert refused.returncode == 1
    assert "(nets:one), but here it is" in refused.stderr
    assert "they differ in note (only here)" in refused.stderr
    assert "--same-model" in refused.stderr
    stated = recert_command("certify", "--model", "nets:other", *common, "--same-model", cwd=tmp_path)
    assert "on somebody's word" in stated.stderr + stated.stdout
    shown = recert_command("cache", "show", "store", cwd=tmp_path).stdout
    assert "same on somebody's word" in shown
    assert "model name (untrusted)" in shown
