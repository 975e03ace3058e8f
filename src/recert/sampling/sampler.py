"""Votes of a model under noise: packed over inputs, in batches of one padded shape, in constant memory."""

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from recert.errors import ServiceUnavailable, UnusableInputs, UnusableModel, first_line
from recert.models.classes import kept_by_methods
from recert.models.description import describe
from recert.models.digest import Structure, identify, structure_of
from recert.models.identity import Description
from recert.models.inference import PreparedModel
from recert.models.numerics import Numerics
from recert.noise import Noise, Stream, input_digest, noise_key
from recert.noise.stream import NoisyRows
from recert.sampling.batch_size import fastest_batch_size, out_of_memory, usual_batch_size
from recert.sampling.begun import Draw, Steps
from recert.sampling.device_lane import DeviceLane
from recert.sampling.host_lane import HostLane
from recert.sampling.inputs import check_noise_fits, checked_inputs
from recert.sampling.network import Model, Network
from recert.sampling.pending import NOT_KEPT, Pending, raising, votes_otherwise
from recert.sampling.probe import PROBE_ROWS, probe, probe_function
from recert.sampling.probed import ProbedRows, rows_for_certify, rows_of, rows_of_one_input
from recert.sampling.remote import Remote, Requests
from recert.sampling.replays import FIRST, Look, SomeVotes, VotesAskedAgain
from recert.sampling.work import Piece, Progress, ProgressCallback, VoteChunk, Work, logged, noisy_rows, pack
from recert.votes import Votes

log = logging.getLogger(__name__)

WORTH_A_LOOK = 4
"""Batches under way on a device, during which the host has time to look at the network."""
LARGEST_BATCH_ASKED = 2**20
"""The largest batch size that a cache may record (`recert.cache.limits.BATCH`), so that every batch size can be replayed."""


class Sampler:
    """Draws votes of one model for some inputs. Raises UnusableModel at once if the model cannot be certified.

    A function that is told `classes` is looked at when the first votes are drawn, or by `check_usable`: its probe is made of rows that are
    wanted then.
    """

    def __init__(
        self,
        model: Model,
        inputs: Any,
        *,
        noise: Noise,
        seed: int,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        classes: int | None = None,
        identity: str | None = None,
    ) -> None:
        self.inputs = checked_inputs(inputs)
        check_noise_fits(self.inputs, noise)
        self.input_shape = self.inputs.shape[1:]
        self.noise, self.seed = noise, seed
        self.streams = frozenset(Stream)
        self.digests = [input_digest(x) for x in self.inputs]
        # The key of an input's noise comes from its content, not from its position: its votes are the same in any order of inputs.
        self._keys = np.array([noise_key(seed, digest) for digest in self.digests], dtype=np.uint64)
        self._network = Network(model, device, classes)
        if batch_size is not None and not 1 <= batch_size <= LARGEST_BATCH_ASKED:
            raise ValueError(f"expected a batch size from 1 to {LARGEST_BATCH_ASKED}, got {batch_size}")
        self.batch_size = self._largest_batch(batch_size)
        self._probed, self._is_probed = ProbedRows(), False
        # The lane is made before `classes` is read: the probe inside shows how many classes the network has.
        self._lane = self._set_up(choose_batch_size=batch_size is None and self._network.may_be_timed)
        if not self._network.knows_classes:
            self.check_usable()
        self.classes = self._network.classes
        log.info("batches of %s%d rows", "" if self._network.requests is None else "at most ", self.batch_size)
        self._name = identity
        self.identity = identify(model, identity)
        self._some, self._asked_again = SomeVotes(), VotesAskedAgain()
        self._again: tuple[Look, Votes] | None = None
        self._batches_begun = self._last_read = 0
        self._structure: tuple[int, Structure | None] = (0, None)

    @property
    def numerics(self) -> Numerics:
        return self._network.numerics(self.batch_size)

    @cached_property
    def description(self) -> Description:
        """What people tell the model by: its name, and short digests of its parts."""
        return describe(self._network.model, self._name)

    @property
    def passes_at_once(self) -> int:
        """How many passes take as long as one: those of a batch, which is padded. Of a function each may cost money."""
        return self.batch_size if self._network.requests is None else 1

    @property
    def passes_ahead(self) -> int:
        """How many passes a device computes while nobody asks for more. None on a CPU, which has the same cores for everything."""
        return self.batch_size * self._lane.depth if isinstance(self._lane, DeviceLane) else 0

    @property
    def rows_sent(self) -> int | None:
        """Rows that a function was given so far: votes, and what checks and attempts that failed took beside them. None for a network."""
        requests = self._network.requests
        return None if requests is None else requests.rows

    def draw(self, works: Sequence[Work], task: str = "sampling", progress: ProgressCallback | None = None) -> Draw:
        """Votes of all works, in order. Memory does not grow with the number of samples."""
        return Draw(self._remembered(works, task, progress))

    def _remembered(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Steps:
        padded = self._network.requests is None
        if works:
            self._probe_function_once(rows_of(works, self._probe_rows))
        chunks = Draw(self._drawn(works, task, progress, replaying=padded))
        chunks.begin()
        yield None
        remember = self._some.remember if padded else self._asked_again.remember
        for chunk in logged(chunks, task):
            remember(chunk)
            yield chunk

    def _drawn(self, works: Sequence[Work], task: str, progress: ProgressCallback | None, *, replaying: bool) -> Steps:
        total = sum(len(work.samples) for work in works)
        done = 0
        failed: dict[int, str] = {}
        # Inputs on which the network raises are collected to the end: their votes are lost, those of all other inputs are not.
        with self._giving_up_what_is_left():
            under_way = self._under_way(works, replaying, failed)
            # As many batches as may be under way are begun before the first is handed out.
            first = list(islice(under_way, 1))
            yield None
            for batch in chain(first, under_way):
                if self._network.requests is not None and _all_failed(batch.pieces, failed):
                    continue  # what was not sent yet is not sent any more
                for chunk in self._finished(batch, failed):
                    yield chunk
                    done += len(chunk.votes)
                if progress is not None:
                    progress(Progress(task, done, total))
        if failed:
            raise UnusableInputs({i: (self.digests[i], why) for i, why in failed.items()}, len(self.digests))

    @contextmanager
    def _giving_up_what_is_left(self) -> Iterator[None]:
        """However a draw ends, no request to a service waits behind it to be sent again."""
        requests = self._network.requests
        if requests is None:
            yield
            return
        requests.begin()
        try:
            yield
        finally:
            requests.end()

    def check_usable(self) -> None:
        """UnusableModel if the model cannot be certified, before any vote is drawn; the rows that this takes are those of `certify`."""
        self._probe_function_once(rows_for_certify(len(self.inputs), self._probe_rows))

    def check_unchanged(self) -> None:
        """UnusableModel if the model is not the one that the first votes were drawn with: its weights, its code, or what it does."""
        if self._network.requests is not None:
            self._ask_again(self._network.requests)
            return
        look = self._some.look()
        if not look.works:
            return
        structure = self._structure[1] if self._structure[0] == self._batches_begun else None
        replay = Draw(self._drawn(look.works, "replaying", None, replaying=False))
        if self._again is None:
            replay.begin()  # drawn while the model is looked at
        if identify(self._network.model, self._name, structure) != self.identity:
            raise UnusableModel(
                f"the model was changed while its votes were drawn{_what_may(self._network.model)}; {NOT_KEPT}"
            )
        if self._again is not None:
            look, again = self._again
        else:
            again = np.concatenate([chunk.votes for chunk in replay])
        half = self._network.dtype not in (torch.float32, torch.float64)
        if (wrong := look.not_confirmed_by(again, same_numerics=not half)) is not None:
            raise UnusableModel(votes_otherwise(wrong, len(again), "drawn before"))

    def _ask_again(self, requests: Requests) -> None:
        """The same of a function, of which nothing but its votes can be looked at: few of them, since each may cost money."""
        taken = [] if requests.down else self._asked_again.take()
        if not taken:
            return
        try:
            chunks = list(Draw(self._drawn([work for work, _ in taken], "asking again", None, replaying=False)))
        except (ServiceUnavailable, UnusableInputs) as error:
            # Votes that were paid for are not thrown away because the service has stopped. Who continues a store replays some of them.
            log.warning("votes are kept without having been asked for a second time: %s", first_line(error))
            return
        if not self._asked_again.are_confirmed_by(np.concatenate([chunk.votes for chunk in chunks]), taken):
            again = self._asked_again
            raise UnusableModel(votes_otherwise(again.wrong, again.asked, "asked for a second time"))

    def _largest_batch(self, chosen: int | None) -> int:
        """Rows of a batch: what was chosen, or what is usual; never more than a `Remote` allows."""
        if self._network.requests is None:
            return chosen or usual_batch_size(self.inputs[0].size, self._network.device)
        allowed = self._network.requests.remote.batch_size
        return min(chosen or allowed, allowed) if isinstance(self._network.model, Remote) else chosen or allowed

    def _look_within(self, rows: NoisyRows) -> Look | None:
        """Earlier votes to be drawn once more with the rows of a batch, if they fit in: a last batch would be padded anyway."""
        free = self.batch_size - len(rows.rows)
        if free < FIRST or not self._some.full:
            return None
        return look if (look := self._some.look()).count <= free else None

    def _under_way(self, works: Sequence[Work], replaying: bool, failed: Mapping[int, str]) -> Iterator["_Batch"]:
        """Batches in order, each handed out when some more have been begun. Of inputs that have failed no more are begun."""
        waiting: deque[_Batch] = deque()
        for pieces in pack(works, self.batch_size):
            if _all_failed(pieces, failed):
                continue
            rows = noisy_rows(pieces)
            look = self._look_within(rows) if replaying else None
            if look is not None:
                rows = rows.followed_by(noisy_rows(next(pack(look.works, look.count))))
            waiting.append(self._batch(pieces, rows, look))
            # The depth is read each time: a device lane sets it by how long its batches take.
            while len(waiting) >= self._lane.depth:
                yield waiting.popleft()
        self._look_at_structure(len(waiting))
        while waiting:
            yield waiting.popleft()

    def _look_at_structure(self, under_way: int) -> None:
        """For `check_unchanged`, while a device computes what is under way: what is done to a network's code after the last batch was
        begun reaches no vote. (What is done to weights on the device may: they are digested when all votes are there.)"""
        if isinstance(self._lane, DeviceLane) and under_way >= WORTH_A_LOOK:
            self._structure = (self._batches_begun, structure_of(self._network.model, self._name))

    def _batch(self, pieces: list[Piece], rows: NoisyRows, look: Look | None = None) -> "_Batch":
        parts = self._begin(rows)
        return _Batch(self._batches_begun, pieces, parts, look)

    def _finished(self, batch: "_Batch", failed: dict[int, str]) -> Iterator[VoteChunk]:
        """Votes of a batch, piece by piece. If the network raises, each input is tried alone; those that raise are added to `failed`."""
        try:
            votes, seconds = self._results(batch.parts)
        except (
            UnusableModel,
            ServiceUnavailable,
            torch.AcceleratorError,
        ):  # what has failed for good fails for every input
            raise
        except Exception as error:
            # One piece is one input. In a batch of several the network is called again for each: one bad input fails alone.
            if len(batch.pieces) == 1:
                failed[batch.pieces[0].work.position] = first_line(error)
                return
            for piece in (replace(p, batch_start=0) for p in batch.pieces if p.work.position not in failed):
                yield from self._finished(self._batch([piece], noisy_rows([piece])), failed)
            return
        drawn = batch.pieces[-1].batch_start + batch.pieces[-1].length
        # What the last batch of all says about earlier votes is as good as another batch after it. Of several draws under way the last to be
        # read need not be the last that was begun.
        if batch.number > self._last_read:
            self._last_read, self._again = batch.number, None if batch.look is None else (batch.look, votes[drawn:])
        for piece in batch.pieces:
            end = piece.batch_start + piece.length
            share = seconds * piece.length / drawn
            yield VoteChunk(piece.work, piece.work_start, votes[piece.batch_start : end], share)

    def _begin(self, wanted: NoisyRows) -> list[Pending]:
        """Start a batch; in parts if memory ran out and batches have become smaller since it was packed."""
        # Also those that are begun again when memory ran out: the model may be another by then.
        self._batches_begun += 1
        starts = range(0, len(wanted.rows), self.batch_size)
        return [self._begin_part(wanted.part(start, self.batch_size)) for start in starts]

    def _begin_part(self, rows: NoisyRows) -> Pending:
        # Padded to the full batch size: a network computes other last bits for other batch shapes, and votes must not depend on
        # how many samples are left. A function is given the rows that are needed and no others: it may be paid by the row.
        try:
            if self._network.requests is None:
                return Pending(rows, self.batch_size, self._lane.submit(rows.padded(self.batch_size)))
            return Pending(rows, self.batch_size, self._probed.submit(self._lane, rows))
        except Exception as error:
            # Raised when it is this batch's turn, so that earlier batches, which are still under way, are not lost.
            return Pending(rows, self.batch_size, raising(error))

    def _results(self, parts: list[Pending]) -> tuple[Votes, float]:
        votes, seconds = zip(*(self._result(part) for part in parts), strict=True)
        return np.concatenate(votes), sum(seconds)

    def _result(self, part: Pending) -> tuple[Votes, float]:
        """Votes of a part without its padding; when memory ran out, again in smaller parts."""
        try:
            votes, seconds = part.ticket()
            return votes[: len(part.rows.rows)], seconds
        except Exception as error:
            if not out_of_memory(error):
                raise
            # Several batches are under way: when one runs out of memory the others mostly do, too. Only the first halves the size.
            if part.batch_size == self.batch_size:
                self._halve(error)
        return self._results(self._begin(part.rows))

    def _halve(self, error: Exception) -> None:
        self._smaller(error)
        while True:
            try:
                self._lane = self._new_lane()
                return
            except Exception as again:
                if not out_of_memory(again):
                    raise
                self._smaller(again)

    def _smaller(self, error: Exception) -> None:
        if self.batch_size == 1:
            raise UnusableModel(f"out of memory with a single sample per batch: {error}") from error
        self.batch_size = (self.batch_size + 1) // 2

    def _new_lane(self) -> HostLane | DeviceLane:
        if self._network.device.type != "cuda":
            return HostLane(self._network, self.inputs, self._keys, self.noise)
        # Memory of an earlier, larger lane is still reserved by torch: without this the new lane may not fit.
        torch.cuda.empty_cache()
        return DeviceLane(self._network, self.inputs, self._keys, self.noise, self.batch_size)

    def _fastest_batch_size(self) -> int:
        """Found once for a prepared model, which would have to be compiled again for another."""
        known = self._network.model.batch_sizes if isinstance(self._network.model, PreparedModel) else {}
        if self.input_shape not in known:
            known[self.input_shape] = fastest_batch_size(self._network, self.input_shape, self.batch_size)
        return known[self.input_shape]

    def _set_up(self, choose_batch_size: bool) -> HostLane | DeviceLane:
        """A lane that is known to work, so that memory runs out here, before any vote is drawn, if it does at all."""
        while True:
            try:
                if choose_batch_size:
                    self.batch_size = self._fastest_batch_size()
                    choose_batch_size = False
                lane = self._new_lane()
                if self._network.requests is None:
                    self._probe(lane)
                if isinstance(lane, DeviceLane):
                    lane.record()
                return lane
            except (UnusableModel, ServiceUnavailable):
                raise
            except Exception as error:
                if out_of_memory(error):
                    self._smaller(error)
                elif self._network.channels_last and not isinstance(self._network.model, PreparedModel):
                    # view() of a convolution's output fails in channels-last: tried again in the plain format. Of a prepared model the
                    # user chose the format, which is then an error.
                    self._network.channels_last = False
                else:
                    raise self._failing(error) from error

    def _probe(self, lane: HostLane | DeviceLane) -> None:
        """Of a network. The noise is of the calibration stream, so that nothing is drawn that a certificate uses."""
        rows = np.arange(self.batch_size, dtype=np.int64)
        streams = np.full_like(rows, Stream.CALIBRATION)
        try:
            # All inputs in turn: experts that share a capacity, say, may each see one kind of input.
            probe(self._network, lane.noisy(NoisyRows(rows % len(self.inputs), rows, streams)))
        except UnusableModel:
            raise
        except Exception as error:
            if out_of_memory(error) or len(self.inputs) == 1:
                raise
            # The network may raise on one of the inputs, which is then named when its votes are drawn.
            probe(self._network, lane.noisy(NoisyRows(rows * 0, rows, streams)))

    @property
    def _probe_rows(self) -> int:
        return min(PROBE_ROWS, self.batch_size)

    def _probe_function_once(self, rows: NoisyRows) -> None:
        """Of a function. What the rows answer are votes, so they are rows that are wanted; that it is refused or not claims nothing."""
        self._is_probed |= self._network.requests is None
        # It may raise on some of the inputs, which are then named when their votes are drawn: one that it answers is enough.
        inputs = list(dict.fromkeys(rows.rows.tolist()))
        alone = iter(inputs if len(inputs) > 1 else ())
        while not self._is_probed:
            try:
                self._probe_function(rows)
                self._is_probed = True
            except (UnusableModel, ServiceUnavailable):
                raise
            except Exception as error:
                if out_of_memory(error):
                    self._smaller(error)
                    rows = rows.part(0, self._probe_rows)
                elif (position := next(alone, None)) is None:
                    raise self._failing(error) from error
                else:
                    rows = rows_of_one_input(rows, position)

    def _probe_function(self, rows: NoisyRows) -> None:
        answer = probe_function(self._network, self._lane.noisy(rows))
        if self._network.knows_classes:  # labels alone do not tell how many there are, and are then refused
            self._probed.remember(rows, self._network.votes(self._network.classes_that_win(answer).cpu().numpy()))

    def _failing(self, error: Exception) -> UnusableModel:
        return UnusableModel(
            f"the model fails on a batch of {self.batch_size} inputs of shape {tuple(self.input_shape)}: {error}; "
            "check that these are the inputs it is made for"
        )


class _Batch(NamedTuple):
    """A batch that was begun, with its number."""

    number: int
    pieces: list[Piece]
    parts: list[Pending]
    look: Look | None


def _all_failed(batch: Sequence[Piece], failed: Mapping[int, str]) -> bool:
    return all(piece.work.position in failed for piece in batch)


def _what_may(model: Any) -> str:
    """The attributes that a model's own methods assign, for the message."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    names = {
        name for part in parts for name in kept_by_methods(type(part)) if name in vars(part) or name in part._buffers
    }
    return f" (its methods assign {', '.join(sorted(names)[:5])})" if names else ""
