"""What a result says of itself, number by number; and which settings are refused before a sample is spent."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import recert
from recert import Cache, Certificates, Gaussian, Outcome, StoredVotes
from recert.certificates import Settings, Together, claim_from_bounds, claim_one_sided
from recert.certification import check_settings, family_members
from recert.models.numerics import Numerics
from recert.sampling import VoteChunk, Work

NOISE = Gaussian(0.5)
ERROR = 2**-6
"""Its multiples are exact."""

ALONE = Settings(
    method="series", certificate="one-sided", alpha=ERROR, error=ERROR, noise="gaussian:0.5", seed=0, samples=100,
    selection_samples=50, model={}, numerics=Numerics.from_text({"torch": "2.0"}),
)  # fmt: skip
CLAIM = (
    "For each input on its own, with probability at least 0.984375 over the noise drawn, the smoothed model's prediction is "
    "constant within the stated l2 radius (gaussian:0.5, series, one-sided)."
)


@pytest.mark.parametrize(
    ("noise", "radius"),
    [("laplace:0.35", "l1 radius"), ("gaussian:0.5:grid=1/255", "l2 radius"), ("noise-of-somebody:1", "radius")],
)
def test_the_guarantee_names_the_norm(noise: str, radius: str) -> None:
    """A radius in the l1 norm is another claim than one in the l2 norm."""
    said = replace(ALONE, noise=noise).guarantee
    assert f"constant within the stated {radius} ({noise}, series, one-sided)." in said


def added(**changes: Any) -> str:
    """What the guarantee says beyond the claim of each input."""
    said = replace(ALONE, **changes).guarantee
    assert said.startswith(CLAIM)
    return said.removeprefix(CLAIM)


def together(**changes: Any) -> Together:
    return replace(Together(1, ERROR, 1, ERROR, ERROR), **changes)


class TestGuarantee:
    """With an error of 1/64 per claim."""

    def test_of_one_look_at_one_model(self) -> None:
        assert added() == added(together=together()) == ""

    def test_of_a_prediction(self) -> None:
        said = replace(ALONE, method="predict", family=3, looks=(1, 2)).guarantee
        assert "probability at least 0.984375 over the noise drawn, the class returned, if any, is the most" in said
        assert said.endswith("(gaussian:0.5). Nothing is said about a radius.")

    @pytest.mark.parametrize(
        ("family", "holding"), [({"family": 2}, "0.96875"), ({"family": 32}, "0.5"), ({"family": 500}, "0")]
    )
    def test_of_a_family(self, family: dict[str, int], holding: str) -> None:
        assert added(**family) == (
            f" Bonferroni: all {family['family']} claims of the family hold together with probability at least {holding}."
        )

    def test_of_a_family_that_grew(self) -> None:
        assert added(family=2, claims=2) == added(family=2)
        assert added(family=4, claims=8) == (
            " Bonferroni: all 8 claims of the family hold together with probability at least 0.875; alpha was divided by 4 only, "
            "before inputs were added."
        )

    def test_of_a_family_at_every_size_and_in_every_planned_look(self) -> None:
        """2 claims, 2 sizes and 8 planned looks: 32 errors of 1/64."""
        assert "all 2 claims of the family hold together with probability at least 0.5." in added(
            family=2, looks=(300, 400), planned=tuple(range(1, 9))
        )
        assert "with probability at least 0.9375." in added(family=2, looks=(300, 400))
        assert "with probability at least 0.75." in added(family=2, planned=tuple(range(1, 9)))

    def test_of_votes_that_were_drawn_in_two_ways(self) -> None:
        mixed = Numerics.from_text({"torch": "2.0, 2.1", "device": "cpu", "batch_size": "64, 32"})
        expected = " The cached votes were drawn with mixed numerics (batch_size, torch): this holds if they do not change votes."
        assert added(numerics=mixed) == added(cache_numerics=mixed) == expected
        assert added(numerics=mixed, cache_numerics=Numerics.from_text({"torch": "2.0"})) == ""

    def test_of_votes_of_a_proxy(self) -> None:
        assert added(proxy={"made by": "fp16"}) == (
            " Most votes are of a faster network (fp16); the claim is about the model itself."
        )

    def test_of_votes_that_grew(self) -> None:
        assert added(looks=(300,)) == ""
        assert added(looks=(300, 400)) == (
            " The votes were looked at before, at another size (n = 300, 400): each look holds on its own; that all hold together "
            "has error at most 0.03125."
        )

    def test_of_planned_looks(self) -> None:
        planned = (
            " One of 2 looks that were planned, with budgets of 50, 100: an input's claims of all of them hold together with "
            "probability at least 0.96875."
        )
        assert added(planned=(50, 100)) == planned
        # both were taken, and nothing else
        assert added(planned=(50, 100), together=together(looks=2, looks_error=2 * ERROR)) == planned
        at_two_sizes = added(planned=(50, 100), looks=(300, 400), together=together(looks=2, looks_error=4 * ERROR))
        assert "was re-certified" not in at_two_sizes
        assert at_two_sizes.endswith("claims of all of them hold together with probability at least 0.9375.")

    @pytest.mark.parametrize("looks", [(), (300,)])
    def test_of_a_look_on_top_of_planned_ones(self, looks: tuple[int, ...]) -> None:
        said = added(planned=(50, 100), looks=looks, together=together(looks=3, looks_error=3 * ERROR))
        assert said.endswith("that an input's claims of all 3 hold together has error at most 0.046875.")

    def test_of_looks_that_were_not_planned(self) -> None:
        assert added(together=together(looks=2, looks_error=2 * ERROR)) == (
            " This model was re-certified 2 times from this cache: each claim holds on its own if its settings were not chosen by "
            "what the others gave; that an input's claims of all 2 hold together has error at most 0.03125."
        )

    def test_of_looks_at_families(self) -> None:
        known = together(looks=2, looks_error=2 * ERROR, families_error=16 * ERROR)
        assert "all these families" not in added(together=known)
        assert added(family=2, together=known).endswith(
            " That all claims of all these families hold has error at most 0.25."
        )

    def test_of_several_models(self) -> None:
        assert added(together=together(models=2, models_error=3 * ERROR)) == (
            " 2 models were re-certified from this cache: that an input's claims about all of them hold together has error at most "
            "0.046875."
        )

    def test_no_more_can_be_wrong_than_all(self) -> None:
        """65 errors of 1/64 are certain, not more."""
        many = tuple(range(1, 66))
        assert "all hold together has error at most 1." in added(looks=many)
        assert "hold together with probability at least 0." in added(planned=many)
        said = added(
            family=2, together=together(looks=2, looks_error=2.0, families_error=3.0, models=2, models_error=4.0)
        )
        assert said.count("has error at most 1.") == 3


LARGEST = 2**32 - 1
"""Noises are numbered with 32 bits."""


class TestCheckSettings:
    @pytest.mark.parametrize(
        ("certificate", "alpha", "fewest"),
        [
            ("one-sided", 2**-9.5, 10),  # the first n with alpha ** (1 / n) above 1/2
            ("two-sided", 2**-9.5, 11),
            ("one-sided", 2**-9.1, 10),
            ("two-sided", 2**-9.1, 11),
        ],
    )
    def test_as_many_samples_as_can_certify(self, certificate: str, alpha: float, fewest: int) -> None:
        for enough in (fewest, np.int64(fewest), LARGEST):
            check_settings(enough, 1, alpha, certificate)  # type: ignore[arg-type]
        for bad in (fewest - 1, 0, -5, LARGEST + 1):
            with pytest.raises(ValueError, match=f"expected between {fewest} and {LARGEST} samples .* got {bad};"):
                check_settings(bad, 1, alpha, certificate)

    def test_selection_samples(self) -> None:
        for good in (1, LARGEST):
            check_settings(100, good, 0.01, "one-sided")
        for bad in (0, -1, LARGEST + 1):
            with pytest.raises(ValueError, match=f"expected at least 1 selection sample, got {bad};"):
                check_settings(100, bad, 0.01, "one-sided")

    @pytest.mark.parametrize("bad", [100.0, "100", None])
    def test_whole_numbers(self, bad: Any) -> None:
        with pytest.raises(ValueError, match="expected samples as a whole number"):
            check_settings(bad, 50, 0.01, "one-sided")
        with pytest.raises(ValueError, match="expected selection_samples as a whole number"):
            check_settings(100, bad, 0.01, "one-sided")

    def test_a_kind_of_certificate_and_an_error(self) -> None:
        with pytest.raises(ValueError, match="one of one-sided, two-sided, got 'no-sided'"):
            check_settings(100, 50, 0.01, "no-sided", smallest=1)
        for alpha in (0.0, 1.0, -0.1, float("nan")):
            with pytest.raises(ValueError, match="0 < alpha < 1"):
                check_settings(100, 50, alpha, "one-sided", smallest=1)

    @pytest.mark.parametrize(
        "bad",
        [{"samples": 9}, {"samples": 99.5}, {"alpha": 1.5}, {"certificate": "no-sided"}, {"selection_samples": 0}],
    )
    def test_certify_asks(self, bad: dict[str, Any]) -> None:
        votes = np.zeros((1, 100), int)
        with pytest.raises(ValueError, match=r"^expected (between|samples|certificate|.* alpha|at least 1 selection)"):
            recert.certify(StoredVotes(votes, selection=votes), None, **{"noise": NOISE, "samples": 100, **bad})


class TestFamilyMembers:
    def test_one_claim_for_every_input_or_as_many_as_told(self) -> None:
        assert family_members(None, [1, 2, 3]) == 1
        assert family_members("bonferroni", [1, 2, 3]) == 3
        assert family_members("bonferroni", [1]) == 1
        assert family_members(3, [1, 2, 3]) == 3
        assert family_members(7, [1, 2, 3]) == 7
        assert family_members(7, iter([])) == 7
        assert family_members(1, iter([])) == 1

    @pytest.mark.parametrize(
        ("size", "inputs", "message"),
        [
            (None, [], "at least 1 claim, as a whole number, got 0"),
            (None, iter([1, 2]), "at least 1 claim, as a whole number, got 0"),
            (0, iter([]), "at least 1 claim, as a whole number, got 0"),
            (-1, [], "at least 1 claim, as a whole number, got -1"),
            (2, [1, 2, 3], "a family of at least 3, one claim for every input, got 2"),
        ],
    )
    def test_too_few(self, size: int | None, inputs: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            family_members("bonferroni" if size is None else size, inputs)

    @pytest.mark.parametrize("family", ["holm", True, 2.0])
    def test_what_is_no_family(self, family: Any) -> None:
        with pytest.raises(ValueError, match="expected"):
            family_members(family, [1])


def certified(columns: int = 12_000, rows: int = 1, **options: Any) -> Cache:
    votes = np.zeros((rows, columns), int)
    return recert.certify(StoredVotes(votes, selection=votes, classes=2), None, **{"noise": NOISE, **options})


class TestCertify:
    @pytest.mark.parametrize(("samples", "selected"), [(100, 100), (2_000, 100), (4_000, 200), (12_000, 500)])
    def test_a_store_has_a_twentieth_of_selection_votes_within_limits(
        self, tmp_path: Path, samples: int, selected: int
    ) -> None:
        assert certified(samples=samples).manifest.selection_samples == 100
        assert certified(samples=samples, store=tmp_path).manifest.selection_samples == selected

    def test_a_store_keeps_what_it_has(self, tmp_path: Path) -> None:
        certified(samples=1_000, store=tmp_path, selection_samples=70)
        extended = certified(samples=4_000, store=tmp_path)
        assert (extended.manifest.selection_samples, extended.manifest.looks) == (70, (1_000, 4_000))

    def test_a_store_is_continued_at_its_batch_size(self, tmp_path: Path) -> None:
        network, inputs = torch.nn.Linear(2, 2).eval(), np.ones((2, 2), np.float32)
        for options in ({"samples": 20, "batch_size": 8}, {"samples": 30}):
            cache = recert.certify(
                network, inputs, noise=NOISE, selection_samples=5, alpha=0.1, store=tmp_path, **options
            )  # type: ignore[arg-type]
            assert cache.manifest.batch_size == 8
        for size, used in ((None, "8"), (4, "4")):  # and re-certified at it unless told
            result = recert.recertify(network, inputs, tmp_path, samples=10, alpha=0.2, batch_size=size)
            assert result.settings.numerics.text("batch_size") == used

    def test_claims_are_counted_of_families_only(self) -> None:
        assert certified(samples=100, rows=3).manifest.claims == 0
        assert certified(samples=100, rows=3, family="bonferroni").manifest.claims == 3
        assert certified(samples=100, rows=3, family=5).manifest.claims == 5

    def test_votes_have_no_proxy(self) -> None:
        votes = StoredVotes(np.zeros((1, 100), int), classes=2)
        with pytest.raises(ValueError, match="expected a model with a proxy, got votes"):
            recert.certify_by_proxy(votes, None, noise=NOISE, proxy="fp16")  # type: ignore[arg-type]

    def test_numerics_that_change_while_votes_are_drawn_are_noted(self) -> None:
        """As when memory runs out and batches become smaller."""

        class Changing(StoredVotes):
            def draw(self, works: Sequence[Work], task: str, progress: object) -> Iterator[VoteChunk]:
                yield from super().draw(works, task, None)
                self.numerics = Numerics.from_text({"source": "smaller batches"})

        votes = np.zeros((1, 100), int)
        cache = recert.certify(Changing(votes, selection=votes), None, noise=NOISE, samples=100)
        assert cache.manifest.numerics.to_text() == {"source": "stored votes, smaller batches"}
        assert "mixed numerics (source)" in cache.certificates.guarantee


class TestPredict:
    def test_at_the_error_itself(self) -> None:
        """Five votes of five: a fair coin does as well with a probability of 1/16."""
        votes = StoredVotes(np.zeros((1, 5), int), classes=2)
        for alpha, outcome in ((1 / 16, Outcome.PREDICTED), (1 / 16.1, Outcome.NOT_SIGNIFICANT)):
            result = recert.predict(votes, None, noise=NOISE, samples=5, alpha=alpha)
            assert result.outcome.tolist() == [outcome]
            assert (result.settings.alpha, result.settings.error) == (alpha, alpha)

    def test_columns(self) -> None:
        votes = StoredVotes(np.array([[2] * 50 + [0] * 3 + [-1] * 7, [1] * 60]), classes=3)
        result = recert.predict(votes, None, noise=NOISE, samples=60)
        assert result.prediction.tolist() == [2, 1]
        assert result.top_votes.tolist() == [50, 60]
        assert result.nobody.tolist() == [7, 0]
        assert result.samples.tolist() == result.forward_passes.tolist() == [60, 60]
        assert (result.settings.samples, result.settings.selection_samples) == (60, 0)
        assert np.isnan(result.top_lower).all()
        assert np.isnan(result.runner_up_upper).all()
        assert result.explanation[0].endswith("7 invalid votes: logits were not finite, and count for no class.")
        assert result.explanation[1] == Outcome.PREDICTED.explanation

    def test_one_sample_is_enough_to_ask(self) -> None:
        votes = StoredVotes(np.zeros((1, 5), int), classes=2)
        assert recert.predict(votes, None, noise=NOISE, samples=1).outcome.tolist() == [Outcome.NOT_SIGNIFICANT]
        for bad in ({"samples": 0}, {"samples": 2.0}, {"samples": 5, "alpha": 1.0}):
            with pytest.raises(ValueError, match="expected"):
                recert.predict(votes, None, noise=NOISE, **bad)  # type: ignore[arg-type]


class TestCertificates:
    CLAIMS = claim_one_sided([0, 1, 1], [100, 100, 40], 100, ERROR, NOISE)

    def build(self, **counts: Any) -> Certificates:
        return Certificates.build(["a", "b", "c"], self.CLAIMS, ALONE, NOISE, **counts)

    def test_counts_that_are_not_given_are_0(self) -> None:
        result = self.build(samples=100, kept=[1, 2, 3])
        assert (result.samples.tolist(), result.kept.tolist()) == ([100] * 3, [1, 2, 3])
        for name in ("top_votes", "replayed", "lost", "gained", "forward_passes", "nobody", "seconds"):
            assert getattr(result, name).tolist() == [0, 0, 0]
        assert result.method.tolist() == ["series"] * 3
        assert result.prediction.tolist() == [0, 1, -1]

    def test_columns_that_are_not_known_are_refused(self) -> None:
        with pytest.raises(TypeError, match="unknown columns: keptt"):
            self.build(keptt=1)

    def test_rows_taken_again_cost_nothing_again(self) -> None:
        taken = self.build(forward_passes=[10, 20, 30], seconds=[1.0, 2.0, 3.0]).take([2, 0, 2, 2])
        assert taken.input.tolist() == ["c", "a", "c", "c"]
        assert taken.index.tolist() == [0, 1, 2, 3]
        assert taken.forward_passes.tolist() == [30, 10, 0, 0]
        assert taken.seconds.tolist() == [3.0, 1.0, 0.0, 0.0]

    def test_a_log_names_inputs_by_number_unless_told(self, tmp_path: Path) -> None:
        result = self.build(seconds=[0.5, 1, 61])
        result.to_tsv(tmp_path / "log", [0, 0, 1])
        lines = [line.split("\t") for line in (tmp_path / "log").read_text().splitlines()]
        assert [line[0] for line in lines] == ["idx", "0", "1", "2"]
        assert [line[4] for line in lines] == ["correct", "1", "0", "0"]
        assert [line[5] for line in lines] == ["time", "0:00:00.500000", "0:00:01", "0:01:01"]


def test_a_tie_is_no_lead() -> None:
    half = np.array([0.5, 0.3, np.nextafter(0.5, 1)])
    claims = claim_from_bounds([1, 1, 1], half, np.array([0.5, 0.3, 0.5]), NOISE, otherwise=Outcome.NO_MAJORITY)
    assert claims.prediction.tolist() == [-1, -1, 1]
    assert claims.outcome.tolist() == [Outcome.NO_MAJORITY, Outcome.NO_MAJORITY, Outcome.CERTIFIED]


@pytest.mark.parametrize("method", ["series", "irs", "scratch-cached", "scratch"])
def test_a_re_certification_names_what_either_models_votes_were_drawn_with(method: str) -> None:
    """But for scratch, which owes nothing to the cache: neither its numerics nor its looks and its selection votes."""
    votes = np.zeros((2, 100), int)
    changed = StoredVotes(votes, selection=votes, fresh=votes, classes=2)
    changed.numerics = Numerics.from_text({"source": "another device"})
    cache = certified(samples=100, selection_samples=70, rows=2)
    chosen = recert.Scratch(selection_samples=40) if method == "scratch" else method
    settings = recert.recertify(
        changed, None, cache, samples=50, method=chosen, certificate="one-sided", plan="uniform"
    ).settings
    assert settings.numerics.to_text() == {"source": "another device"}
    assert settings.samples == 50
    if method == "scratch":
        assert (settings.cache_numerics, settings.looks, settings.selection_samples) == (None, (), 40)
    else:
        assert settings.cache_numerics is not None
        assert settings.cache_numerics.to_text() == {"source": "stored votes"}
        assert (settings.looks, settings.selection_samples) == (cache.manifest.looks, 70)
