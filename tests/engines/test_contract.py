"""One contract for every engine: the votes of a plain loop over the samples, bit for bit, whoever draws them."""

import csv
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import recert
from recert import Cache, Gaussian
from recert.approximations import Calibration, approximate
from recert.cli import main
from recert.noise import Stream, input_digest, noise_key
from recert.noise.on_torch import perturb
from recert.sampling import Progress, VoteSource, Work, collect, open_source
from tests.engines.clusters import started_ray
from tests.engines.networks import ChangesItself, digits_inputs, digits_network, on_engine

NOISE, SEED, BATCH = Gaussian(0.6), 3, 48
OPTIONS = {"noise": NOISE, "seed": SEED, "batch_size": BATCH}
LOCAL_THREADS = 2  # workers have 5, 2 and 1: votes do not depend on it


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with started_ray(cpus=5):
        yield


@pytest.fixture(scope="module", params=["local", "ray, 1 worker", "ray, 2 workers", "ray, 3 workers"])
def source(request: pytest.FixtureRequest) -> Iterator[VoteSource]:
    engine, *words = request.param.replace(",", "").split()
    extra = {"workers": int(words[0])} if words else {}
    with on_engine(engine, digits_network(), digits_inputs(), **OPTIONS, **extra) as model:
        threads = torch.get_num_threads()
        torch.set_num_threads(LOCAL_THREADS)
        yield model
        torch.set_num_threads(threads)


def plain_loop(work: Work) -> np.ndarray:
    return _plain_loop(work.position, work.stream, tuple(work.samples))


@functools.cache
def _plain_loop(position: int, stream: Stream, numbers: tuple[int, ...]) -> np.ndarray:
    """Votes with none of our packing, padding or threads, on noise from the plainest of its implementations."""
    x = digits_inputs()[position]
    samples = torch.tensor(numbers, dtype=torch.int64)
    rows, streams = torch.zeros_like(samples), torch.full_like(samples, int(stream))
    key = torch.from_numpy(np.array([noise_key(SEED, input_digest(x))], dtype=np.uint64).view(np.int64))
    noisy = perturb(torch.from_numpy(x.reshape(1, -1)), rows, key, samples, streams, NOISE.sigma)
    with torch.inference_mode():
        return digits_network()(noisy.reshape(-1, *x.shape)).argmax(dim=1).numpy().astype(np.uint8)


def many_works() -> list[Work]:
    """Works that end within batches, over both kinds of noise, with gaps, and one with nothing in it."""
    replays = np.flatnonzero(np.random.default_rng(1).random(900) < 0.4)
    return [
        *(Work(i, Stream.SELECTION, range(37)) for i in range(5)),
        *(Work(i, Stream.ESTIMATION, range(700 + i)) for i in range(5)),
        Work(2, Stream.FRESH, range(0)),
        Work(3, Stream.FRESH, replays),
        Work(0, Stream.FRESH, range(500, 530)),
    ]


def shuffled(works: Sequence[Work]) -> list[Work]:
    return [works[i] for i in np.random.default_rng(2).permutation(len(works))]


@pytest.mark.parametrize("order", [list, shuffled, lambda works: works[::-1]], ids=["in order", "shuffled", "reversed"])
def test_votes_are_those_of_a_plain_loop(source: VoteSource, order: object) -> None:
    works = order(many_works())  # type: ignore[operator]
    for work, drawn in zip(works, collect(source, works, "drawing"), strict=True):
        assert drawn.votes.tolist() == plain_loop(work).tolist()
        assert drawn.counts.sum() == len(work.samples)
        assert drawn.seconds > 0 or not len(work.samples)


def test_chunks_come_in_order_and_progress_adds_up(source: VoteSource) -> None:
    works, heard = many_works(), list[Progress]()
    chunks = list(source.draw(works, "drawing", heard.append))
    places = [(next(i for i, w in enumerate(works) if w is c.work), c.start) for c in chunks]
    assert places == sorted(places)
    assert sum(len(c.votes) for c in chunks) == sum(len(w.samples) for w in works)
    assert [p.done for p in heard] == sorted({p.done for p in heard})
    assert (heard[-1].task, heard[-1].done) == ("drawing", heard[-1].total)


def test_a_draw_that_is_given_up_does_not_disturb_the_next(source: VoteSource) -> None:
    work = Work(0, Stream.ESTIMATION, range(3_000))
    given_up = source.draw([work], "drawing", None)
    next(iter(given_up))
    given_up.close()  # type: ignore[attr-defined]
    assert collect(source, [work], "drawing")[0].votes.tolist() == plain_loop(work).tolist()


def test_the_source_describes_itself_as_the_local_one_does(source: VoteSource) -> None:
    local = open_source(digits_network(), digits_inputs(), **OPTIONS)
    for fact in ("classes", "identity", "digests", "input_shape", "streams", "numerics"):
        assert getattr(source, fact) == getattr(local, fact), fact


def test_int8_kernels_vote_alike(tmp_path: Path) -> None:
    """The ONNX session is not sent: workers make it anew from the bytes of the file."""
    calibration = Calibration(digits_inputs(), noise=NOISE, seed=SEED)
    int8 = approximate(digits_network(), "int8", calibration=calibration).model
    works = many_works()
    expected = collect(open_source(int8, digits_inputs(), **OPTIONS), works, "local")
    with on_engine("ray", int8, digits_inputs(), **OPTIONS, workers=2) as remote:
        drawn = collect(remote, works, "ray")
    assert [d.votes.tolist() for d in drawn] == [d.votes.tolist() for d in expected]


def test_a_store_begun_on_one_engine_is_finished_on_the_other(tmp_path: Path) -> None:
    x, options = digits_inputs(), {**OPTIONS, "selection_samples": 30}
    alone = recert.certify(digits_network(), x, **options, samples=600)
    recert.certify(digits_network(), x[:3], **options, samples=400, store=tmp_path)
    with on_engine("ray", digits_network(), x, **OPTIONS, workers=2) as remote:
        both = recert.certify(remote, x, **options, samples=600, store=tmp_path)
        again = recert.recertify(remote, x, both, samples=200, method="series")
    assert both.manifest.numerics == alone.manifest.numerics
    for stream in (Stream.SELECTION, Stream.ESTIMATION):
        for digest in alone.digests:
            assert both.votes(digest, stream).tolist() == alone.votes(digest, stream).tolist()
    assert Cache.open(tmp_path).verify() == []
    assert (
        again.radius.tolist()
        == recert.recertify(digits_network(), x, alone, samples=200, method="series").radius.tolist()
    )


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_model_that_changes_itself_is_found_and_nothing_of_it_is_kept(engine: str, tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    model, x = ChangesItself(tmp_path / "marks").eval(), digits_inputs()
    workers = {"workers": 1} if engine == "ray" else {}
    with (
        on_engine(engine, model, x, **OPTIONS, **workers) as source,
        pytest.raises(recert.errors.UnusableModel, match=r"the model (was changed|does not vote as it did)"),
    ):
        recert.certify(source, x, **OPTIONS, samples=400, selection_samples=30, store=tmp_path / "run")
    assert not list((tmp_path / "run").glob("part-*"))


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["recert", *arguments, "--model", "digits", "--data", "digits", "--count", "4"])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0)

    ray, out = ["--engine", "ray", "--workers", "2"], {e: tmp_path / f"{e}.csv" for e in ("ray", "local")}
    assert run("certify", *ray, "--samples", "300", "--store", str(tmp_path / "run")) == 0, capsys.readouterr().err
    assert run("recertify", *ray, "--samples", "200", "--store", str(tmp_path / "run"), "--out", str(out["ray"])) == 0
    assert run("recertify", "--samples", "200", "--store", str(tmp_path / "run"), "--out", str(out["local"])) == 0
    rows = {name: list(csv.DictReader(file.read_text().splitlines())) for name, file in out.items()}
    for row in (*rows["ray"], *rows["local"]):
        assert float(row.pop("seconds")) > 0
    assert len(rows["ray"]) == 4
    assert rows["ray"] == rows["local"]


def test_bad_arguments_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="expected at least 1 worker, got 0"), on_engine(
        "ray", digits_network(), digits_inputs(), **OPTIONS, workers=0
    ):  # fmt: skip
        pass
    with pytest.raises(recert.errors.LostWorkers, match="expected a cluster with a GPU, got none"), on_engine(
        "ray", digits_network(), digits_inputs(), **OPTIONS, device="cuda"
    ):  # fmt: skip
        pass
    training = digits_network().train()
    with pytest.raises(recert.errors.UnusableModel, match="training mode"), on_engine(
        "ray", training, digits_inputs(), **OPTIONS, workers=1
    ):  # fmt: skip
        pass


@functools.cache
def decided_here() -> recert.Certificates:
    return recert.certify(digits_network(), digits_inputs(), at=[0.1, 0.3], samples=300, device="cpu", **OPTIONS)


def test_decisions_at_a_radius_are_the_same(source: VoteSource) -> None:
    """Rounds depend on votes and on the size of batches: whoever draws them, each input has the same number and the same outcome."""
    result = recert.certify(source, None, noise=NOISE, seed=SEED, at=[0.1, 0.3], samples=300)
    assert result.outcome.tolist() == decided_here().outcome.tolist()
    assert result.radius.tolist() == decided_here().radius.tolist()
    assert result.samples.tolist() == decided_here().samples.tolist()
    assert len(set(result.samples.tolist())) > 1
