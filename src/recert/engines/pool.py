"""Actors that hold the network: as many as the cluster has room for, replaced when they die, grown when nodes join."""

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

from recert.engines.cluster import Cluster, cores_for_each
from recert.engines.hiring import Hiring
from recert.engines.schedule import Job, Schedule
from recert.engines.torch_settings import TorchSettings
from recert.engines.worker import Facts, Refusal, Worker
from recert.errors import LostWorkers, UnusableModel

JOBS_PER_WORKER = 2
"""One that is being drawn, one that waits beside the device."""
OUT_OF_MEMORY = 3
SECONDS_BETWEEN_CENSUSES = 2.0
SECONDS_BEFORE_COMPLAINT = 60.0


@dataclass(eq=False)
class _Member:
    number: int
    actor: Any
    starting: Any
    """Reference to its facts, until they are known."""
    jobs: dict[Any, Job] = field(default_factory=dict)
    """By reference to the answer."""

    @property
    def room(self) -> int:
        if any(job.suspect for job in self.jobs.values()):
            return 0
        return JOBS_PER_WORKER - len(self.jobs)


class Pool:
    """Workers on a cluster, which all compute alike."""

    def __init__(
        self, cluster: Cluster, boxed: list[Any], options: dict[str, Any], workers: int | None, allow_numerics: bool
    ) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self._boxed, self._options, self._asked = boxed, options, workers
        self._resource = "GPU" if options["device"].startswith("cuda") else "CPU"
        self._remote = self._ray.remote(Worker)
        self._members: list[_Member] = []
        self.started = self._out_of_memory = self._wanted = self._cores = 0
        self._census = -SECONDS_BETWEEN_CENSUSES
        self.hiring = Hiring(allow_numerics)

    def lead(self) -> Facts:
        """Take the first worker's batch size and numerics for all that follow."""
        self._take_census()
        for _ in range(self._wanted if self._options["batch_size"] else 1):
            self._start()
        while not self.hiring.facts:
            if not self._wait(SECONDS_BEFORE_COMPLAINT):
                warnings.warn(
                    f"no worker could be started yet; the cluster has {self._ray.available_resources()} free",
                    stacklevel=4,
                )
            if not self._members:
                self._start()
        self._options = {**self._options, "batch_size": int(self.hiring.facts[0].numerics["batch_size"])}
        return self.hiring.facts[0]

    def work(self, schedule: Schedule) -> None:
        """Hand out jobs, and wait until something happens: an answer, a death, a new worker."""
        self._take_census()
        while len(self._members) < self._wanted:
            self._start()
        ready = [member for member in self._members if member.starting is None]
        for member in sorted(ready, key=lambda m: len(m.jobs)):
            while member.room > 0 and (job := schedule.next_job(member.number, len(ready), idle=not member.jobs)):
                works = [slice_.as_work() for slice_ in job.slices]
                member.jobs[member.actor.draw.remote(works)] = job
        self._wait(SECONDS_BETWEEN_CENSUSES, schedule)

    def forget_jobs(self) -> None:
        """Nobody waits for what is still out."""
        for member in self._members:
            member.jobs.clear()

    def close(self) -> None:
        for member in self._members:
            self._ray.kill(member.actor)
        self._members.clear()

    def _take_census(self) -> None:
        """Now and then, count what the cluster has: nodes come and go."""
        if time.monotonic() - self._census < SECONDS_BETWEEN_CENSUSES:
            return
        self._census = time.monotonic()
        nodes = self._cluster.nodes(self._resource)
        if not nodes and not self._asked:
            raise LostWorkers(
                f"expected a cluster with a {self._resource}, got none there; use --device cpu, or --workers N to wait for N"
            )
        self._wanted = self._asked or sum(nodes)
        if not self._cores:  # settled before workers of ours take any, and within what others have left
            free = int(self._ray.available_resources().get("CPU", 1))
            most = cores_for_each(nodes, self._wanted) if self._resource == "CPU" else 1
            self._cores = max(1, min(most, free // self._wanted))
        if self.hiring.hopeless(self._wanted):
            self._wanted = max(1, len(self._members))

    def _start(self) -> None:
        options = {"num_cpus": self._cores, "num_gpus": int(self._resource == "GPU"), "scheduling_strategy": "SPREAD"}
        actor = self._remote.options(**options).remote(TorchSettings.of_this_process(), self._cores)
        self._members.append(_Member(self.started, actor, actor.prepare.remote(self._boxed, self._options)))
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
            if member in self._members:
                self._receive(member, reference, schedule)
        return bool(happened)

    def _receive(self, member: _Member, reference: Any, schedule: Schedule | None) -> None:
        try:
            said = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise  # a fault of ours: workers catch what the network raises
        except self._ray.exceptions.RayError as error:
            self._bury(member, str(error).strip().partition("\n")[0], schedule)
            return
        if reference == member.starting:
            self._welcome(member, said)
            return
        assert schedule is not None
        if said.out_of_memory:
            self._bury(member, f"out of memory with {self._options['batch_size']} samples per batch", schedule)
            self._count_out_of_memory()
            return
        self._out_of_memory = 0
        mistaken = schedule.finish(member.jobs.pop(reference), member.number, said)
        for other in [m for m in self._members if m.number == mistaken]:
            self._bury(other, "the network raised where it did not on another worker", schedule)

    def _count_out_of_memory(self) -> None:
        """A fresh worker may have the memory; if several in a row have not, the batch is too large for this cluster."""
        self._out_of_memory += 1
        if self._out_of_memory > OUT_OF_MEMORY:
            size = self._options["batch_size"]
            raise UnusableModel(
                f"{self._out_of_memory} workers in a row ran out of memory with {size} samples per batch; run the same command "
                f"with --batch-size {size // 2}, and --allow-numerics if the store holds votes already"
            )

    def _welcome(self, member: _Member, said: Facts | Refusal) -> None:
        against = self.hiring.reason_against(said)
        if against is not None:
            self._bury(member, against, None)
        else:
            member.starting = None

    def _bury(self, member: _Member, reason: str, schedule: Schedule | None) -> None:
        """A worker is gone or must go; its jobs are for others. A new one is started when jobs are next handed out."""
        self._members.remove(member)
        self._ray.kill(member.actor)
        for job in member.jobs.values():
            assert schedule is not None
            schedule.lost(job, reason)
        if member.starting is not None:
            self.hiring.died_at_start(reason, others=any(m.starting is None for m in self._members))
