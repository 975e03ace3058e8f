"""What is expected of a budget beside what re-certification of real networks then gave; and remarks on a result."""

from collections.abc import Callable

import numpy as np
import pytest

import recert
from recert import Gaussian, Outcome, StoredVotes

BUDGETS = [85, 170, 425, 850]


def source(votes: np.ndarray) -> StoredVotes:
    return StoredVotes(votes[:, 500:9000], selection=votes[:, :500], fresh=votes[:, 9000:], classes=10)


@pytest.fixture(scope="module")
def cache(real_votes: dict[str, np.ndarray]) -> recert.Cache:
    return recert.certify(source(real_votes["fp32"]), None, noise=Gaussian(0.5), samples=8_500, selection_samples=500)


def test_what_is_expected_is_about_what_comes(cache: recert.Cache, real_votes: dict[str, np.ndarray]) -> None:
    """Mean radii of an int8 and of an unchanged network, and of certifying the int8 one anew, within a few hundredths."""
    mild, none = recert.expected_gain(cache), recert.expected_gain(cache, flips=0.0)
    assert [row.passes for row in mild.rows] == BUDGETS
    for name, expected in (("int8", mild), ("fp32", none)):
        for row in expected.rows[1:]:
            result = recert.recertify(source(real_votes[name]), None, cache, samples=row.passes)
            assert row.radius == pytest.approx(result.radius.mean(), rel=0.08)
    for row in mild.rows[2:]:
        anew = recert.certify(
            source(real_votes["int8"][:, 400:]), None, noise=Gaussian(0.5), alpha=0.002, samples=row.passes - 100, selection_samples=100,
        ).certificates  # fmt: skip
        assert row.anew == pytest.approx(anew.radius.mean(), rel=0.08)


def test_the_gain_is_the_passes_for_the_same_radius(cache: recert.Cache, real_votes: dict[str, np.ndarray]) -> None:
    """So many times the budget, 100 of them to choose the class, give fresh votes of the network the radius that is expected."""
    row = recert.expected_gain(cache, samples=85).rows[0]
    passes = round(85 * row.gain)
    anew = recert.certify(
        source(real_votes["int8"][:, 400:]), None, noise=Gaussian(0.5), alpha=0.002, samples=passes - 100, selection_samples=100,
    ).certificates  # fmt: skip
    assert row.gain > 2
    assert anew.radius.mean() == pytest.approx(row.radius, rel=0.08)


def test_more_passes_and_fewer_flips_are_expected_to_give_more(cache: recert.Cache) -> None:
    radii = [[row.radius for row in recert.expected_gain(cache, flips=flips).rows] for flips in (0.0, 0.05, 0.2)]
    assert np.all(np.diff(radii, axis=1) > 0)
    assert np.all(np.diff(radii, axis=0) < 0)
    assert max(map(max, radii)) < recert.expected_gain(cache).radius


def unanimous(count: int, against: Callable[[int], int]) -> recert.Cache:
    """Inputs of which the i-th has `against(i)` of 2,000 votes against its class, spread evenly over its selection votes as well."""
    votes = np.ones((count, 2_500), dtype=np.int64)
    rng = np.random.default_rng(0)
    for i in range(count):
        votes[i, rng.choice(2_000, against(i), replace=False) + 500] = 0
        votes[i, rng.choice(500, against(i) // 4, replace=False)] = 0
    made = StoredVotes(votes[:, 500:], selection=votes[:, :500], fresh=votes[:, 500:], classes=2)
    return recert.certify(made, None, noise=Gaussian(1.0), samples=2_000, selection_samples=500)


def test_inputs_on_which_samples_are_the_limit() -> None:
    """Six are unanimous; on two others 1 vote in 1,000 is against the class; on two 1 in 5."""
    cache = unanimous(10, lambda i: 0 if i < 6 else 2 if i < 8 else 400)
    assert [row.limited for row in recert.expected_gain(cache, samples=[40, 1_000]).rows] == [8, 6]
    # Where all votes agree, fresh votes show about as much as replays, and what is gained is mostly the choice of the class.
    sure, unsure = (recert.expected_gain(unanimous(10, lambda i, n=n: n), samples=200).rows[0].gain for n in (0, 400))
    assert sure < 2 < 2 * sure < unsure


def test_the_runner_up_is_expected_to_be_bounded_as_well() -> None:
    """A class with 45% of the votes before rivals of 11% has no one-sided certificate, and a two-sided one."""
    rng = np.random.default_rng(0)
    votes = rng.choice(6, (10, 4_500), p=[0.45, 0.11, 0.11, 0.11, 0.11, 0.11])
    made = StoredVotes(votes[:, 500:], selection=votes[:, :500], fresh=votes[:, 500:], classes=6)
    cache = recert.certify(made, None, noise=Gaussian(1.0), samples=4_000, selection_samples=500)
    row = recert.expected_gain(cache, samples=1_000, flips=0.0).rows[0]
    assert row.radius == pytest.approx(recert.recertify(made, None, cache, samples=1_000).radius.mean(), rel=0.15)
    assert row.radius > 0.2


def test_inputs_that_were_not_certified_get_nothing() -> None:
    cache = unanimous(4, lambda i: 1_000)
    found = recert.expected_gain(cache, samples=50)
    assert (found.inputs, found.certified, found.rows[0].radius, found.rows[0].limited) == (4, 0, 0.0, 0)
    assert "0 can be certified again" in str(found)


def test_it_is_printed_as_a_table(cache: recert.Cache) -> None:
    found = recert.expected_gain(cache, samples=[85, 425])
    assert repr(found) == str(found)  # a notebook shows it by itself
    lines = str(found).splitlines()
    assert len(lines) == 6
    assert all(len(line) <= 80 for line in lines[1:4])
    assert lines[0].startswith("64 inputs, of which")
    for line, row in zip(lines[2:4], found.rows, strict=True):
        shown = line.split()
        assert shown[:3] == [f"{row.passes:,}", f"{row.radius:.3f}", f"{row.anew:.3f}"]
        assert shown[-2:] == [f"{row.limited}", f"{row.left_out}"]
    assert "nothing is claimed" in lines[-1]


def test_nothing_is_recorded_and_wrong_arguments_are_named(cache: recert.Cache) -> None:
    before = cache.looks.known()
    recert.expected_gain(cache, samples=200)
    assert cache.looks.known() == before
    for wrong in (0, [10, -1], 0.5, []):
        with pytest.raises(ValueError, match="expected samples as whole numbers of at least 1"):
            recert.expected_gain(cache, samples=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a method that plans its budget"):
        recert.expected_gain(cache, method="irs")


class TestRemarks:
    """What a result says of itself."""

    def votes(self, cached: np.ndarray) -> StoredVotes:
        return StoredVotes(cached[:, 500:], selection=cached[:, :500], fresh=cached[:, 500:], classes=2)

    def cached(self) -> np.ndarray:
        votes = np.ones((10, 2_500), dtype=np.int64)
        votes[6:8, ::1000] = 0  # 1 in 1,000
        votes[8:, ::4] = 0
        return votes

    def test_where_samples_were_the_limit(self) -> None:
        cached, changed = self.cached(), self.cached()
        changed[9, 501:600:2] = 0
        cache = recert.certify(self.votes(cached), None, noise=Gaussian(1.0), samples=2_000, selection_samples=500)
        result = recert.recertify(self.votes(changed), None, cache, samples=100, method="series", plan="uniform")
        assert [text for text in result.remarks if text.startswith("Limited by samples on 8 of 10 inputs")]
        assert "same model" not in "".join(result.remarks)  # it flipped
        assert "left out" not in "".join(result.remarks)
        assert result.remarks[0] in repr(result)

    def test_the_same_model_and_one_that_only_votes_alike(self) -> None:
        cached, alike = self.cached(), self.cached()
        alike[0, 2_499] = 0  # outside of what is replayed
        cache = recert.certify(self.votes(cached), None, noise=Gaussian(1.0), samples=2_000, selection_samples=500)
        same, other = (
            recert.recertify(self.votes(votes), None, cache, samples=100, method="series", plan="uniform").remarks[0]
            for votes in (cached, alike)
        )
        assert "same model as the one that the cache was made with (weights and structure are identical)" in same
        assert other.startswith("No vote flipped in 1,000 replays")
        assert "identified as another one" in other

    def test_what_the_plan_left_out(self, cache: recert.Cache, real_votes: dict[str, np.ndarray]) -> None:
        result = recert.recertify(source(real_votes["int8"]), None, cache, samples=60)
        left_out = int((result.outcome == Outcome.LEFT_OUT_BY_PLAN).sum())
        assert left_out > 0
        assert result.remarks[-1].startswith(
            f"{left_out} of 64 inputs were left out by the plan: that is the budget's doing"
        )

    def test_a_baseline_owes_nothing_to_the_cache(self) -> None:
        cached = self.cached()
        cache = recert.certify(self.votes(cached), None, noise=Gaussian(1.0), samples=2_000, selection_samples=500)
        own = StoredVotes(cached[:, 500:], selection=cached[:, :500], fresh=cached[:, 500:], classes=2)
        assert recert.recertify(own, None, cache, samples=100, method="scratch").remarks == ()

    def test_predictions_are_not_said_to_be_uncertified(self) -> None:
        predicted = recert.predict(self.votes(self.cached()), None, noise=Gaussian(1.0), samples=100)
        assert "100.0% predicted" in repr(predicted)
        assert "certified" not in repr(predicted)


class TestPlansForEveryone:
    """Plans that leave no input out."""

    @pytest.mark.parametrize("plan", ["acr", "accuracy:0.5"])
    @pytest.mark.parametrize("samples", [40, 150])
    def test_no_input_is_left_out(
        self, cache: recert.Cache, real_votes: dict[str, np.ndarray], plan: str, samples: int
    ) -> None:
        changed = source(real_votes["int8"])
        some = recert.recertify(changed, None, cache, samples=samples, plan=plan)
        everyone = recert.recertify(changed, None, cache, samples=samples, plan=f"{plan},all")
        assert (some.outcome == Outcome.LEFT_OUT_BY_PLAN).any()
        assert not (everyone.outcome == Outcome.LEFT_OUT_BY_PLAN).any()
        assert "left out" not in "".join(everyone.remarks)
        tried = everyone.outcome != Outcome.NOT_CERTIFIED_BEFORE
        least = min(samples // 2, some.forward_passes[some.forward_passes > 0].min())
        # A plan for a radius may give less where less is enough.
        assert everyone.forward_passes[tried].min() >= (least if plan == "acr" else 12)
        assert not everyone.forward_passes[~tried].any()
        assert everyone.mean_forward_passes == pytest.approx(samples, rel=0.03)
        assert everyone.certified.sum() > some.certified.sum()

    def test_with_few_passes_each_has_as_many_as_can_certify(
        self, cache: recert.Cache, real_votes: dict[str, np.ndarray]
    ) -> None:
        """Of 12 passes in the mean half would be 6: with fewer than 10 nothing is certified at alpha = .002, two-sided."""
        result = recert.recertify(source(real_votes["fp32"]), None, cache, samples=12, plan="acr,all")
        assert result.forward_passes[result.outcome != Outcome.NOT_CERTIFIED_BEFORE].min() == 10

    def test_it_is_another_look(self, real_votes: dict[str, np.ndarray]) -> None:
        # Of some inputs, so that no other test has looked at the same votes.
        original, changed = source(real_votes["fp32"][:30]), source(real_votes["int8"][:30])
        cache = recert.certify(original, None, noise=Gaussian(0.5), samples=8_500, selection_samples=500)
        for plan in ("acr", "acr,all"):
            result = recert.recertify(changed, None, cache, samples=60, plan=plan)
        assert result.settings.together is not None
        assert result.settings.together.looks == 2

    @pytest.mark.parametrize("plan", ["uniform,all", "acr,everyone", "acr,all,all", ",all"])
    def test_what_is_no_plan(self, cache: recert.Cache, real_votes: dict[str, np.ndarray], plan: str) -> None:
        with pytest.raises(ValueError, match="expected"):
            recert.recertify(source(real_votes["int8"]), None, cache, samples=60, plan=plan)
