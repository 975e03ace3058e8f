"""Votes drawn by workers on a Ray cluster: the same votes, bit for bit, as one process draws."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Self

import torch

from recert.engines.cluster import Cluster
from recert.engines.execution import Execution
from recert.engines.pool import Pool
from recert.engines.schedule import Schedule
from recert.errors import UnusableInputs
from recert.models.description import describe
from recert.models.digest import identify
from recert.models.numerics import Numerics
from recert.models.permanent import copied
from recert.noise import Noise, Stream, input_digest
from recert.sampling import Progress, ProgressCallback, VoteChunk, VoteSource, Work
from recert.sampling.inputs import check_noise_fits, checked_inputs
from recert.sampling.network import Model
from recert.sampling.work import logged


class RaySource:
    """A model for `certify`, `predict` and `recertify` whose votes are drawn by a Ray cluster. Use it in a `with` block.

    Arguments as for the local engine, and `workers` (one per GPU with `device="cuda"`, else one per core, growing with
    the cluster), `address` of a running cluster ("auto" for the one on this machine; without it, one is started here)
    and `allow_numerics`, to accept nodes whose processors or versions differ.

    Workers that die are replaced and what they were drawing is drawn again. An input on which the network raises on
    two workers is left out; the votes of all others are drawn before UnusableInputs names it.
    """

    def __init__(
        self,
        model: Model,
        inputs: Any,
        *,
        noise: Noise,
        seed: int,
        batch_size: int | None = None,
        device: str = "cpu",
        classes: int | None = None,
        identity: str | None = None,
        workers: int | None = None,
        address: str | None = None,
        allow_numerics: bool = False,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"expected at least 1 worker, got {workers}")
        array = checked_inputs(inputs)
        check_noise_fits(array, noise)
        self.input_shape = array.shape[1:]
        self.digests = [input_digest(x) for x in array]
        self.streams = frozenset(Stream)
        self.noise, self.seed = noise, seed
        # Here and not by the workers: the digest reads source code, and workers have none of a class that was sent to them.
        self.identity, self.description = identify(model, identity), describe(model, identity)
        self._fills_batches = isinstance(model, torch.nn.Module) or device != "cpu"
        self._cluster = Cluster(address)
        # In Ray's object store: sent to each node once, whatever its number of workers, which share one copy of the inputs.
        shared = [self._cluster.ray.put(on_cpu(model)), self._cluster.ray.put(array)]
        options = {
            "noise": noise, "seed": seed, "batch_size": batch_size, "device": device, "classes": classes, "identity": identity,
        }  # fmt: skip
        self._pool = Pool(self._cluster, shared, options, workers, allow_numerics)
        try:
            self.classes = self._pool.start().classes
        except BaseException:
            self.close()
            raise

    @property
    def numerics(self) -> Numerics:
        return reduce(Numerics.joined, (facts.numerics for facts in self._pool.admission.facts))

    @property
    def batch_size(self) -> int:
        return self._pool.batch_size

    @property
    def passes_at_once(self) -> int:
        """As of a `Sampler` here, so that decisions at a radius take the same votes."""
        return self.batch_size if self._fills_batches else 1

    @property
    def workers_started(self) -> int:
        """Workers started so far: more than there are if some had to be replaced."""
        return self._pool.started

    def draw(
        self, works: Sequence[Work], task: str = "sampling", progress: ProgressCallback | None = None
    ) -> Iterator[VoteChunk]:
        """Votes of all works, in order. Jobs under way and votes that wait for earlier ones are bounded in number."""
        yield from logged(self._drawn(works, task, progress), task)

    def _drawn(self, works: Sequence[Work], task: str, progress: ProgressCallback | None) -> Iterator[VoteChunk]:
        schedule = Schedule(works, self.batch_size)
        reported = 0
        try:
            while not schedule.complete:
                self._pool.work(schedule)
                yield from schedule.ready()
                if progress is not None and schedule.done > reported:
                    reported = schedule.done
                    progress(Progress(task, reported, schedule.samples))
        finally:
            self._pool.forget_jobs()
        if schedule.failures:
            raise UnusableInputs({i: (self.digests[i], why) for i, why in schedule.failures.items()}, len(self.digests))

    def check_unchanged(self) -> None:
        """UnusableModel if the model has changed on a worker since its first vote: each looks at its own, as `Sampler` does."""
        self._pool.check_unchanged()

    def close(self) -> None:
        """Stop the workers, and the cluster if it was started here."""
        self._pool.close()
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def open_ray(model: Model, inputs: Any, *, execution: Execution, **about: Any) -> Iterator[VoteSource]:
    """A source whose batches run on a Ray cluster."""
    with RaySource(
        model, inputs, batch_size=execution.batch_size, device=str(execution.device or "cpu"), workers=execution.workers,
        address=execution.ray_address, allow_numerics=execution.allow_numerics, **about,
    ) as source:  # fmt: skip
        yield source


def on_cpu(model: Model) -> Model:
    """The model as it can be sent anywhere: its weights not on a device that only this machine has."""
    if isinstance(model, torch.nn.Module) and any(
        t.device.type != "cpu" for t in (*model.parameters(), *model.buffers())
    ):
        return copied(model).cpu()
    return model
