"""`recert.select`: the same winner as certifying every candidate from scratch, for a tenth of the passes; and what it refuses."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

import recert
from recert import Outcome
from recert.approximations import approximate
from recert.choosing import Status
from recert.choosing.search import most_finalists
from recert.choosing.summary_text import text_picture
from recert.data import load_data
from recert.figures.choice import draw_choice
from recert.models import load_model
from recert.noise import Stream
from recert.sampling.work import ProgressCallback, VoteChunk, Work
from tests.cache.stores import inputs, make, network

NOISE = recert.Gaussian(0.5)


class Recording(recert.StoredVotes):
    """Stored votes that remember what was asked for."""

    asked: list[Work]

    def draw(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        self.asked = [*getattr(self, "asked", []), *works]
        return super().draw(works, task, progress)


def split(share: float, inputs: int, samples: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).random((inputs, samples)) < share).astype(int)


INPUTS = 20
ESTIMATION, SELECTION = split(0.95, INPUTS, 1_000, 1), split(0.95, INPUTS, 100, 2)
LABELS = np.ones(INPUTS, int)


def cached() -> recert.Cache:
    original = recert.StoredVotes(ESTIMATION, selection=SELECTION)
    return recert.certify(original, None, noise=NOISE, samples=1_000, selection_samples=100)


def copy_of_the_original(estimation: np.ndarray = ESTIMATION, selection: np.ndarray = SELECTION) -> Recording:
    return Recording(estimation, selection=selection)


def test_same_winner_as_exhaustive_certification_on_digits() -> None:
    """Twelve candidates; exhaustive: each certified from scratch with as many votes as the original, then the cheapest good one."""
    data = load_data("digits", count=50)
    assert data.labels is not None
    model, samples = load_model("digits").model, 1_500
    fractions = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.94, 0.95, 0.96, 0.97, 0.99)
    specs = ["bf16", *(f"prune:{fraction}" for fraction in fractions)]
    candidates = {spec: approximate(model, spec, example_input=data.inputs[:2]).model for spec in specs}
    cache = recert.certify(model, data.inputs, noise=NOISE, samples=samples, selection_samples=100)
    chosen = recert.select(candidates, data.inputs, cache, data.labels, metric="accuracy:0.4", tolerance=0.14)

    scratch = {}
    for spec, candidate in candidates.items():
        result = recert.certify(
            candidate, data.inputs, noise=NOISE, samples=samples, selection_samples=100
        ).certificates
        scratch[spec] = float(result.certified_accuracy(data.labels, 0.4))
    exhaustive = next(entry.name for entry in chosen.entries if scratch[entry.name] >= chosen.target - 1e-9)
    assert chosen.winner == exhaustive
    assert sum(score < chosen.target for score in scratch.values()) >= 4  # there was something to find out
    assert chosen.exhaustive_passes == 12 * 50 * 1_600
    assert chosen.passes <= chosen.exhaustive_passes / 10
    assert chosen.base == cache.certificates.certified_accuracy(data.labels, 0.4)
    assert chosen.certificates is not None
    assert chosen.certificates.certified_accuracy(data.labels, 0.4) >= chosen.target


def test_the_race_sees_selection_noise_and_the_final_estimation_noise() -> None:
    candidate = copy_of_the_original()
    chosen = recert.select({"same": candidate}, None, cached(), LABELS, cost={"same": 1.0})
    assert chosen.winner == "same"
    drawn = {stream: sum(len(w.samples) for w in candidate.asked if w.stream is stream) for stream in Stream}
    (entry,) = chosen.entries
    assert drawn[Stream.SELECTION] == entry.race_passes > 0
    assert drawn[Stream.ESTIMATION] == entry.final_passes > 0
    assert drawn[Stream.FRESH] == 0


def test_what_fools_the_race_does_not_win() -> None:
    """A candidate that agrees with the original on the race's noise and nowhere else; the next one is certified at alpha / 4."""
    candidates = {"impostor": copy_of_the_original(estimation=1 - ESTIMATION), "honest": copy_of_the_original()}
    chosen = recert.select(candidates, None, cached(), LABELS, cost={"impostor": 1.0, "honest": 2.0}, alpha=0.01)
    assert [entry.status for entry in chosen.entries] == [Status.NOT_CERTIFIED, Status.WINNER]
    assert [entry.alpha for entry in chosen.entries] == [0.005, 0.0025]
    assert "2 of them certified" in chosen.guarantee


ALWAYS, OFTEN = np.ones_like(ESTIMATION), np.ones_like(SELECTION)


@pytest.mark.parametrize("family", [None, "bonferroni"])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_every_finalist_is_really_certified_at_half_of_what_is_left(before: int, family: str | None) -> None:
    """Where all votes agree the bound of m replays is the m-th root of the error (of .98 of it, with gains): so it tells its error."""
    original = recert.StoredVotes(ALWAYS, selection=OFTEN)
    cache = recert.certify(original, None, noise=NOISE, samples=1_000, selection_samples=100, certificate="one-sided")
    names = [*(f"impostor {i}" for i in range(before)), "honest"]
    candidates = {name: copy_of_the_original(ALWAYS if name == "honest" else 1 - ALWAYS, OFTEN) for name in names}
    cost = {name: float(i) for i, name in enumerate(names)}
    chosen = recert.select(candidates, None, cache, LABELS, cost=cost, alpha=0.03, family=family)
    result, each = chosen.certificates, 0.03 / (INPUTS if family else 1)
    assert result is not None
    assert (chosen.winner, chosen.finalists) == ("honest", before + 1)
    errors = np.where(result.method == "joint", 0.98, 1.0) * each / 2 ** (before + 1)
    assert (result.kept == result.replayed).all()
    assert result.top_lower == pytest.approx(errors ** (1 / result.replayed), abs=1e-4)
    assert (
        errors ** (1 / result.replayed) < (1.5 * errors) ** (1 / result.replayed) - 2e-4
    ).all()  # so close is telling
    assert [entry.alpha for entry in chosen.entries] == [each / 2 ** (i + 1) for i in range(before + 1)]
    assert (result.settings.alpha, result.settings.error) == (each / 2 ** (before + 1), each)
    assert result.alpha.tolist() == [each / 2 ** (before + 1)] * INPUTS


@pytest.mark.parametrize("family", [None, "bonferroni"])
@pytest.mark.parametrize("before", [0, 2])
def test_what_is_gained_is_really_certified_at_half_of_what_is_left(before: int, family: str | None) -> None:
    """The original names the label of every other input, where a candidate's own votes bound it."""
    original = recert.StoredVotes(ALWAYS, selection=OFTEN)
    cache = recert.certify(original, None, noise=NOISE, samples=1_000, selection_samples=100, certificate="one-sided")
    labels = np.arange(INPUTS) % 2
    right, right_in_the_race = (np.repeat(labels[:, None], size, axis=1) for size in (1_000, 100))
    names = [*(f"impostor {i}" for i in range(before)), "honest"]
    candidates = {
        name: copy_of_the_original(right if name == "honest" else 1 - right, right_in_the_race) for name in names
    }
    chosen = recert.select(
        candidates, None, cache, labels, cost={name: float(i) for i, name in enumerate(names)}, alpha=0.03, family=family, metric="acr",
    )  # fmt: skip
    result, each = chosen.certificates, 0.03 / (INPUTS if family else 1)
    assert result is not None
    assert (chosen.winner, chosen.finalists) == ("honest", before + 1)
    gained = labels == 0
    assert set(result.method[gained]) == {"scratch"}
    assert (
        result.top_votes[gained].tolist() == result.samples[gained].tolist() == result.forward_passes[gained].tolist()
    )
    expected = (each / 2 ** (before + 1)) ** (1 / result.samples[gained])
    assert result.top_lower[gained] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("metric", "samples"), [("acr", 150), ("accuracy:0.3", 500)])
def test_the_votes_that_claim_choose_nothing(metric: str, samples: int) -> None:
    """Other estimation votes, under which the original is less sure of every input: each gets the same passes by the same method.

    Or none, where the votes have too few noises of a kind: no claim is made.
    """
    ranks = np.random.default_rng(7).permuted(np.tile(np.arange(100), (INPUTS, 1)), axis=1)
    selection = (ranks < 70 + np.arange(INPUTS)[:, None]).astype(int)
    found = []
    for share in (0.9, 0.7):
        estimation = split(share, INPUTS, 1_000, 6)
        original = recert.StoredVotes(estimation, selection=selection)
        options = {"samples": 1_000, "selection_samples": 100, "certificate": "one-sided"}
        cache = recert.certify(original, None, noise=NOISE, **options)  # type: ignore[arg-type]
        assert cache.certify(alpha=0.001).certified.all()
        same = {"same": copy_of_the_original(estimation, selection)}
        chosen = recert.select(
            same, None, cache, LABELS, cost={"same": 1.0}, metric=metric, tolerance=1.0, samples=samples
        )
        assert chosen.certificates is not None
        found.append(chosen.certificates)
    claims = (found[0].forward_passes > 0) & (found[1].forward_passes > 0)
    assert claims.mean() > 0.7
    assert len(set(found[0].forward_passes[claims])) > 2
    for column in ("method", "forward_passes"):
        assert getattr(found[0], column)[claims].tolist() == getattr(found[1], column)[claims].tolist()


def test_hopeless_candidates_are_dropped_early_and_costlier_ones_not_certified() -> None:
    other = split(0.3, INPUTS, 100, 5)
    candidates = {
        "bad": copy_of_the_original(1 - ESTIMATION, other),
        "good": copy_of_the_original(),
        "dear": copy_of_the_original(),
    }
    chosen = recert.select(candidates, None, cached(), LABELS, cost={"bad": 1, "good": 2, "dear": 3})
    statuses = {entry.name: entry.status for entry in chosen.entries}
    assert statuses == {"bad": Status.DROPPED, "good": Status.WINNER, "dear": Status.NOT_NEEDED}
    assert all(entry.final_passes == 0 for entry in chosen.entries if entry.name != "good")
    raced = {entry.name: entry.race_passes for entry in chosen.entries}
    assert raced["bad"] <= 80 * INPUTS
    assert raced["dear"] <= 10 * INPUTS


def test_more_candidates_than_alpha_can_be_halved_for() -> None:
    """Two-sided bounds spend half of alpha: with 250 candidates the last could not be certified, and the first is."""
    candidates = {f"copy {i}": copy_of_the_original() for i in range(250)}
    chosen = recert.select(candidates, None, cached(), LABELS, cost=dict.fromkeys(candidates, 1.0))
    assert chosen.entries[0].status is Status.WINNER


def test_when_no_error_is_left_candidates_are_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recert.choosing.search.most_finalists", lambda alpha: 1)
    candidates = {"impostor": copy_of_the_original(estimation=1 - ESTIMATION), "honest": copy_of_the_original()}
    chosen = recert.select(candidates, None, cached(), LABELS, cost={"impostor": 1.0, "honest": 2.0})
    assert [entry.status for entry in chosen.entries] == [Status.NOT_CERTIFIED, Status.NO_ERROR_LEFT]
    assert chosen.winner is None


@pytest.mark.parametrize("metric", ["accuracy:0.6", "acr"])
@pytest.mark.parametrize("samples", [60, 200])
def test_gains_stay_within_the_budget(metric: str, samples: int) -> None:
    """The original never names the label, a candidate nearly always: none of it can be re-certified, all of it gained."""
    gained = copy_of_the_original(split(0.9, INPUTS, 1_000, 3), split(0.9, INPUTS, 100, 4))
    nothing = recert.StoredVotes(0 * ESTIMATION, selection=0 * SELECTION, classes=2)
    cache = recert.certify(nothing, None, noise=NOISE, samples=1_000, selection_samples=100)
    chosen = recert.select(
        {"gained": gained}, None, cache, LABELS, metric=metric, tolerance=0.0, cost={"gained": 1.0}, samples=samples
    )
    assert 0 < chosen.entries[0].final_passes <= samples * INPUTS
    assert chosen.certificates is not None
    assert chosen.certificates.average_certified_radius(LABELS) > 0.2


def test_what_is_gained_and_what_is_carried_over_share_the_budget() -> None:
    """The original names the label of every other input."""
    cache = recert.certify(
        recert.StoredVotes(ALWAYS, selection=OFTEN), None, noise=NOISE, samples=1_000, selection_samples=100
    )
    labels = np.arange(INPUTS) % 2
    right = {"right": copy_of_the_original(*(np.repeat(labels[:, None], size, axis=1) for size in (1_000, 100)))}
    chosen = recert.select(right, None, cache, labels, cost={"right": 1.0}, metric="acr", samples=100)
    assert chosen.certificates is not None
    assert (chosen.certificates.forward_passes > 0).all()
    assert chosen.entries[0].final_passes <= 100 * INPUTS


def test_none_is_a_result() -> None:
    chosen = recert.select(
        {"bad": copy_of_the_original(1 - ESTIMATION, 1 - SELECTION)}, None, cached(), LABELS, cost={"bad": 1.0}
    )
    assert (chosen.winner, chosen.certificates) == (None, None)
    assert "No candidate" in chosen.guarantee
    assert json.loads(json.dumps(chosen.to_dict()))["candidates"][0]["status"] == "dropped in the race"


def test_average_radius_as_the_metric() -> None:
    chosen = recert.select(
        {"same": copy_of_the_original()}, None, cached(), LABELS, cost={"same": 1.0}, metric="acr", tolerance=0.2
    )
    assert chosen.winner == "same"
    assert chosen.certificates is not None
    assert chosen.certificates.average_certified_radius(LABELS) >= chosen.base - 0.2


def test_repeated_inputs_are_counted_as_often_as_they_stand() -> None:
    data = load_data("digits", count=3)
    assert data.labels is not None
    model = load_model("digits").model
    inputs, labels = data.inputs[[0, 1, 1, 2]], data.labels[[0, 1, 1, 2]]
    cache = recert.certify(model, inputs, noise=NOISE, samples=400)
    chosen = recert.select({"same": model}, inputs, cache, labels, metric="accuracy:0.1", tolerance=0.3)
    assert chosen.certificates is not None
    assert len(chosen.certificates) == chosen.inputs == 4
    assert chosen.certificates.radius[1] == chosen.certificates.radius[2]


REFUSED = {
    "no candidates": ({"candidates": {}}, "1 to 500 candidates, got 0"),
    "too many candidates": ({"candidates": dict.fromkeys(range(501))}, "1 to 500 candidates, got 501"),
    "alpha of 1": ({"alpha": 1.0}, "alpha between 0 and 1"),
    "uniform": ({"metric": "uniform"}, "acr or accuracy:RADIUS"),
    "unknown metric": ({"metric": "beauty"}, "accuracy:RADIUS"),
    "negative tolerance": ({"tolerance": -0.1}, "tolerance of at least 0"),
    "too few labels": ({"labels": LABELS[:3]}, "20 labels"),
    "no cost": ({"cost": {}}, "a cost for every candidate"),
    "bytes of votes": ({"cost": "bytes"}, "pass cost={name: number}"),
    "unknown cost": ({"cost": "karma"}, "bytes, parameters, latency"),
    "unknown family": ({"family": "holm"}, "family='bonferroni'"),
    "too few samples": ({"samples": 5}, "every input abstains"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused(name: str) -> None:
    change, message = REFUSED[name]
    arguments = {"candidates": {"same": copy_of_the_original()}, "labels": LABELS, "cost": {"same": 1.0}, **change}
    with pytest.raises(ValueError, match="(?s).*".join(message.split(" ... "))):
        recert.select(arguments.pop("candidates"), None, cached(), arguments.pop("labels"), **arguments)


def test_as_many_candidates_as_are_allowed() -> None:
    with pytest.raises(ValueError, match="a cost for every candidate"):
        recert.select(dict.fromkeys(map(str, range(500))), None, cached(), LABELS, cost={})  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.0, 1.5, float("nan")])
def test_alpha_is_a_probability(bad: float) -> None:
    with pytest.raises(ValueError, match="expected alpha between 0 and 1, got"):
        recert.select({"same": copy_of_the_original()}, None, cached(), LABELS, cost={"same": 1.0}, alpha=bad)


@pytest.mark.parametrize(("family", "claims"), [(None, 1), ("bonferroni", INPUTS)])
def test_the_first_finalist_has_an_alpha_that_bounds_are_proved_for(family: str | None, claims: int) -> None:
    cache = small(200, certificate="one-sided")
    with pytest.raises(ValueError, match="alpha of at least 1e-60"):
        chosen_of(cache, alpha=3.9e-60 * claims, family=family, samples=5)
    with pytest.raises(ValueError, match="every input abstains"):
        chosen_of(cache, alpha=4.1e-60 * claims, family=family, samples=5)


@pytest.mark.parametrize("labels", [LABELS.astype(float), LABELS[:, None], LABELS[:0], np.ones(INPUTS + 1, int)])
def test_labels_are_whole_numbers_one_for_each_input(labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match="expected 20 labels as integers"):
        recert.select({"same": copy_of_the_original()}, None, cached(), labels, cost={"same": 1.0})


def test_candidates_are_about_the_same_inputs_and_there_are_some() -> None:
    candidates = {"same": copy_of_the_original(), "fewer": copy_of_the_original(ESTIMATION[:5], SELECTION[:5])}
    with pytest.raises(ValueError, match="got others for 'fewer'"):
        recert.select(candidates, None, cached(), LABELS, cost={"same": 1.0, "fewer": 2.0})
    with pytest.raises(ValueError, match="at least one input, got none"):
        recert.select(
            {"none": copy_of_the_original(ESTIMATION[:0], SELECTION[:0])},
            None,
            cached(),
            LABELS[:0],
            cost={"none": 1.0},
        )


def small(samples: int, **options: object) -> recert.Cache:
    original = recert.StoredVotes(ALWAYS[:, :samples], selection=OFTEN, classes=2)
    return recert.certify(
        original, None, **{"noise": NOISE, "samples": samples, "selection_samples": 100, "alpha": 0.01, **options}  # type: ignore[arg-type]
    )  # fmt: skip


def chosen_of(cache: recert.Cache, candidates: int = 1, **options: object) -> recert.choosing.Chosen:
    names = [f"copy {i}" for i in range(candidates)]
    votes = {name: recert.StoredVotes(ALWAYS, selection=OFTEN, classes=2) for name in names}
    given = {"cost": dict.fromkeys(names, 1.0), "metric": "acr", "tolerance": 5.0, **options}
    return recert.select(votes, None, cache, LABELS, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cached_votes", "candidates", "family", "passes"),
    [
        (1_000, 1, None, 500),  # half of the votes is less than 20 times their root, 632
        (
            20,
            1,
            None,
            11,
        ),  # half of the votes is too few at an alpha of .002 / 2, half of it for either side: 2^-11 < .0005
        (20, 4, None, 14),  # a fourth finalist would have .002 / 16
        (20, 1, "bonferroni", 16),  # .002 / 2 / 20
    ],
)
def test_passes_of_a_finalist_if_not_given(cached_votes: int, candidates: int, family: str | None, passes: int) -> None:
    cache = small(cached_votes)
    chosen = chosen_of(cache, candidates, alpha=0.002, family=family)
    assert chosen.certificates is not None
    assert chosen.certificates.settings.samples == passes
    given = chosen_of(cache, candidates, alpha=0.002, family=family, samples=passes)
    assert given.certificates is not None
    assert given.certificates.settings.samples == passes
    if passes < 100:
        with pytest.raises(ValueError, match=f"expected between {passes} and .* got {passes - 1};"):
            chosen_of(cache, candidates, alpha=0.002, family=family, samples=passes - 1)


def test_passes_of_a_finalist_of_a_large_cache() -> None:
    votes = np.ones((1, 6_400), int)
    source = recert.StoredVotes(votes, selection=votes[:, :50], classes=2)
    cache = recert.certify(source, None, noise=NOISE, samples=6_400, selection_samples=50)
    chosen = recert.select({"same": source}, None, cache, [1], cost={"same": 1.0})
    assert chosen.certificates is not None
    assert chosen.certificates.settings.samples == 20 * 80
    assert chosen.base_passes == 6_450


def test_alpha_is_twice_the_whole_of_the_caches_if_not_given() -> None:
    for options in ({}, {"family": "bonferroni"}):
        chosen = chosen_of(small(200, **options))
        assert chosen.alpha == pytest.approx(0.02, rel=1e-12)
        assert chosen.base_alpha == pytest.approx(0.01 / (INPUTS if options else 1))
        assert chosen.base_passes == INPUTS * 300
    assert chosen_of(small(200), alpha=0.05).alpha == 0.05


def test_how_often_alpha_can_be_halved() -> None:
    """Half of what a finalist gets, which each side of a two-sided bound spends, is proved for; half of that is not."""
    for alpha in (0.002, 0.5, 3e-60):
        often = most_finalists(alpha)
        assert alpha / 2.0**often / 2 >= 1e-60 > alpha / 2.0 ** (often + 1) / 2


@pytest.mark.parametrize("family", [None, "bonferroni"])
def test_no_finalist_without_an_error_to_certify_it_with(family: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were bounds proved down to a tenth of a certificate's alpha only, that could be halved twice."""
    each = 0.03 / (INPUTS if family else 1)
    monkeypatch.setattr(recert.bounds, "SMALLEST_ALPHA", each / 10)
    names = ["a", "b", "hopeless", "c", "d"]
    candidates = {name: copy_of_the_original(1 - ESTIMATION, SELECTION) for name in names}
    candidates["hopeless"] = copy_of_the_original(1 - ESTIMATION, 1 - SELECTION)
    cost = {name: float(i) for i, name in enumerate(names)}
    chosen = recert.select(candidates, None, cached(), LABELS, cost=cost, alpha=0.03, family=family)
    assert [entry.status for entry in chosen.entries] == [
        Status.NOT_CERTIFIED, Status.NOT_CERTIFIED, Status.DROPPED, Status.NO_ERROR_LEFT, Status.NO_ERROR_LEFT,
    ]  # fmt: skip
    assert [entry.alpha for entry in chosen.entries] == [each / 2, each / 4, None, None, None]
    assert [entry.certified is None for entry in chosen.entries] == [False, False, True, True, True]
    assert [entry.final_passes > 0 for entry in chosen.entries] == [True, True, False, False, False]


def test_the_cheapest_is_tried_first_and_of_equals_the_likeliest() -> None:
    worse = copy_of_the_original(selection=np.where(split(0.06, INPUTS, 100, 9), 1 - SELECTION, SELECTION))
    candidates = {"dear": copy_of_the_original(), "worse": worse, "equal": copy_of_the_original()}
    chosen = recert.select(candidates, None, cached(), LABELS, cost={"dear": 2.0, "worse": 1.0, "equal": 1.0})
    assert [entry.name for entry in chosen.entries] == ["equal", "worse", "dear"]


def test_a_target_that_is_just_reached() -> None:
    """One input of twenty is lost in the final: the candidate wins with a tolerance of just so much."""
    estimation = ESTIMATION.copy()
    estimation[0] = 0
    for tolerance, winner in ((0.05, "nearly"), (0.05 - 1e-7, None)):
        chosen = recert.select(
            {"nearly": copy_of_the_original(estimation)}, None, cached(), LABELS, cost={"nearly": 1.0}, metric="accuracy:0.2",
            tolerance=tolerance,
        )  # fmt: skip
        assert (chosen.base, chosen.entries[0].certified) == (1.0, 0.95)
        assert chosen.winner == winner


def test_a_race_ends_when_its_noise_is_used_up() -> None:
    """A candidate that falls short by about as much as is tolerated: all selection votes do not decide."""
    flipped = copy_of_the_original(
        np.where(split(0.1, INPUTS, 1_000, 8), 1 - ESTIMATION, ESTIMATION), np.where(split(0.1, INPUTS, 100, 9), 1 - SELECTION, SELECTION)
    )  # fmt: skip
    chosen = recert.select(
        {"flipped": flipped}, None, cached(), LABELS, tolerance=0.22, cost={"flipped": 1.0}, metric="acr"
    )
    (entry,) = chosen.entries
    assert entry.predicted == pytest.approx(chosen.target, abs=0.02)
    assert 0.05 < entry.chance < 0.99
    assert entry.race_passes == 100 * INPUTS


def test_a_store_and_its_batch_size(tmp_path: Path) -> None:
    labels = make(tmp_path, batch_size=16).certificates.prediction
    for size, used in ((None, "16"), (8, "8")):
        chosen = recert.select(
            {"same": network()}, inputs(), tmp_path, labels, metric="acr", tolerance=1.0, batch_size=size
        )
        assert chosen.certificates is not None
        assert chosen.certificates.settings.numerics.text("batch_size") == used


def test_votes_need_no_inputs() -> None:
    for given in (None, np.zeros((INPUTS, 4), np.float32)):
        assert (
            recert.select({"same": copy_of_the_original()}, given, cached(), LABELS, cost={"same": 1.0}).winner
            == "same"
        )


def test_what_the_race_predicts_is_about_what_is_certified() -> None:
    """Of a copy no loss is expected; of a candidate that flips one vote in ten some is."""
    flipped = copy_of_the_original(
        np.where(split(0.1, INPUTS, 1_000, 8), 1 - ESTIMATION, ESTIMATION), np.where(split(0.1, INPUTS, 100, 9), 1 - SELECTION, SELECTION)
    )  # fmt: skip
    candidates = {"flipped": flipped, "same": copy_of_the_original()}
    chosen = recert.select(
        candidates, None, cached(), LABELS, cost={"flipped": 1.0, "same": 2.0}, metric="acr", tolerance=0.15
    )
    first, second = chosen.entries
    for entry in chosen.entries:
        assert entry.predicted_low <= entry.predicted <= entry.predicted_high
    assert first.predicted_high < second.predicted_low
    assert second.predicted == pytest.approx(chosen.base, abs=0.1)


def test_inputs_that_are_left_out_say_why() -> None:
    """Of a finalist: what the original abstained on at this error, and inputs whose label neither model names."""
    share = np.array([0.95] * 10 + [0.57] * 5 + [0.05] * 5)[:, None]
    rng = np.random.default_rng(3)
    estimation, selection = ((rng.random((INPUTS, size)) < share).astype(int) for size in (1_000, 100))
    votes = recert.StoredVotes(estimation, selection=selection)
    cache = recert.certify(votes, None, noise=NOISE, samples=1_000, selection_samples=100, certificate="one-sided")
    alpha = 1e-6
    abstained = beta.ppf(alpha / 2, estimation.sum(axis=1), 1_001 - estimation.sum(axis=1)) <= 0.5
    assert abstained[10:15].any()
    chosen = recert.select(
        {"same": votes}, None, cache, LABELS, cost={"same": 1.0}, metric="acr", tolerance=1.0, alpha=alpha
    )
    assert chosen.certificates is not None
    result = chosen.certificates
    assert set(result.outcome[:10]) == {Outcome.CERTIFIED}
    assert set(result.outcome[10:15][abstained[10:15]]) <= {Outcome.NOT_CERTIFIED_BEFORE, Outcome.LEFT_OUT_BY_PLAN}
    assert Outcome.NOT_CERTIFIED_BEFORE in set(result.outcome[10:15])
    assert set(result.outcome[15:]) == {Outcome.LEFT_OUT_BY_PLAN}
    assert (result.forward_passes[10:][result.outcome[10:] != Outcome.CERTIFIED] == 0).any()


def test_pictures(tmp_path: Path) -> None:
    candidates = {"impostor": copy_of_the_original(estimation=1 - ESTIMATION), "honest": copy_of_the_original()}
    chosen = recert.select(candidates, None, cached(), LABELS, cost={"impostor": 1.0, "honest": 2.0})
    assert [entry.name for entry in chosen.pareto] == ["impostor", "honest"]
    lines = text_picture(chosen).splitlines()
    assert lines[1].startswith("impostor")
    assert lines[2].count("#") == 1
    draw_choice(chosen, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
