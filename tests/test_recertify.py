"""Re-certification: Algorithms 2 and 3 written again with scipy, and what the public code got wrong."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, gamma, norm

import recert
from recert import Gaussian, Outcome, StoredVotes
from recert.caching import CachingSource
from recert.errors import UnusableModel
from recert.recertification import registry, run
from recert.recertification.series import Series
from recert.sampling import VoteChunk, Work

NOISE = Gaussian(0.5)


def stored(votes: np.ndarray, **options: object) -> StoredVotes:
    """Columns 0-499 choose, 500-8,999 bound, the rest are fresh."""
    v = votes.astype(np.int64)
    return StoredVotes(v[:, 500:9_000], selection=v[:, :500], fresh=v[:, 9_000:], **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def votes() -> dict[str, np.ndarray]:
    """Votes of a made-up model and two modifications: flips of 1% and of 10%, to any class."""
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0.3, 1, 40), 1 - 10 ** -rng.uniform(1, 5, 20)])[:, None]
    top = rng.integers(0, 10, (60, 1))
    base = np.where(rng.random((60, 10_000)) < p, top, rng.integers(0, 10, (60, 10_000)))
    flipped = {s: np.where(rng.random(base.shape) < s, rng.integers(0, 10, base.shape), base) for s in (0.01, 0.1)}
    return {"base": base, "mild": flipped[0.01], "harsh": flipped[0.1]}


def algorithm_2(
    base: np.ndarray, modified: np.ndarray, n_p: int, alpha: float, alpha_zeta: float, gamma: float
) -> list[tuple[int, float]]:
    """The paper's pseudocode, input by input: (prediction or -1, radius)."""
    answers = []
    for f, fp in zip(base, modified, strict=True):
        c = np.bincount(f[:100], minlength=10).argmax()
        k, n = int((f[500:9_000] == c).sum()), 8_500
        p_lower = beta.ppf(alpha, k, n - k + 1) if k else 0.0
        if p_lower <= 0.5:
            answers.append((-1, 0.0))
            continue
        if p_lower < gamma:
            wrong = int((f[500 : 500 + n_p] != fp[500 : 500 + n_p]).sum())
            bound = p_lower - beta.ppf(1 - alpha_zeta, wrong + 1, n_p - wrong)
        else:
            k_p = int((fp[9_000 : 9_000 + n_p] == c).sum())
            bound = beta.ppf(alpha + alpha_zeta, k_p, n_p - k_p + 1) if k_p else 0.0
        answers.append((int(c), 0.5 * norm.ppf(bound)) if bound > 0.5 else (-1, 0.0))
    return answers


@pytest.mark.parametrize("kind", ["mild", "harsh"])
@pytest.mark.parametrize("n_p", [100, 1_000])
@pytest.mark.parametrize("gamma", [0.8, 0.99, 1.0])
def test_irs_is_algorithm_2(votes: dict[str, np.ndarray], kind: str, n_p: int, gamma: float) -> None:
    cache = recert.certify(
        stored(votes["base"]), None, noise=NOISE, samples=8_500, alpha=0.001, certificate="one-sided"
    )
    result = recert.recertify(
        stored(votes[kind]), None, cache, samples=n_p, alpha=0.002, method=recert.Irs(reuse_threshold=gamma)
    )
    expected = algorithm_2(votes["base"], votes[kind], n_p, 0.001, 0.001, gamma)
    assert result.prediction.tolist() == [c for c, _ in expected]
    assert result.radius == pytest.approx([r for _, r in expected], abs=1e-9)


def test_scratch_is_algorithm_1(votes: dict[str, np.ndarray]) -> None:
    cache = recert.certify(stored(votes["base"]), None, noise=NOISE, samples=8_500, certificate="one-sided")
    result = recert.recertify(stored(votes["harsh"]), None, cache, samples=1_000, alpha=0.002, method="scratch")
    for i, v in enumerate(votes["harsh"]):
        c = np.bincount(v[:100], minlength=10).argmax()
        k = int((v[9_000:] == c).sum())
        bound = beta.ppf(0.002, k, 1_001 - k) if k else 0.0
        assert result.top_lower[i] == pytest.approx(bound, abs=1e-12)
        assert result.radius[i] == pytest.approx(0.5 * norm.ppf(bound) if bound > 0.5 else 0, abs=1e-9)
    assert (result.forward_passes == 1_100).all()
    assert set(result.method) == {"scratch"}


def test_inputs_on_which_the_original_abstained_cost_nothing(votes: dict[str, np.ndarray]) -> None:
    cache = recert.certify(stored(votes["base"]), None, noise=NOISE, samples=8_500, certificate="one-sided")
    skipped = ~cache.certificates.certified
    assert 0 < skipped.mean() < 1
    for method in ("irs", "scratch-cached"):
        result = recert.recertify(stored(votes["mild"]), None, cache, samples=500, method=method)
        assert (result.forward_passes[skipped] == 0).all()
        assert (result.forward_passes[~skipped] == 500).all()
        assert set(result.outcome[skipped]) == {Outcome.NOT_CERTIFIED_BEFORE}
        assert "no sample was spent" in result.explanation[int(np.flatnonzero(skipped)[0])]


def test_the_claim_is_about_the_cached_class_even_if_the_modified_model_prefers_another() -> None:
    base, modified = np.zeros((1, 10_000)), np.ones((1, 10_000))
    base[:, ::5] = 2
    cache = recert.certify(stored(base, classes=3), None, noise=NOISE, samples=8_500, certificate="one-sided")
    assert cache.certificates.prediction.tolist() == [0]
    result = recert.recertify(stored(modified), None, cache, samples=1_000, method="irs")
    assert result.outcome.tolist() == [Outcome.TRANSFER_TOO_WEAK]
    fresh = recert.recertify(stored(modified), None, cache, samples=1_000, method=recert.Irs(reuse_threshold=0.0))
    assert fresh.prediction.tolist() == [-1]
    assert fresh.top_votes.tolist() == [0]


@pytest.mark.parametrize("classes", [2, 255])
def test_a_vote_for_nobody_is_a_disagreement_even_with_nobody(classes: int) -> None:
    """Also where nobody's number follows on the last class's."""
    base = np.zeros((1, 10_000))
    base[:, 500:510] = -1
    modified = base.copy()
    modified[:, 510:520] = -1
    cache = recert.certify(stored(base, classes=classes), None, noise=NOISE, samples=8_500, certificate="one-sided")
    assert cache.certificates.nobody.tolist() == [10]
    assert cache.certificates.top_votes.tolist() == [8_490]
    changed = stored(modified, classes=classes)
    result = recert.recertify(changed, None, cache, samples=100, method=recert.Irs(reuse_threshold=1.0))
    assert result.lost.tolist() == [20]
    assert result.nobody.tolist() == [20]
    assert "20 invalid votes: logits were not finite" in result.explanation[0]


def test_the_same_model_has_no_flips_and_transfer_never_exceeds_the_cached_bound(votes: dict[str, np.ndarray]) -> None:
    cache = recert.certify(
        stored(votes["base"]), None, noise=NOISE, samples=8_500, alpha=0.001, certificate="one-sided"
    )
    same = recert.recertify(
        stored(votes["base"]), None, cache, samples=1_000, alpha=0.002, method=recert.Irs(reuse_threshold=1.0)
    )
    assert same.lost.sum() == 0
    for kind in ("base", "mild", "harsh"):
        result = recert.recertify(
            stored(votes[kind]), None, cache, samples=1_000, alpha=0.002, method=recert.Irs(reuse_threshold=1.0)
        )
        assert (result.top_lower <= cache.certificates.top_lower).all()


def test_either_direction(votes: dict[str, np.ndarray]) -> None:
    """The modified model certified first, the original re-certified from it."""
    cache = recert.certify(
        stored(votes["mild"]), None, noise=NOISE, samples=8_500, alpha=0.001, certificate="one-sided"
    )
    result = recert.recertify(stored(votes["base"]), None, cache, samples=1_000, alpha=0.002, method="irs")
    expected = algorithm_2(votes["mild"], votes["base"], 1_000, 0.001, 0.001, 0.99)
    assert result.radius == pytest.approx([r for _, r in expected], abs=1e-9)


def test_networks_with_and_without_a_store(tmp_path: Path) -> None:
    import torch

    torch.manual_seed(0)
    original = torch.nn.Sequential(torch.nn.Linear(5, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3)).eval()
    modified = torch.nn.Sequential(torch.nn.Linear(5, 20), torch.nn.ReLU(), torch.nn.Linear(20, 3)).eval()
    modified.load_state_dict({k: v.bfloat16().float() for k, v in original.state_dict().items()})
    x = np.random.default_rng(1).normal(size=(8, 5)).astype(np.float32)
    memory = recert.certify(original, x, noise=NOISE, samples=2_000)
    recert.certify(original, x, noise=NOISE, samples=2_000, store=tmp_path)
    results = [recert.recertify(modified, x, c, samples=500) for c in (memory, tmp_path, str(tmp_path))]
    assert results[0].radius.tolist() == results[1].radius.tolist() == results[2].radius.tolist()
    again = recert.recertify(original, x, memory, samples=500, method=recert.Irs(reuse_threshold=1.0))
    assert again.lost.sum() == 0
    each = recert.recertify(modified, x, memory, samples=500, method="series", plan="uniform")
    shuffled = recert.recertify(modified, x[[3, 1, 3]], memory, samples=500, method="series", plan="uniform")
    assert shuffled.radius.tolist() == each.radius[[3, 1, 3]].tolist()
    assert shuffled.forward_passes[2] == 0
    assert ((each.seconds > 0) == (each.forward_passes > 0)).all()
    wider = torch.nn.Linear(5, 4).eval()
    with pytest.raises(UnusableModel, match="logits of 3 classes, got 4"):
        recert.recertify(wider, x, memory, samples=500)


BAD_CALLS = [
    ({"samples": 9_000}, "at most 8500 samples"),
    ({"samples": 5}, "expected between 9 and"),
    ({"alpha": 0.001}, "expected alpha above 0.001"),
    ({"alpha": 2.0}, "0 < alpha < 1"),
    ({"method": "magic"}, "one of auto, series, .*, got 'magic'"),
    ({"certificate": "two-sided"}, "one-sided' with method='irs'"),
    ({"method": "series", "samples": 5_000, "plan": "uniform"}, "at most 4250 samples"),
    ({"method": "series", "plan": "all"}, "a plan of acr, accuracy:RADIUS or uniform"),
    ({"certificate": "many-sided"}, "one of one-sided, two-sided"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_CALLS)
def test_bad_calls_say_what_was_expected(
    votes: dict[str, np.ndarray], arguments: dict[str, object], message: str
) -> None:
    cache = recert.certify(stored(votes["base"]), None, noise=NOISE, samples=8_500, certificate="one-sided")
    with pytest.raises(ValueError, match=message):
        recert.recertify(stored(votes["mild"]), None, cache, **{"samples": 100, "method": "irs", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("knobs", "message"), [({"form": "loose"}, "'paper' or 'exact'"), ({"reuse_threshold": 1.5}, "between 0 and 1")]
)
def test_bad_knobs_of_irs_say_what_was_expected(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recert.Irs(**knobs)


def test_an_alpha_that_leaves_nothing_for_the_disparity_is_refused_before_any_vote_is_drawn() -> None:
    zeros = np.zeros((3, 10_000))
    cache = recert.certify(stored(zeros, classes=2), None, noise=NOISE, samples=8_500, certificate="one-sided")
    source = CountingVotes(stored(zeros, classes=2))
    with pytest.raises(ValueError, match=r"expected alpha above 0\.001"):
        recert.recertify(source, None, cache, samples=100, alpha=0.001, method="irs")
    assert source.drawn == []


def test_too_few_samples_are_refused_before_any_is_drawn() -> None:
    def never(batch: object) -> object:
        raise AssertionError("the model was called")

    x = np.zeros((1, 2), np.float32)
    with pytest.raises(ValueError, match=r"expected between 10 and .* with fewer than 10 every input abstains"):
        recert.certify(never, x, noise=NOISE, samples=9, alpha=0.001, certificate="one-sided")
    with pytest.raises(ValueError, match="expected between 11 and"):
        recert.certify(never, x, noise=NOISE, samples=10, alpha=0.001, certificate="two-sided")
    with pytest.raises(ValueError, match="0 < alpha < 1"):
        recert.certify(never, x, noise=NOISE, alpha=2)
    with pytest.raises(ValueError, match="selection sample"):
        recert.certify(never, x, noise=NOISE, selection_samples=0)
    with pytest.raises(ValueError, match="expected a noise"):
        recert.certify(never, x, noise=0.5)  # type: ignore[arg-type]


def test_stored_votes_say_what_is_missing() -> None:
    v = np.zeros((2, 100), np.int64)
    with pytest.raises(ValueError, match="stored selection votes per input, got 0"):
        recert.certify(StoredVotes(v, classes=2), None, noise=NOISE, samples=100)
    with pytest.raises(ValueError, match="at least 200 stored estimation votes per input, got 100"):
        recert.certify(StoredVotes(v, selection=v, classes=2), None, noise=NOISE, samples=200)
    for bad, message in [
        (np.zeros(3), "inputs x samples"),
        (v - 2, "-1 \\(nobody\\) or a class"),
        (v + 0.5, "integers"),
    ]:
        with pytest.raises(ValueError, match=message):
            StoredVotes(bad)
    with pytest.raises(ValueError, match="below classes = 2, got 3"):
        StoredVotes(v + 3, classes=2)
    with pytest.raises(ValueError, match="of 2 inputs, as in estimation, got 1"):
        StoredVotes(v, selection=v[:1])
    with pytest.raises(ValueError, match="inputs=None with StoredVotes"):
        recert.certify(StoredVotes(v), np.zeros((2, 3), np.float32), noise=NOISE)


def test_auto_does_without_fresh_votes_and_with_one_class(votes: dict[str, np.ndarray]) -> None:
    base, harsh = (StoredVotes(v[:, 500:9_000], selection=v[:, :500]) for v in (votes["base"], votes["harsh"]))
    cache = recert.certify(base, None, noise=NOISE, samples=8_500)
    assert set(recert.recertify(harsh, None, cache, samples=300).method) <= {"series", "few-flips", "joint", "auto"}
    same = StoredVotes(np.zeros((3, 400), np.int64), selection=np.zeros((3, 50), np.int64))
    unanimous = recert.certify(same, None, noise=NOISE, samples=400, selection_samples=50)
    assert recert.recertify(same, None, unanimous, samples=100).certified.all()
    assert recert.predict(same, None, noise=NOISE, samples=100).prediction.tolist() == [0, 0, 0]
    assert "most probable one" in recert.predict(same, None, noise=NOISE, samples=100).guarantee


def test_fresh_votes_are_asked_for_where_they_are_needed(votes: dict[str, np.ndarray]) -> None:
    v = votes["base"]
    cache = recert.certify(stored(v), None, noise=NOISE, samples=8_500, certificate="one-sided")
    for method in ("scratch", "scratch-cached"):
        with pytest.raises(ValueError, match="at least 300 stored fresh votes per input, got 0"):
            recert.recertify(
                StoredVotes(v[:, 500:9_000], selection=v[:, :500]), None, cache, samples=300, method=method
            )
    # Nothing is left to transfer of a model that votes as chance will have it, with a small lead for the class.
    rng = np.random.default_rng(1)
    most = np.array([np.bincount(row).argmax() for row in v.astype(int)])[:, None]
    unlike = np.where(rng.random(v.shape) < 0.9, most, rng.integers(0, 10, v.shape))
    assert "scratch-cached" in set(recert.recertify(stored(unlike), None, cache, samples=500).method)


def fisher(k: int, n: int, m1: int, m0: int, alpha: float) -> float:
    """Least p (1 - q1) + (1 - p) q0 that Fisher's combination does not exclude if nothing was lost and all was gained."""
    logs = gamma.isf(alpha, 3)
    b, c = np.meshgrid(np.linspace(0, logs, 300), np.linspace(0, logs, 300))
    left = np.maximum(logs - b - c, 0)
    p = beta.ppf(np.exp(-left), k, n - k + 1)
    found = p * np.exp(-b / m1) + (1 - p) * np.exp(-c / m0)
    return float(found[b + c <= logs].min())


def test_what_a_paired_replay_gains() -> None:
    """The modified model votes for the class where the original did, and on all other noises that are replayed as well."""
    rng = np.random.default_rng(0)
    base = (rng.random((1, 10_000)) < 0.4).astype(int)
    cache = recert.certify(stored(base), None, noise=NOISE, samples=400, certificate="one-sided")
    result = recert.recertify(stored(0 * base), None, cache, samples=200, alpha=0.01, method="paired", plan="uniform")
    k, replayed = int(result.top_votes[0]), int(result.kept[0] + result.lost[0])
    others = int(result.replayed[0]) - replayed
    assert (result.lost[0], result.gained[0]) == (0, others)
    assert others >= 20
    assert (replayed + others, result.forward_passes[0]) == (200, 200)
    least = fisher(k, 400, replayed, others, 0.01)
    assert least - 0.005 < result.top_lower[0] < least + 1e-9


def test_no_thread_is_left_behind(votes: dict[str, np.ndarray]) -> None:
    cache = recert.certify(stored(votes["base"]), None, noise=NOISE, samples=8_500, certificate="one-sided")

    class Failing(StoredVotes):
        def __init__(self, votes: StoredVotes) -> None:
            self.__dict__.update(votes.__dict__)

        def draw(self, works: Sequence[Work], task: str, progress: object) -> Iterator[VoteChunk]:
            yield from super().draw(works[:-1], task, None)
            raise RuntimeError("out of order")

    recert.recertify(stored(votes["mild"]), None, cache, samples=100)
    with pytest.raises(RuntimeError, match="out of order"):
        recert.recertify(Failing(stored(votes["mild"])), None, cache, samples=100)
    deadline = time.monotonic() + 60
    while [t for t in threading.enumerate() if t.name.startswith("recert-bounds")] and time.monotonic() < deadline:
        time.sleep(0.01)  # a block in hand is finished
    assert not [t for t in threading.enumerate() if t.name.startswith("recert-bounds")]


def test_inputs_that_are_done_first_are_not_bounded_as_if_nothing_flipped() -> None:
    rng = np.random.default_rng(5)
    base = (rng.random((32, 8_500)) > rng.uniform(0.65, 0.85, (32, 1))).astype(np.int64)
    flipped = np.where(rng.random(base.shape) < 0.05, 1 - base, base)
    original, changed = (StoredVotes(v[:, 500:], selection=v[:, :500], classes=2) for v in (base, flipped))
    cache = recert.certify(original, None, noise=NOISE, samples=8_000)
    result = recert.recertify(changed, None, cache, samples=3_000, certificate="one-sided")
    assert set(result.method.tolist()) == {"joint"}  # series would lose a radius with every flip, and win none back


class CountingVotes(StoredVotes):
    """Stored votes that note the inputs of every draw, and how many draws came to their end."""

    def __init__(self, votes: StoredVotes) -> None:
        self.__dict__.update(votes.__dict__)
        self.drawn: list[int] = []
        self.finished = 0

    def draw(self, works: Sequence[Work], task: str, progress: object) -> Iterator[VoteChunk]:
        self.drawn.append(len(works))
        yield from super().draw(works, task, None)
        self.finished += 1


@pytest.mark.parametrize(
    ("method", "certificate", "most"),
    [("auto", "one-sided", 2), ("auto", "two-sided", 2), ("irs", "one-sided", 1), ("scratch-cached", "two-sided", 1)],
)
def test_all_options_share_a_draw(
    votes: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch, method: str, certificate: str, most: int
) -> None:
    """A draw pads its last batch: one for some inputs, which tell what to expect, and one for all others."""
    cache = recert.certify(stored(votes["base"]), None, noise=NOISE, samples=8_500)
    source, in_blocks = CountingVotes(stored(votes["mild"])), CountingVotes(stored(votes["mild"]))
    result = recert.recertify(source, None, cache, samples=300, method=method, certificate=certificate)
    assert min(2, len(set(result.method[result.forward_passes > 0]))) == most
    assert source.finished == len(source.drawn) == most
    monkeypatch.setattr("recert.recertification.drawing.ROWS_AT_ONCE", 10)
    again = recert.recertify(in_blocks, None, cache, samples=300, method=method, certificate=certificate)
    assert max(in_blocks.drawn) == 10
    assert sum(in_blocks.drawn) == sum(source.drawn)
    assert again.radius.tolist() == result.radius.tolist()


@pytest.mark.parametrize("alpha", [None, 0.2])
def test_votes_are_drawn_first_and_bounded_later(
    votes: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alpha: float | None
) -> None:
    """All that re-certifying asks for, and nothing else: with the same arguments it draws no vote more."""
    some = {name: v[::4] for name, v in votes.items()}
    cache = recert.certify(stored(some["base"]), None, noise=NOISE, samples=8_500, store=tmp_path)
    alone = recert.recertify(stored(some["mild"]), None, cache, samples=100, alpha=alpha)
    for where in (cache, tmp_path):
        inner = CountingVotes(stored(some["mild"]))
        source = CachingSource(inner)
        with monkeypatch.context() as patch:
            patch.setattr(run, "certificates", None)
            recert.draw_votes(source, None, where, samples=100, alpha=alpha)
        assert source.forward_passes == alone.forward_passes.sum() > 0
        times = len(inner.drawn)
        later = recert.recertify(source, None, cache, samples=100, alpha=alpha)
        assert len(inner.drawn) == times
        assert later.radius.tolist() == alone.radius.tolist()
    with pytest.raises(ValueError, match="at most 4250 samples"):
        recert.draw_votes(source, None, cache, samples=5_000, method="series", plan="uniform")


def test_names_of_methods_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))

    def named(text: str) -> Series:
        return type("Named", (Series,), {"name": text})()

    registry.register_method(named("series-2"))
    assert registry.method_named("series-2").name == "series-2"
    for name, message in (("series-2", "which is taken"), ("Big Series", "small letters"), ("-", "small letters")):
        with pytest.raises(ValueError, match=message):
            registry.register_method(named(name))


def test_real_votes(real_votes: dict[str, np.ndarray]) -> None:
    """A noise-trained ResNet-20 and its approximations: irs follows Algorithm 2 on all of them."""
    real = real_votes
    cache = recert.certify(stored(real["fp32"]), None, noise=NOISE, samples=8_500, alpha=0.001, certificate="one-sided")
    for name in ("fp16", "bf16", "int8", "prune20"):
        result = recert.recertify(stored(real[name]), None, cache, samples=500, alpha=0.002, method="irs")
        expected = algorithm_2(real["fp32"], real[name], 500, 0.001, 0.001, 0.99)
        assert result.prediction.tolist() == [c for c, _ in expected]
        assert result.radius == pytest.approx([r for _, r in expected], abs=1e-9)
