"""A small Ray cluster on this machine for one test module, and what its workers can import."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
OBJECT_STORE = 100 * 2**20


@contextmanager
def started_ray(cpus: int) -> Iterator[None]:
    ray = pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=cpus, object_store_memory=OBJECT_STORE, **QUIET)
    try:
        yield
    finally:
        ray.shutdown()
