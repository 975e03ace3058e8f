"""Wrong arguments of the public face are refused in words, before anything is drawn or written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import recert
from recert import Execution, Gaussian, StoredVotes
from recert.cache import looks
from recert.noise import Stream
from recert.recertification.series import Series
from tests.noise.laplace import TestLaplace

X = np.random.default_rng(0).random((4, 3), dtype=np.float32)
VOTES = np.zeros((4, 400), int)


@pytest.fixture(autouse=True)
def nothing_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at caches in memory are counted as long as the process lives."""
    monkeypatch.setattr(looks, "_of_this_process", {})
    monkeypatch.setattr(looks, "_sizes_of_this_process", {})


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 3).eval()


def stored(**more: Any) -> StoredVotes:
    return StoredVotes(VOTES, selection=VOTES[:, :100], fresh=VOTES, classes=2, **more)


def cache() -> recert.Cache:
    return recert.certify(stored(), None, noise=Gaussian(0.5), samples=400)


class TestNoises:
    """What is written into a manifest must be read back as the same noise."""

    @pytest.mark.parametrize("sigma", [np.float64(0.5), np.linspace(0.5, 1, 2)[0]])
    def test_numbers_of_numpy_are_numbers(self, sigma: float, tmp_path: Path) -> None:
        assert Gaussian(sigma).spec == "gaussian:0.5"
        recert.certify(network(), X, noise=Gaussian(sigma), samples=50, store=tmp_path)
        assert recert.Cache.open(tmp_path).manifest.noise == Gaussian(0.5)

    @pytest.mark.parametrize("sigma", [True, np.float32(0.5), "0.5", None, 0.0, float("nan")])
    def test_what_is_no_scale(self, sigma: Any) -> None:
        with pytest.raises(ValueError, match="expected a finite noise scale"):
            Gaussian(sigma)

    def test_a_noise_that_nobody_knows_is_not_written(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"recert\.register_noise first"):
            recert.certify(network(), X, noise=TestLaplace(0.5), samples=50, store=tmp_path / "store")
        assert not (tmp_path / "store" / "_manifest.json").exists()

    def test_a_spec_that_gives_another_noise_back_is_not_written(self, tmp_path: Path) -> None:
        @dataclass(frozen=True)
        class Renamed(Gaussian):
            @property
            def spec(self) -> str:
                return f"gaussian:{2 * self.sigma!r}"

        with pytest.raises(ValueError, match="expected a noise that its spec gives back"):
            recert.certify(network(), X, noise=Renamed(0.5), samples=50, store=tmp_path / "store")


class TestNumbersAndPlaces:
    def test_a_seed_of_numpy_is_that_number(self, tmp_path: Path) -> None:
        seed: Any = np.int64(3)
        recert.certify(network(), X, noise=Gaussian(0.5), samples=50, seed=seed, store=tmp_path / "store")
        plain = recert.certify(network(), X, noise=Gaussian(0.5), samples=60, seed=3, store=tmp_path / "store")
        assert plain.manifest.seed == 3
        assert recert.predict(network(), X, noise=Gaussian(0.5), samples=50, seed=seed).settings.seed == 3

    @pytest.mark.parametrize("seed", [1.0, -1, 2**64, True, "3", None])
    def test_what_is_no_seed(self, seed: Any) -> None:
        with pytest.raises(ValueError, match="expected a whole number as seed"):
            recert.certify(network(), X, noise=Gaussian(0.5), samples=50, seed=seed)
        with pytest.raises(ValueError, match="expected a whole number as seed"):
            recert.predict(network(), X, noise=Gaussian(0.5), samples=50, seed=seed)

    @pytest.mark.parametrize("size", [2.5, True, "64"])
    def test_what_is_no_batch_size(self, size: Any) -> None:
        with pytest.raises(ValueError, match="expected batch_size as a whole number"):
            recert.certify(network(), X, noise=Gaussian(0.5), samples=50, batch_size=size)
        with pytest.raises(ValueError, match="expected workers as a whole number"):
            Execution(engine="ray", workers=size)

    @pytest.mark.parametrize("alpha", ["x", None, float("nan"), 0, [1, "x"], [0.1]])
    def test_what_is_no_alpha(self, alpha: Any) -> None:
        with pytest.raises(ValueError, match="alpha"):
            recert.certify(network(), X, noise=Gaussian(0.5), samples=50, alpha=alpha)

    @pytest.mark.parametrize("name", ["", " ", 5, "a\nb", "\ud800", "x" * 1001])
    def test_what_is_no_name_of_a_model(self, name: Any) -> None:
        with pytest.raises(ValueError, match="expected identity="):
            recert.certify(network(), np.zeros((1, 3), np.float32), noise=Gaussian(0.5), samples=100, identity=name)

    @pytest.mark.parametrize(("option", "value"), [("plan", 5), ("certificate", ["two-sided"])])
    def test_what_is_no_choice(self, option: str, value: Any) -> None:
        with pytest.raises(ValueError, match=f"expected.*{option}"):
            recert.certify(network(), np.zeros((1, 3), np.float32), noise=Gaussian(0.5), samples=100, **{option: value})

    @pytest.mark.parametrize("store", [5, True, ["store"]])
    def test_what_is_no_store(self, store: Any) -> None:
        with pytest.raises(ValueError, match="expected a folder or a URL for a store"):
            recert.certify(network(), X, noise=Gaussian(0.5), samples=50, store=store)

    @pytest.mark.parametrize("store", ["", " "])
    def test_no_store_is_made_in_the_current_folder_by_accident(
        self, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        made = recert.certify(network(), X, noise=Gaussian(0.5), samples=400)
        for use in (
            lambda: recert.certify(network(), X, noise=Gaussian(0.5), samples=50, store=store),
            lambda: recert.Cache.open(store),
            lambda: recert.CachingSource.from_store(store),
            lambda: recert.recertify(network(), X, store, samples=50),
            lambda: recert.recertify(network(), X, made, samples=50, keep=store),
        ):
            with pytest.raises(ValueError, match="folder"):
                use()
        assert not list(tmp_path.iterdir())


class TestMethods:
    def test_every_field_of_a_method_makes_another_look(self) -> None:
        @dataclass(frozen=True)
        class Cautious(Series):
            caution: float = 1.0
            name: ClassVar[str] = "cautious"

        kept = cache()
        found = [
            recert.recertify(stored(), None, kept, samples=50, method=Cautious(caution)).settings.together
            for caution in (1.0, 2.0, 2.0)
        ]
        assert [look.looks for look in found if look is not None] == [1, 2, 2]

    @pytest.mark.parametrize("wrong", [0, -5, 2.5, "10", None])
    def test_votes_that_choose_are_a_number(self, wrong: Any) -> None:
        with pytest.raises(ValueError, match="at least 1 selection sample, as a whole number"):
            recert.Scratch(selection_samples=wrong)

    @pytest.mark.parametrize("most", [1, 2**32 - 1, np.int64(7)])
    def test_any_number_of_votes_may_choose(self, most: int) -> None:
        assert recert.Scratch(most).votes_to_choose() == most
        with pytest.raises(ValueError, match="at least 1 selection sample"):
            recert.Scratch(2**32)

    def test_a_class_is_no_method(self) -> None:
        with pytest.raises(ValueError, match=r"got the class Irs; write Irs\(\)"):
            recert.recertify(stored(), None, cache(), samples=50, method=recert.Irs)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="expected a method such as"):
            recert.register_method(recert.Irs)  # type: ignore[arg-type]

    def test_a_source_without_estimation_votes_says_what_it_lacks(self) -> None:
        class NoVotes(StoredVotes):
            def __init__(self) -> None:
                self.__dict__.update(stored().__dict__)
                self.streams = frozenset({Stream.SELECTION})
                self._votes = {Stream.SELECTION: self._votes[Stream.SELECTION]}

        with pytest.raises(ValueError, match="stored estimation votes per input, got 0"):
            recert.recertify(NoVotes(), None, cache(), samples=50, method="series")

    def test_the_kind_of_certificate_is_checked_before_a_model_is_run(self) -> None:
        def never(batch: object) -> object:
            raise AssertionError("the model was called")

        with pytest.raises(ValueError, match="one-sided' with method='irs', which offers no other"):
            recert.recertify(never, X, cache(), samples=50, method="irs", certificate="two-sided")

    def test_fresh_votes_need_no_cached_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = cache()
        monkeypatch.setattr(recert.Cache, "votes", None)
        result = recert.recertify(stored(), None, kept, samples=50, method="scratch-cached")
        assert (result.forward_passes == 50).all()


class TestExecution:
    @pytest.mark.parametrize("wrong", ["cuda", {"device": "cpu"}, Execution])
    def test_what_is_no_execution(self, wrong: Any) -> None:
        with pytest.raises(ValueError, match=r"expected execution as a recert\.Execution"):
            recert.certify(network(), X, noise=Gaussian(0.5), samples=50, execution=wrong)

    def test_devices(self) -> None:
        with pytest.raises(ValueError, match="expected a device such as cpu, cuda or cuda:1, got 'gpu'"):
            Execution(device="gpu")

    @pytest.mark.parametrize("choice", [{"precision": "bf16"}, {"compile": True}, {"engine": "ray", "workers": 2}])
    def test_votes_are_run_as_they_were_made(self, choice: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="with a source of votes, which is run as it was made"):
            recert.certify(stored(), None, noise=Gaussian(0.5), samples=400, execution=Execution(**choice))

    def test_a_keyword_and_an_execution_do_not_contradict(self) -> None:
        with pytest.raises(ValueError, match="expected batch_size once"):
            recert.certify(network(), X, noise=Gaussian(0.5), execution=Execution(batch_size=8), batch_size=16)


class TestSources:
    def test_a_model_is_no_source(self) -> None:
        with pytest.raises(ValueError, match=r"got Linear; make one with recert\.open_source"):
            recert.CachingSource(network())  # type: ignore[arg-type]

    def test_what_a_source_lacks_is_named(self) -> None:
        class Old:
            classes, digests, input_shape, streams = 2, ["a"], (1,), frozenset(Stream)

            def draw(self, *_: object) -> None: ...

        with pytest.raises(ValueError, match="got Old without identity, noise, seed, numerics"):
            recert.certify(Old(), None, noise=Gaussian(0.5), samples=50)  # type: ignore[arg-type]

    def test_what_a_scattered_store_lacks_is_drawn_by_certify(self, tmp_path: Path) -> None:
        source = recert.open_source(network(), X, noise=Gaussian(0.5), seed=0)
        with recert.CachingSource(source, store=tmp_path) as caching:
            list(caching.draw([recert.Work(0, Stream.ESTIMATION, np.array([3, 7, 9]))], "drawing", None))
        with pytest.raises(recert.RecertError, match="certify"):
            recert.recertify(network(), X, tmp_path, samples=50)
        whole = recert.certify(network(), X, noise=Gaussian(0.5), samples=60, store=tmp_path)
        assert (whole.manifest.samples, whole.manifest.selection_samples) == (60, 100)
        assert len(whole.certificates) == 4


class TestCompare:
    def test_methods_and_paths(self, tmp_path: Path) -> None:
        recert.certify(network(), X, noise=Gaussian(0.5), samples=400, selection_samples=50, store=tmp_path)
        labels = np.zeros(4, int)
        with pytest.raises(ValueError, match=r"write methods=\['irs'\]"):
            recert.compare(network(), X, tmp_path, labels, budgets=[50], methods="irs")
        found = recert.compare(network(), X, tmp_path, labels, budgets=[50], methods=[recert.Irs(0.5), "series"])
        assert list(found.methods) == ["irs", "series"]


def test_drawing_for_a_family_draws_what_the_family_asks_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    votes = np.where(rng.random((12, 500)) < rng.uniform(0.6, 0.99, (12, 1)), 1, 0)
    source = StoredVotes(votes, selection=votes[:, ::5], fresh=votes, classes=2)
    kept = recert.certify(source, None, noise=Gaussian(0.5), samples=500)
    for options in ({"family": "bonferroni"}, {"looks": 3}):
        caching = recert.CachingSource(source)
        recert.draw_votes(caching, None, kept, samples=60, **options)
        drawn = caching.forward_passes
        recert.recertify(caching, None, kept, samples=60, **options)
        assert drawn == caching.forward_passes > 0


def test_drawing_for_a_family_of_a_model_counts_its_inputs() -> None:
    kept = recert.certify(network(), X, noise=Gaussian(0.5), samples=400, selection_samples=50)
    with pytest.raises(ValueError, match="a family of at least 4"):
        recert.draw_votes(network(), X, kept, samples=50, family=3)
    recert.draw_votes(network(), X, kept, samples=50, family="bonferroni")


def test_select_takes_a_number_of_claims() -> None:
    labels = np.zeros(4, int)
    chosen = recert.select(
        {"a": stored()}, None, cache(), labels, cost={"a": 1.0}, metric="acr", tolerance=1.0, family=8
    )
    assert chosen.family == 8
