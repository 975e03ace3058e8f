"""The Ray cluster: joined where there is one, started on this machine where there is none, and left as it was."""

import os
import socket
from contextlib import ExitStack

from recert.engines import own_cluster
from recert.errors import LostWorkers
from recert.extras import import_extra

SECONDS_TO_ANSWER = 10.0


class Cluster:
    """A connection to Ray. `address`: of a running cluster, "auto" for the one on this machine; None starts one here."""

    def __init__(self, address: str | None = None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self.ray = import_extra("ray", extra="ray", purpose="--engine ray")
        # A connection that the user's program has made already is used, and is not closed here.
        self._opened = ExitStack()
        if not self.ray.is_initialized():
            self._opened = self._connect(address or os.environ.get("RAY_ADDRESS") or "local")

    def _connect(self, address: str) -> ExitStack:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if address == "local":
                return own_cluster.start(self.ray, **quiet)
            _check_reachable(address)
            self.ray.init(address=address, **quiet)
            connected = ExitStack()
            connected.callback(self.ray.shutdown)
            return connected
        except (OSError, RuntimeError, ValueError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise LostWorkers(
                f"expected a Ray cluster at {address}, got none that answers ({reason}); start one with `ray start --head`, "
                "or leave the address out to start one on this machine"
            ) from error

    def close(self) -> None:
        self._opened.close()

    def nodes(self, resource: str) -> list[int]:
        """How much of a resource (CPU, GPU) each node that is up has."""
        alive = (node["Resources"] for node in self.ray.nodes() if node["Alive"])
        return [int(held[resource]) for held in alive if held.get(resource, 0) >= 1]


def _check_reachable(address: str) -> None:
    """Raise OSError unless HOST:PORT accepts a connection: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and "/" not in address:
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_ANSWER).close()


def cores_for_each(nodes: list[int], workers: int) -> int:
    """The most cores that so many workers can have each, given the cores of every node.

    >>> cores_for_each([2], 1), cores_for_each([2], 2), cores_for_each([2], 5), cores_for_each([3, 3, 3], 4)
    (2, 1, 1, 1)
    """
    fitting = (c for c in range(max(nodes, default=1), 0, -1) if sum(cores // c for cores in nodes) >= workers)
    return next(fitting, 1)
