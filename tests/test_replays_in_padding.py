"""The check that a model is what it was draws its votes in the padding of the last batch, where there is room."""

import numpy as np
import pytest
import torch

from recert import Gaussian
from recert.errors import UnusableModel
from recert.models import digest
from recert.models.identity import ModelIdentity
from recert.noise import Stream
from recert.sampling import Sampler, Work, check_unchanged, collect, replays, sampler
from recert.sampling.work import noisy_rows, pack

BATCH, FIRST = 128, 64
INPUTS = np.linspace(0, 1, 4 * 6, dtype=np.float32).reshape(4, 6)


class Counted(torch.nn.Module):
    """Class 1 where the sum of a row is positive; the other one from some call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.turns_at = 0, 10**9
        self.eval()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        sums = batch.sum(dim=1) * (1 if self.calls < self.turns_at else -1)
        return torch.stack([-sums, sums], dim=1)


def opened(model: Counted) -> Sampler:
    source = Sampler(model, INPUTS, noise=Gaussian(2.0), seed=1, batch_size=BATCH, device="cpu", identity="counted")
    model.calls = 0
    return source


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the very first votes are drawn again, so that they fit into a small batch."""
    monkeypatch.setattr(replays, "MOST_PIECES", 0)
    # The counter is an attribute, which would give the change away before any vote is drawn again.
    monkeypatch.setattr("recert.sampling.sampler.identify", lambda *_: ModelIdentity("weights", "structure"))


def works(samples: int) -> list[Work]:
    """Two inputs, the second with so many samples more than a batch."""
    return [Work(2, Stream.ESTIMATION, range(BATCH)), Work(1, Stream.FRESH, range(BATCH + samples))]


@pytest.mark.parametrize(("last", "more"), [(1, 0), (BATCH - FIRST, 0), (BATCH - FIRST + 1, 1), (BATCH, 1)])
def test_another_batch_is_drawn_only_without_room(last: int, more: int) -> None:
    model = Counted()
    source = opened(model)
    votes = [each.votes for each in collect(source, works(last), "")]
    assert model.calls == 3
    check_unchanged(source)
    assert model.calls == 3 + more
    # The votes themselves are those of the definition, whatever else was in their batches.
    alone = Sampler(Counted(), INPUTS, noise=Gaussian(2.0), seed=1, batch_size=1, device="cpu", identity="counted")
    for mine, work in zip(votes, works(last), strict=True):
        assert mine.tolist() == collect(alone, [work], "")[0].votes.tolist()


@pytest.mark.parametrize("last", [1, BATCH])
def test_a_model_that_turns_with_its_last_batch_is_found(last: int) -> None:
    model = Counted()
    source = opened(model)
    model.turns_at = 3 if last == 1 else 4
    collect(source, works(last), "")
    with pytest.raises(UnusableModel, match="does not vote as it did"):
        check_unchanged(source)


def test_votes_that_were_drawn_since_are_covered_too() -> None:
    """What an earlier draw said of the model is no answer for a later one."""
    model = Counted()
    source = opened(model)
    collect(source, works(1), "")
    model.turns_at = model.calls + 1
    collect(source, [Work(0, Stream.ESTIMATION, range(BATCH))], "")
    with pytest.raises(UnusableModel, match="does not vote as it did"):
        check_unchanged(source)


def test_of_two_draws_under_way_the_batch_that_was_begun_last_counts() -> None:
    """The one that is read last may have been computed before the other: what it says of earlier votes is older than the model's change."""
    model = Counted()
    source = opened(model)
    collect(source, works(1), "")  # enough votes that a batch with room has a look at them
    first, second = (source.draw([Work(i, Stream.ESTIMATION, range(BATCH, BATCH + 9))], "") for i in (2, 3))
    first.begin()
    second.begin()
    list(second)
    again = source._again
    list(first)
    assert again is not None
    assert source._again is again


class Scaled(torch.nn.Module):
    """Votes alike whatever the scale is."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.eval()

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.scale * torch.stack([-batch.sum(dim=1), batch.sum(dim=1)], dim=1)


@pytest.mark.parametrize("again", ["drawn", "begun again"])
def test_a_look_at_the_network_while_a_device_computes_counts_for_earlier_batches_only(
    again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device the code of a network is looked at while the last batches are computed. Here the lane of a CPU stands for a device's."""
    monkeypatch.setattr(sampler, "identify", digest.identify)
    net = Scaled()
    source = Sampler(net, INPUTS, noise=Gaussian(0.5), seed=0, batch_size=BATCH)
    monkeypatch.setattr(sampler, "DeviceLane", type(source._lane))
    monkeypatch.setattr(source._lane, "depth", 8)
    collect(source, [Work(0, Stream.ESTIMATION, range(6 * BATCH))], "")
    with monkeypatch.context() as patch:
        patch.setattr(digest, "structure_digest", None)  # it was looked at already
        check_unchanged(source)
    net.scale = 2.0
    few = [Work(1, Stream.ESTIMATION, range(BATCH))]
    if again == "drawn":
        collect(source, few, "")
    else:  # as when memory runs out
        source._begin(noisy_rows(next(pack(few, BATCH))))
    with pytest.raises(UnusableModel, match="was changed while its votes were drawn"):
        check_unchanged(source)


def test_a_draw_that_is_begun_has_its_batches_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    source = opened(Counted())
    begun: list[int] = []
    submit = source._lane.submit
    monkeypatch.setattr(source._lane, "submit", lambda rows: begun.append(1) or submit(rows))
    draw = source.draw(works(1), "")
    assert not begun
    draw.begin()
    draw.begin()
    assert len(begun) == source._lane.depth
    assert sum(len(chunk.votes) for chunk in draw) == 2 * BATCH + 1
