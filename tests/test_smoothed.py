"""`Smoothed` against the classifier whose truth is known, and against the verbs that it answers for."""

import math
import threading

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import recert
from recert.errors import UnusableModel
from recert.sampling import requests
from tests.engines.networks import digits_network

NOISE = recert.Gaussian(0.5)


class HalfSpace(nn.Module):
    """Class 1 where the first element is above 0: under noise, its share at x is the normal probability of x / sigma."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        first = batch.flatten(1)[:, :1]
        return torch.cat([-first, first], dim=1)


class Ranked(nn.Module):
    """A row's answer depends on the rows around it."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        first = batch.flatten(1)[:, :1]
        return torch.cat([first.mean() - first, first - first.mean()], dim=1)


def at(*distances: float) -> np.ndarray:
    x = np.zeros((len(distances), 1, 4, 4), dtype=np.float32)
    x[:, 0, 0, 0] = distances
    return x


def test_it_answers_as_predict_and_certify_do_on_the_same_noise() -> None:
    x = np.random.default_rng(0).random((5, 1, 8, 8)).astype(np.float32)
    model = digits_network()
    smoothed = recert.Smoothed(model, NOISE, 300, 0.01, seed=3)
    predicted = recert.predict(model, x, noise=NOISE, samples=300, alpha=0.01, seed=3)
    assert (smoothed(torch.from_numpy(x)).numpy() == predicted.prediction).all()
    certified = recert.certify(model, x, noise=NOISE, samples=300, alpha=0.01, seed=3).certificates
    found = smoothed.answers(x, radius=True)
    assert (found.prediction == certified.prediction).all()
    assert (found.radius == certified.radius).all()
    assert (found.votes == certified.top_votes).all()


def test_other_votes_choose_the_class_than_those_that_bound_it() -> None:
    """So near to the boundary that the two often disagree."""
    x = at(*np.linspace(-0.02, 0.02, 60))
    found = recert.Smoothed(HalfSpace().eval(), NOISE, 100, 0.3, seed=4).answers(x, radius=True)
    certified = recert.certify(HalfSpace().eval(), x, noise=NOISE, samples=100, alpha=0.3, seed=4).certificates
    assert (found.votes < 50).sum() > 5
    assert (found.votes == certified.top_votes).all()
    assert (found.prediction == certified.prediction).all()


def test_a_radius_is_not_above_the_truth_and_near_it() -> None:
    distance = 0.4
    smoothed = recert.Smoothed(HalfSpace().eval(), NOISE, 4000, 0.001, certificate="one-sided", seed=1)
    found = smoothed.answers(at(distance, -distance), radius=True)
    assert found.prediction.tolist() == [1, 0]
    assert (found.radius <= distance).all()
    # Clopper-Pearson from 4,000 votes: the bound lies within five deviations of the share.
    share = stats.norm.cdf(distance / 0.5)
    least = 0.5 * stats.norm.ppf(share - 7 * math.sqrt(share * (1 - share) / 4000))
    assert (found.radius >= least).all()


def test_it_abstains_where_nothing_is_certain() -> None:
    smoothed = recert.Smoothed(HalfSpace().eval(), NOISE, 200, 0.001, seed=0)
    assert smoothed(at(0.0, 1.0)).tolist() == [-1, 1]
    found = smoothed.answers(at(0.0, 1.0), radius=True)
    assert found.prediction.tolist() == [-1, 1]
    assert found.radius[0] == 0 < found.radius[1]


def test_it_predicts_where_the_binomial_test_of_scipy_does() -> None:
    x, alpha = at(*np.linspace(-0.15, 0.15, 80)), 0.1
    found = recert.Smoothed(HalfSpace().eval(), NOISE, 100, alpha, seed=6).answers(x)
    p_values = np.array([stats.binomtest(int(votes), 100).pvalue for votes in found.votes])
    assert ((p_values > alpha) & (p_values < 2 * alpha)).any()
    assert ((found.prediction >= 0) == (p_values <= alpha)).all()
    assert np.isnan(found.radius).all()


def test_wrong_answers_are_as_rare_as_stated() -> None:
    """Many objects on one hard input, each with a secret seed of its own: seldom the wrong class, at most alpha often."""
    alpha, tries = 0.2, 400
    x, wrong, classes = at(0.03), 0, set()
    for _ in range(tries):
        found = int(recert.Smoothed(HalfSpace().eval(), NOISE, 20, alpha)(x)[0])
        classes.add(found)
        wrong += found == 0
    assert stats.binom.sf(wrong - 1, tries, alpha) > 1e-6
    assert len(classes) > 1, "every object drew the same noise"


def test_answers_do_not_depend_on_other_requests_or_on_batches() -> None:
    x = at(*np.linspace(-0.3, 0.3, 7))
    whole = recert.Smoothed(HalfSpace().eval(), NOISE, 50, 0.01, seed=5)
    alone = recert.Smoothed(HalfSpace().eval(), NOISE, 50, 0.01, seed=5, batch_size=33)
    together = whole.answers(x)
    single = [alone.answers(x[i : i + 1]) for i in range(len(x))]
    assert together.votes.tolist() == [int(each.votes[0]) for each in single]
    assert together.prediction.tolist() == [int(each.prediction[0]) for each in single]


def test_every_request_gets_its_votes_and_no_batch_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    plain = requests.perturb

    def counting(inputs: torch.Tensor, keys: object, wanted: object, noise: object) -> torch.Tensor:
        sizes.append(len(wanted.rows))  # type: ignore[attr-defined]
        return plain(inputs, keys, wanted, noise)  # type: ignore[arg-type]

    smoothed = recert.Smoothed(HalfSpace().eval(), NOISE, 70, 0.01, batch_size=32)
    smoothed(at(1.0, 2.0, 3.0))
    monkeypatch.setattr(requests, "perturb", counting)
    smoothed(at(1.0, 2.0, 3.0))
    assert sizes == [32] * 6 + [18]


def test_models_whose_requests_influence_each_other_are_refused() -> None:
    with pytest.raises(UnusableModel, match="depends on the other rows"):
        recert.Smoothed(Ranked().eval(), NOISE)(at(1.0, 2.0))
    with pytest.raises(UnusableModel, match="training mode"):
        recert.Smoothed(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).train(), NOISE)(at(1.0))


def test_the_seed_is_secret_and_each_object_has_its_own() -> None:
    first, second = (recert.Smoothed(HalfSpace().eval(), NOISE) for _ in range(2))
    assert first._seed != second._seed
    assert str(first._seed) not in repr(first)


def test_from_several_threads() -> None:
    smoothed = recert.Smoothed(HalfSpace().eval(), NOISE, 100, 0.01, seed=2)
    x = at(0.1, 0.5, -0.5)
    expected, found = smoothed.answers(x).votes.tolist(), []
    threads = [threading.Thread(target=lambda: found.append(smoothed.answers(x).votes.tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": len}, "expected a torch module"),
        ({"samples": 0}, "expected between 1"),
        ({"alpha": 2.0}, "alpha"),
        ({"seed": -1}, "seed"),
        ({"batch_size": 0}, "batch size of at least 1"),
        ({"certificate": "three-sided"}, "one-sided, two-sided"),
        ({"noise": 0.5}, "expected a noise"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recert.Smoothed(**{"model": HalfSpace().eval(), "noise": NOISE, **arguments})  # type: ignore[arg-type]


def test_too_few_samples_for_a_radius_are_refused() -> None:
    smoothed = recert.Smoothed(HalfSpace().eval(), NOISE, 5, 0.001)
    with pytest.raises(ValueError, match="with fewer than"):
        smoothed.answers(at(1.0), radius=True)
    with pytest.raises(ValueError, match="shape"):
        smoothed(np.zeros(4, dtype=np.float32))
