"""A cluster of real nodes (each with its own raylet and store) that loses one in the middle of a run, and gains one."""

import os
from pathlib import Path

import pytest

import recert
from recert import Progress
from tests.engines.clusters import OBJECT_STORE, QUIET
from tests.engines.networks import Slow, digits_inputs, on_engine
from tests.faults.undisturbed import COUNTS, OPTIONS, stored_votes, votes

pytestmark = pytest.mark.chaos
LONGER = {**COUNTS, "samples": 40_000}


def test_a_lost_node_and_a_new_one(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 1, "object_store_memory": OBJECT_STORE}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    nodes = [cluster.add_node(**node) for _ in range(2)]
    happened: list[str] = []
    workers: list[int] = []

    def lose_and_gain(progress: Progress) -> None:
        workers.append(len(list(tmp_path.glob("pid-*"))))
        if not happened and progress.done > progress.total / 8 and workers[-1] == 3:
            cluster.remove_node(nodes.pop(), allow_graceful=False)
            happened.append("lost")
        elif happened == ["lost"] and progress.done > progress.total / 4:
            cluster.add_node(**node)
            happened.append("gained")

    try:
        ray.init(address=cluster.address, **{k: v for k, v in QUIET.items() if k != "include_dashboard"})
        with on_engine("ray", Slow(tmp_path).eval(), digits_inputs(), **OPTIONS) as remote:
            recert.certify(
                remote, digits_inputs(), **OPTIONS, **LONGER, store=tmp_path / "store", progress=lose_and_gain
            )
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert happened == ["lost", "gained"], "the run was over before the cluster changed"
    assert workers[-1] >= 4, "no worker was started on the new node"
    expected = recert.certify(Slow(tmp_path).inner, digits_inputs(), **OPTIONS, **LONGER)
    assert stored_votes(tmp_path / "store") == votes(expected)
