"""Functions that are asked for votes, as of a service that counts rows: how many rows, in which batches, and what errors do."""

import sys
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recert
from recert import Gaussian, Remote
from recert.cli import main
from recert.errors import ServiceUnavailable, UnusableInputs, UnusableModel
from recert.models.numerics import Numerics
from recert.noise import Stream
from recert.sampling import Sampler, VoteChunk, Work, collect
from recert.sampling.remote import passes
from recert.sampling.replays import VotesAskedAgain
from tests.test_attacks import ROWS, Net

NOISE = Gaussian(0.5)


def points(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 4)).astype(np.float32)


class Service:
    """A linear network behind a function that counts what it is sent. `fails` says of a request whether it raises, and what."""

    def __init__(
        self, shift: float = 0.0, fails: Callable[["Service", Tensor], Exception | None] | None = None
    ) -> None:
        self.weights = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)) + shift
        self.fails = fails
        self.requests: list[int] = []
        self.lock = threading.Lock()

    def __call__(self, batch: Tensor) -> Tensor:
        with self.lock:
            self.requests.append(len(batch))
            error = None if self.fails is None else self.fails(self, batch)
        if error is not None:
            raise error
        return batch @ self.weights

    @property
    def rows(self) -> int:
        return sum(self.requests)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", Service().weights)
        self.eval()

    def forward(self, batch: Tensor) -> Tensor:
        answer: Tensor = batch @ self.weights
        return answer


def certify(function: Any, count: int = 6, samples: int = 300, **options: Any) -> recert.Cache:
    return recert.certify(function, points(count), noise=NOISE, samples=samples, **options)


def votes(function: Any, **options: Any) -> list[list[int]]:
    cache = certify(function, samples=200, **options)
    return [
        cache.votes(digest, stream).tolist()
        for digest in cache.digests
        for stream in (Stream.SELECTION, Stream.ESTIMATION)
    ]


# ---- how many rows ----


@pytest.mark.parametrize(("inputs", "samples"), [(15, 500), (20, 800)])
def test_rows_sent_are_those_needed_and_two_in_a_hundred_more(inputs: int, samples: int) -> None:
    x = points(inputs)
    service, changed = Service(), Service(0.05)
    cache = certify(service, inputs, samples)
    assert service.rows == cache.rows_sent <= 1.02 * inputs * (samples + 100)
    labels = np.maximum(cache.certificates.prediction, 0)

    service.requests.clear()
    audit = recert.audit(service, x, cache)
    assert audit.replayed.sum() < service.rows == audit.rows_sent <= 1.02 * audit.replayed.sum()

    result = recert.recertify(changed, x, cache, samples=samples // 2)
    assert result.forward_passes.sum() < changed.rows == result.settings.rows_sent <= 1.02 * result.forward_passes.sum()

    changed.requests.clear()
    found = recert.select({"changed": changed}, x, cache, labels, cost={"changed": 1}, tolerance=0.3)
    assert found.passes < changed.rows == found.rows_sent <= 1.02 * found.passes

    service.requests.clear()
    predicted = recert.predict(service, x, noise=NOISE, samples=samples)
    assert service.rows == predicted.settings.rows_sent <= 1.02 * inputs * samples


def test_rows_of_the_probe_are_votes_so_that_tiny_jobs_too_need_at_most_two_in_a_hundred_more() -> None:
    """Beside the votes three rows of the probe, which repeat others, and four votes that are asked for twice, or one in a hundred."""
    service, changed, x = Service(), Service(0.05), points(6)
    cache = certify(service)
    assert service.rows == 2_400 + 3 + 24
    result = recert.recertify(changed, x, cache, samples=60)
    assert changed.rows == result.forward_passes.sum() + 3 + 4 <= 1.02 * result.forward_passes.sum()
    service.requests.clear()
    audit = recert.audit(service, x, cache)
    assert service.rows == audit.replayed.sum() + 3
    changed.requests.clear()
    labels = np.maximum(cache.certificates.prediction, 0)
    found = recert.select({"changed": changed}, x, cache, labels, cost={"changed": 1}, tolerance=0.3)
    assert found.passes < changed.rows == found.rows_sent <= 1.02 * found.passes


@pytest.mark.parametrize("options", [{}, {"classes": 3}, {"batch_size": 2}])
def test_no_row_is_asked_for_twice_but_those_that_check(options: Any) -> None:
    """Every vote is of one row that was sent. Of rows that came twice there are as many as are said to be."""
    seen: list[bytes] = []

    def service(batch: Tensor) -> Tensor:
        seen.extend(row.numpy().tobytes() for row in batch)
        return batch @ Service().weights

    cache = certify(service, **options)
    repeats = cache.rows_sent - 2_400  # among them one row, four times as large, that comes only once
    assert len(seen) == cache.rows_sent
    assert len(set(seen)) == 2_400 + 1
    assert repeats <= 3 + 24
    assert votes(service, **options) == votes(Network())


@pytest.mark.parametrize(("options", "largest"), [({}, 64), ({"batch_size": 16}, 16), ({"batch_size": 1}, 1)])
def test_no_request_is_larger_than_asked_and_none_is_padded(options: Any, largest: int) -> None:
    service = Service()
    votes(service, count=1, **options)
    assert max(service.requests) == largest
    assert (
        sum(size < largest for size in service.requests) <= 5
    )  # the probe, the batch that lacks its rows, what is asked again, the last


def test_a_limit_of_the_service_is_kept_whatever_the_cache_was_made_with() -> None:
    service = Service()
    cache = certify(Network(), batch_size=512)
    recert.recertify(Remote(service, batch_size=16), points(6), cache, samples=60)
    assert max(service.requests) == 16
    certify(Remote(service, batch_size=16), batch_size=8)
    recert.recertify(service, points(6), cache, samples=200)  # a cache of a network says nothing about a function
    assert max(service.requests) == 64


def test_nothing_else_is_sent_to_time_or_to_open(tmp_path: Path) -> None:
    service = Service()
    Sampler(service, points(3), noise=NOISE, seed=0)
    assert service.requests == [4, 3]
    certify(service, store=tmp_path, identity="a")
    service.requests.clear()
    # All is there. Eight votes are compared with those stored, and some of them are rows of the probe.
    certify(service, store=tmp_path, identity="a")
    assert service.requests == [4, 3, 6]
    service.requests.clear()
    certify(service, store=tmp_path, identity="a", classes=3)
    assert service.requests == [4, 3, 4]


def test_the_bill_is_what_is_sent(tmp_path: Path) -> None:
    service = Service()
    for samples in (300, 1_000):
        service.requests.clear()
        bill = recert.bill(service, points(6), samples=samples, store=tmp_path)
        assert not service.requests
        certify(service, samples=samples, store=tmp_path, identity="a")
        assert abs(bill.rows - service.rows) <= 2
        assert abs(bill.requests - len(service.requests)) <= 2
    assert bill.votes == 6 * 700  # the store had the others
    again = recert.bill(Remote(service, batch_size=10), points(6), samples=50, cache=tmp_path)
    assert (again.votes, again.batch_size) == (300, 10)
    assert f"{again.rows} rows" in str(again)
    with pytest.raises(ValueError, match="expected a function, got Network"):
        recert.bill(Network(), points(6), samples=50)


# ---- the same votes ----


def test_votes_are_those_of_the_network_in_any_batches() -> None:
    expected = votes(Network())
    for function in (Service(), Remote(Service(), in_flight=3, batch_size=7)):
        assert votes(function) == expected
    assert votes(Service(), batch_size=1) == expected


def test_a_store_is_continued_in_batches_of_another_size(tmp_path: Path) -> None:
    first = certify(Service(), store=tmp_path, identity="a")
    assert first.manifest.numerics.unpadded
    more = certify(Remote(Service(), batch_size=10), samples=400, store=tmp_path, identity="a")
    assert more.manifest.numerics.text("batch_size") == "64, 10"
    assert "mixed numerics (batch_size)" in more.certificates.guarantee


def test_votes_that_were_kept_are_not_paid_for_again_in_batches_of_another_size(tmp_path: Path) -> None:
    cache, changed = certify(Service(), store=tmp_path / "cache", identity="a"), Service(0.05)
    options: Any = {"samples": 50, "identity": "b"}
    first = recert.recertify(changed, points(6), cache, **options)
    changed.requests.clear()
    again = recert.recertify(Remote(changed, batch_size=10), points(6), cache, **options)
    assert np.array_equal(first.radius, again.radius)
    assert again.settings.drawn == 0
    assert changed.rows == 3 + 8 == again.settings.rows_sent


def test_a_store_of_an_older_version_is_continued() -> None:
    """Its batches were padded, and nothing was recorded about that."""
    older = Numerics.from_text({"device": "cpu", "batch_size": "512"})
    now = Numerics.from_text({"device": "cpu", "batch_size": "512", "padding": "none"})
    assert now.not_seen_in(older) == []
    assert Numerics.from_text({"device": "cuda", "batch_size": "64", "padding": "none"}).not_seen_in(older) == [
        "device"
    ]
    assert older.not_seen_in(Numerics.from_text({"device": "cpu", "batch_size": "64"})) == ["batch_size"]


def test_an_audit_allows_for_batches_of_other_lengths() -> None:
    cache = certify(Service())
    assert recert.audit(Service(), points(6), cache, samples=20).tolerate == 0.001
    assert recert.audit(Network(), points(6), certify(Network()), samples=20).tolerate == 0


# ---- functions that cannot be certified ----


@pytest.mark.parametrize(
    "wrong", [each for each in ROWS if each.__name__ != "capacity_of_an_expert"], ids=lambda wrong: wrong.__name__
)
@pytest.mark.parametrize("batch_size", [2, 3, 64])
def test_rows_that_depend_on_other_rows_are_refused_by_seven_rows(wrong: Any, batch_size: int) -> None:
    net = Net(wrong)
    with pytest.raises(UnusableModel, match="depends on the other rows"):
        Sampler(lambda batch: net(batch), points(6), noise=NOISE, seed=0, batch_size=batch_size)


@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_a_function_with_randomness_of_its_own_is_refused(batch_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(UnusableModel, match="not deterministic"):
        Sampler(
            lambda b: b + torch.rand(b.shape, generator=generator),
            points(6),
            noise=NOISE,
            seed=0,
            batch_size=batch_size,
        )


def test_a_function_that_cannot_be_certified_leaves_no_store(tmp_path: Path) -> None:
    """Another one, under another name, may be certified there."""
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(UnusableModel, match="not deterministic"):
        certify(lambda b: torch.rand((len(b), 3), generator=generator), classes=3, store=tmp_path / "s", identity="a")
    certify(Service(), classes=3, store=tmp_path / "s", identity="b")


def test_what_only_full_batches_show_is_found_when_votes_are_asked_again() -> None:
    """Beyond the sixteenth row of a batch the label is another: no probe of four rows sees it."""

    def full(batch: Tensor) -> Tensor:
        answer = batch @ Service().weights
        return torch.where((torch.arange(len(batch)) > 16)[:, None], -answer, answer)

    with pytest.raises(UnusableModel, match="asked for a second time are others now"):
        certify(full, 12)


def test_few_other_votes_at_every_look_add_up() -> None:
    again = VotesAskedAgain()
    work = Work(0, Stream.ESTIMATION, range(100_000))
    found = []
    for start in range(0, 1_000, 100):
        again.remember(VoteChunk(work, start, np.zeros(100, np.uint8), 0.0))
        taken = again.take()
        votes = np.concatenate([[1], np.zeros(len(taken) - 1)]) if taken else np.zeros(0)
        found.append(not taken or again.are_confirmed_by(votes, taken))
    assert found[0]
    assert not found[-1]
    assert again.asked == 10
    assert again.take() == []  # nothing was drawn since


def test_later_looks_ask_for_the_first_votes_too() -> None:
    again = VotesAskedAgain()
    work = Work(0, Stream.ESTIMATION, range(100_000))
    for start in (0, 2_000):
        again.remember(VoteChunk(work, start, np.zeros(2_000, np.uint8), 0.0))
        taken = [int(work.samples[0]) for work, _ in again.take()]
    assert len(taken) == 20
    assert min(taken) == 0
    assert max(taken) == 3_900


# ---- errors ----


class Status(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"HTTP {code}")
        self.status_code = code


class WithResponse(Exception):
    def __init__(self, response: Any) -> None:
        self.response = response


class Timeout(OSError):
    """As the usual libraries have it: no TimeoutError of Python's."""


class ReadTimeout(Timeout):
    pass


PASSING = [
    ConnectionResetError(), TimeoutError(), urllib.error.URLError(ConnectionRefusedError()), ReadTimeout(), Status(429), Status(503),
    urllib.error.HTTPError("", 502, "", None, None), WithResponse(SimpleNamespace(status_code=504)),  # type: ignore[arg-type]
    WithResponse({"ResponseMetadata": {"HTTPStatusCode": 500}}),
]  # fmt: skip
FINAL = [
    ValueError("x"), OSError("disk"), Status(400), Status(401), urllib.error.HTTPError("", 404, "", None, None),  # type: ignore[arg-type]
    WithResponse({"ResponseMetadata": {"HTTPStatusCode": 403}}), UnicodeDecodeError("utf-8", b"", 0, 1, "reason"), KeyError("status"),
]  # fmt: skip


def test_which_errors_pass() -> None:
    assert [passes(error) for error in PASSING] == [True] * len(PASSING)
    assert [passes(error) for error in FINAL] == [False] * len(FINAL)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_errors_that_pass_cost_no_vote(in_flight: int) -> None:
    service = Service(fails=lambda service, batch: Status(503) if len(service.requests) % 3 == 2 else None)
    cache = certify(Remote(service, in_flight=in_flight, wait=0, batch_size=50))
    assert cache.rows_sent == service.rows  # attempts that failed are sent, too
    assert service.rows > 1.3 * 2_400
    assert np.array_equal(cache.counts(Stream.ESTIMATION), certify(Network()).counts(Stream.ESTIMATION))


def test_waits_double_and_the_service_may_ask_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(threading.Event, "wait", lambda self, seconds=None: waited.append(seconds))
    monkeypatch.setattr("recert.sampling.remote.random.SystemRandom.uniform", lambda self, low, high: high)
    errors: list[Exception | None] = [ConnectionError(), Status(503), Status(503), Status(429), None]
    errors[3].headers = {"Retry-After": "30"}  # type: ignore[union-attr]
    service = Service(fails=lambda service, batch: errors[len(service.requests) - 1])
    assert Remote(service, wait=0.5)(torch.zeros(2, 4)).shape == (2, 3)
    assert waited == [0.5, 1.0, 2.0, 30.0]
    service.requests.clear()
    errors[:] = [TimeoutError("gone")] * 9
    with pytest.raises(TimeoutError, match="gone"):
        Remote(service, wait=40.0, retries=2)(torch.zeros(2, 4))
    assert waited[4:] == [40.0, 60.0]
    assert len(service.requests) == 3


BRIGHT = 50.0


def bright(error: Exception) -> Callable[[Service, Tensor], Exception | None]:
    return lambda service, batch: error if bool((batch[:, 0] > BRIGHT / 2).any()) else None


@pytest.mark.parametrize("error", [ValueError("too bright"), Status(500)], ids=["final", "always 500"])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_an_input_on_which_the_service_fails_is_named_and_the_others_go_on(
    error: Exception, in_flight: int, tmp_path: Path
) -> None:
    x = points(6)
    x[2, 0] = BRIGHT
    service = Service(fails=bright(error))
    with pytest.raises(UnusableInputs, match=r"failed on 1 of 6 inputs: input 2 .*(too bright|HTTP 500)"):
        recert.certify(
            Remote(service, in_flight=in_flight, retries=1, wait=0),
            x,
            noise=NOISE,
            samples=600,
            identity="a",
            store=tmp_path,
        )
    kept = recert.Cache.open(tmp_path)
    missing = {digest for digest, _, _ in kept.missing()}
    assert missing == {kept.manifest.inputs[2]}
    # No row of it is sent any more once it has failed, but for what was under way.
    assert service.rows < 5 * 700 + 2 * (in_flight + 4) * 64 + 60


@pytest.mark.parametrize("classes", [None, 3])
def test_the_first_inputs_may_be_those_that_it_fails_on(classes: int | None) -> None:
    x = points(6)
    x[:3, 0] = BRIGHT
    with pytest.raises(UnusableInputs, match="failed on 3 of 6 inputs"):
        recert.certify(Service(fails=bright(ValueError("too bright"))), x, noise=NOISE, samples=200, classes=classes)
    with pytest.raises(UnusableModel, match="fails on a batch"):
        certify(Service(fails=lambda *_: ValueError("never")), classes=classes)


def test_neighbours_on_which_the_service_always_fails_are_not_taken_for_a_service_that_is_down() -> None:
    x = points(8)
    x[2:6, 0] = BRIGHT
    service = Remote(Service(fails=bright(Status(500))), in_flight=1, retries=0)
    with pytest.raises(UnusableInputs, match="failed on 4 of 8 inputs"):
        recert.certify(service, x, noise=NOISE, samples=200)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_service_that_stops_ends_the_run_and_what_came_is_kept(in_flight: int, tmp_path: Path) -> None:
    service = Service(fails=lambda service, batch: ConnectionError("gone") if len(service.requests) > 20 else None)
    remote = Remote(service, in_flight=in_flight, retries=2, wait=0)
    with pytest.raises(ServiceUnavailable, match=r"ConnectionError: gone, 3 times each for \d+ requests in a row"):
        certify(remote, store=tmp_path, identity="a")
    assert len(service.requests) <= 20 + 3 * (2 * in_flight + 9)
    left = sum(len(gap) for _, _, gap in recert.Cache.open(tmp_path).missing())
    # Two of the requests that were answered were the probe's. What came out of turn, before an answer that never came, is asked again.
    assert 2_400 - 18 * 64 <= left <= 2_400 - (18 - in_flight + 1) * 64
    service.fails = None
    service.requests.clear()
    certify(remote, store=tmp_path, identity="a")
    assert service.rows <= left + 8 + 7 + 1 + left / 100 + 4


def test_a_service_that_never_answers_is_not_called_a_bad_model() -> None:
    service = Service(fails=lambda service, batch: ConnectionError("refused"))
    with pytest.raises(ServiceUnavailable, match="refused"):
        certify(Remote(service, retries=1, wait=0))
    assert len(service.requests) == 4  # the probe on all inputs, and on the first alone


def test_votes_are_kept_where_the_service_stops_before_the_last_look(tmp_path: Path) -> None:
    service = Service(fails=lambda service, batch: Status(401) if len(service.requests) > 40 else None)
    cache = certify(service, store=tmp_path, identity="a")  # 2 + 38 requests: what fails is asking again
    assert len(cache.certificates) == 6
    assert recert.Cache.open(tmp_path).missing() == []


# ---- several requests at a time ----


def test_as_many_requests_as_allowed_are_in_flight_and_no_more() -> None:
    together = threading.Barrier(3, timeout=60)
    active: list[int] = []
    most, lock = [0], threading.Lock()

    def slow(batch: Tensor) -> Tensor:
        with lock:
            active.append(1)
            most[0] = max(most[0], len(active))
        time.sleep(0.005)  # for one that is not allowed to come in beside the others
        if len(batch) == 25:  # neither the probe nor what is asked again
            together.wait()  # three must have come to go on
        with lock:
            active.pop()
        return batch @ Service().weights

    cache = certify(Remote(slow, in_flight=3, batch_size=25), 3, samples=200)  # 36 full batches
    assert most == [3]
    assert np.array_equal(cache.counts(Stream.ESTIMATION), certify(Network(), 3, samples=200).counts(Stream.ESTIMATION))


def test_a_draw_that_is_given_up_sends_nothing_again() -> None:
    """Not even a request that would wait for a minute to be sent another time."""
    failed = threading.Event()

    def busy(service: Service, batch: Tensor) -> Exception | None:
        # The probe's two, and the first two of the draw, which are under way together and may come in either order.
        if len(service.requests) <= 4:
            return None
        failed.set()
        return Status(503)

    service = Service(fails=busy)
    source = Sampler(Remote(service, in_flight=2, batch_size=10, wait=60.0), points(2), noise=NOISE, seed=0)
    given_up = source.draw([Work(0, Stream.ESTIMATION, range(10_000))])
    next(given_up)
    assert failed.wait(60)
    given_up.close()  # type: ignore[attr-defined]
    service.fails = None
    drawn = collect(source, [Work(1, Stream.ESTIMATION, range(10))], "")
    assert len(drawn[0].votes) == 10
    assert len(service.requests) <= 2 + 4 + 1


def test_a_model_of_another_library_is_told_how_to_be_a_function() -> None:
    class Forest:
        def predict_proba(self, rows: np.ndarray) -> np.ndarray:
            return rows @ Service().weights.numpy()

    forest = Forest()
    with pytest.raises(ValueError, match=r"got Forest; pass a function .* lambda batch: model\.predict_proba"):
        certify(forest)
    assert certify(lambda batch: forest.predict_proba(batch.numpy())).certificates.certified.any()


def test_progress_is_by_rows() -> None:
    heard: list[int] = []
    certify(Remote(Service(), in_flight=2, batch_size=100), progress=lambda event: heard.append(event.done))
    assert heard == list(range(100, 2_500, 100))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries as a whole number of at least 0"), ({"in_flight": 0}, "in_flight as a whole number of at least 1"),
        ({"batch_size": True}, "batch_size as a whole number"), ({"wait": 100.0}, "wait from 0 to 60 seconds"), ({"function": 3}, "got int"),
    ],
)  # fmt: skip
def test_wrong_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Remote(**{"function": Service(), **options})


# ---- on the command line ----

OWN = """
import numpy as np, torch, recert
WEIGHTS = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))
ROWS = []
def api(batch):
    ROWS.append(len(batch))
    return batch @ WEIGHTS
def make():
    return api
def make_labels():
    return lambda batch: api(batch).argmax(dim=1)
remote = recert.Remote(api, batch_size=10)
"""


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """Runs a command in a folder with a module of functions; gives what was said."""
    (tmp_path / "services_of_mine.py").write_text(OWN)
    np.savez(tmp_path / "x.npz", inputs=points(6), labels=np.zeros(6, np.int64))
    monkeypatch.chdir(tmp_path)

    def run(verb: str, model: str, *options: str, code: int = 0) -> str:
        words = [*verb.split(), "--model", f"services_of_mine:{model}", "--data", "x.npz", *options]
        monkeypatch.setattr(sys, "argv", ["recert", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr().err
        assert int(stop.value.code or 0) == code, said
        return said

    yield run
    sys.modules.pop("services_of_mine", None)


def sent() -> list[int]:
    """What the function of the command was sent since the last time."""
    requests: list[int] = sys.modules["services_of_mine"].ROWS
    now = requests[:]
    requests.clear()
    return now


def test_functions_on_the_command_line(command: Callable[..., str]) -> None:
    store, named = ["--store", "s", "--samples", "300"], ["--identity", "api-1"]
    said = command("certify", "make", *store, "--dry-run")
    assert "2,400 votes and 27 rows to check the function: 2,427 rows in about 41 requests of at most 64" in said
    assert sent() == []
    assert "(--identity)" in command("certify", "make", *store, code=1)
    sent()
    assert "the function was given 2,427 rows" in command("certify", "make", *store, *named)
    requests = sent()
    assert (sum(requests), len(requests)) == (2_427, 41)
    again = ["--store", "s", "--samples", "50", "--identity", "api-2"]
    bill = "about 6 inputs, 300 votes and 7 rows to check the function: 307 rows in about 33 requests of at most 10"
    assert bill in command("recertify", "remote", *again, "--dry-run")
    assert sent() == []
    command("recertify", "remote", *again)
    requests = sent()
    assert max(requests) == 10
    assert 300 < sum(requests) <= 307
    command("cache audit s", "make", "--samples", "100", *named, code=3)  # too few to decide
    assert sum(sent()) == 600 + 3
    command("predict", "make_labels", "--samples", "50", "--classes", "3")
    assert sum(sent()) == 300 + 3 + 4
    assert "name a factory that returns it, or a recert.Remote of it" in command("predict", "api", code=1)
