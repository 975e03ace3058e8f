"""Actors that hold the network: as many as the cluster can run, replaced when they die, more when nodes join."""

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from recert.engines.admission import Admission
from recert.engines.cluster import Cluster, cores_for_each
from recert.engines.schedule import Job, Schedule
from recert.engines.torch_settings import TorchSettings
from recert.engines.worker import Facts, Refusal, Worker
from recert.errors import LostWorkers, UnusableModel

JOBS_PER_WORKER = 2
"""One that is being drawn, one that waits beside the device, so that the device does not wait for the driver."""
OUT_OF_MEMORY = 3
SECONDS_BETWEEN_COUNTS = 2.0
"""Nodes are counted, and events waited for, so often at the longest."""
SECONDS_BEFORE_WARNING = 60.0


@dataclass(eq=False)
class _Member:
    number: int
    actor: Any
    starting: Any
    """Reference to its facts, until it is admitted."""
    jobs: dict[Any, Job] = field(default_factory=dict)
    """By reference to the answer."""

    @property
    def jobs_it_can_take(self) -> int:
        # A job with which a worker died before is drawn alone: if it kills this worker too, no other job is lost.
        if any(job.suspect for job in self.jobs.values()):
            return 0
        return JOBS_PER_WORKER - len(self.jobs)


class Pool:
    """Workers on a cluster, which all compute alike."""

    def __init__(
        self, cluster: Cluster, shared: list[Any], options: dict[str, Any], workers: int | None, allow_numerics: bool
    ) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self._shared, self._options, self._requested = shared, options, workers
        self._resource = "GPU" if options["device"].startswith("cuda") else "CPU"
        self._remote = self._ray.remote(Worker)
        self._members: list[_Member] = []
        self.started = self._out_of_memory = self._wanted = self._cores = 0
        self._counted_at = -SECONDS_BETWEEN_COUNTS
        self.admission = Admission(allow_numerics)

    @property
    def batch_size(self) -> int:
        """The batch size of all workers, which is that of the first."""
        size = self.admission.facts[0].numerics.batch_size
        assert size is not None, "a worker reports its batch size"
        return size

    def start(self) -> Facts:
        """Start workers and wait for the first; returns its facts.

        All later workers are given its batch size. Each would choose the size that is fastest on its own device, and in
        batches of another size the last bits of a logit may differ: the votes would not be those of one model. So if the size
        was not given, one worker is started alone.
        """
        self._count_nodes()
        for _ in range(self._wanted if self._options["batch_size"] else 1):
            self._start_worker()
        while not self.admission.facts:
            if not self._wait(SECONDS_BEFORE_WARNING):
                warnings.warn(
                    f"no worker could be started yet; the cluster has {self._ray.available_resources()} free",
                    stacklevel=4,
                )
            if not self._members:
                self._start_worker()
        self._options = {**self._options, "batch_size": self.batch_size}
        return self.admission.facts[0]

    def work(self, schedule: Schedule) -> None:
        """Hand out jobs, and wait until something happens: an answer, a death, a new worker."""
        self._count_nodes()
        while len(self._members) < self._wanted:
            self._start_worker()
        ready = [member for member in self._members if member.starting is None]
        for member in sorted(ready, key=lambda m: len(m.jobs)):
            while member.jobs_it_can_take > 0 and (
                job := schedule.next_job(member.number, len(ready), idle=not member.jobs)
            ):
                works = [slice_.as_work() for slice_ in job.slices]
                member.jobs[member.actor.draw.remote(works)] = job
        self._wait(SECONDS_BETWEEN_COUNTS, schedule)

    def forget_jobs(self) -> None:
        """Ignore the answers that are still to come: the draw that wanted them has ended."""
        for member in self._members:
            member.jobs.clear()

    def check_unchanged(self) -> None:
        """UnusableModel if the model of a worker is not what it was. Those that died meanwhile cannot be asked."""
        asked = [member.actor.changed.remote() for member in self._members if member.starting is None]
        for answer in asked:
            try:
                reason = self._ray.get(answer)
            except self._ray.exceptions.RayTaskError:
                raise
            except self._ray.exceptions.RayError:  # the next job finds out, too, and another worker draws it
                continue
            if reason is not None:
                raise UnusableModel(reason)

    def close(self) -> None:
        for member in self._members:
            self._ray.kill(member.actor)
        self._members.clear()

    def _count_nodes(self) -> None:
        """Every few seconds, find out how many workers the cluster can run: nodes join and leave while votes are drawn."""
        if time.monotonic() - self._counted_at < SECONDS_BETWEEN_COUNTS:
            return
        self._counted_at = time.monotonic()
        nodes = self._cluster.nodes(self._resource)
        if not nodes and not self._requested:
            raise LostWorkers(
                f"expected a cluster with a {self._resource}, got none there; use --device cpu, or --workers N to wait for N"
            )
        self._wanted = self._requested or sum(nodes)
        if not self._cores:  # once, before workers of ours take any cores, and within what others have left
            free = int(self._ray.available_resources().get("CPU", 1))
            most = cores_for_each(nodes, self._wanted) if self._resource == "CPU" else 1
            self._cores = max(1, min(most, free // self._wanted))
        if self.admission.too_many_deaths(self._wanted):
            self._wanted = max(1, len(self._members))

    def _start_worker(self) -> None:
        options = {"num_cpus": self._cores, "num_gpus": int(self._resource == "GPU"), "scheduling_strategy": "SPREAD"}
        actor = self._remote.options(**options).remote(TorchSettings.of_this_process(), self._cores)
        self._members.append(_Member(self.started, actor, actor.prepare.remote(self._shared, self._options)))
        self.started += 1

    def _wait(self, seconds: float, schedule: Schedule | None = None) -> bool:
        """Wait for the first event and deal with all that have happened. False if none has."""
        awaited = {
            reference: m for m in self._members for reference in (*m.jobs, *([m.starting] if m.starting else []))
        }
        happened, _ = self._ray.wait(list(awaited), num_returns=1, timeout=seconds)
        if happened:
            happened, _ = self._ray.wait(list(awaited), num_returns=len(awaited), timeout=0)
        for reference in happened:
            member = awaited[reference]
            if member in self._members:  # else an earlier event of this loop removed it
                self._receive(member, reference, schedule)
        return bool(happened)

    def _receive(self, member: _Member, reference: Any, schedule: Schedule | None) -> None:
        try:
            received = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise  # a fault of ours: workers catch what the network raises
        except self._ray.exceptions.RayError as error:  # the worker's process or its node is gone
            self._remove(member, str(error).strip().partition("\n")[0], schedule)
            return
        if reference == member.starting:
            self._admit(member, received)
            return
        assert schedule is not None
        if received.out_of_memory:
            # Its batches have become smaller than those of the others, so neither this answer nor a later one is used.
            self._remove(member, f"out of memory with {self._options['batch_size']} samples per batch", schedule)
            self._count_out_of_memory()
            return
        self._out_of_memory = 0
        mistaken = schedule.finish(member.jobs.pop(reference), member.number, received)
        for other in [m for m in self._members if m.number == mistaken]:
            self._remove(other, "the network raised where it did not on another worker", schedule)

    def _count_out_of_memory(self) -> None:
        """A fresh worker may have the memory; if several in a row have not, the batch is too large for this cluster."""
        self._out_of_memory += 1
        if self._out_of_memory > OUT_OF_MEMORY:
            size = self._options["batch_size"]
            raise UnusableModel(
                f"{self._out_of_memory} workers in a row ran out of memory with {size} samples per batch; run the same command "
                f"with --batch-size {size // 2}, and --allow-numerics if the store holds votes already"
            )

    def _admit(self, member: _Member, report: Facts | Refusal) -> None:
        """Let a worker that has started draw, or remove it if there is a reason against it."""
        reason = self.admission.reason_against(report)
        if reason is not None:
            self._remove(member, reason, None)
        else:
            member.starting = None

    def _remove(self, member: _Member, reason: str, schedule: Schedule | None) -> None:
        """Remove a worker that died or must not go on; others draw its jobs.

        Nothing is started in its place here: `work` starts as many workers as are missing when it next hands out jobs.
        """
        self._members.remove(member)
        self._ray.kill(member.actor)
        for job in member.jobs.values():
            assert schedule is not None
            schedule.lost(job, reason)
        if member.starting is not None:
            self.admission.count_death_at_start(reason, others_work=any(m.starting is None for m in self._members))
