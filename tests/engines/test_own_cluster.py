"""The cluster that is started for one command: who can reach it, and who may use it."""

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from recert.engines.cluster import Cluster
from recert.errors import LostWorkers

psutil = pytest.importorskip("psutil")
pytest.importorskip("ray")

CLUSTER = """
import json, os, sys
from recert.engines.cluster import Cluster
before = dict(os.environ)
cluster = Cluster()
cluster.ray.get(cluster.ray.remote(lambda: 1).remote())
address = cluster.ray.get_runtime_context().gcs_address
print(json.dumps({"address": address, "token": os.environ.get("RAY_AUTH_TOKEN")}), flush=True)
sys.stdin.readline()
cluster.close()
print(json.dumps([name for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN") if os.environ.get(name) != before.get(name)]))
"""
INTRUDER = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1]).internal_kv_put(b"key", b"value", True, None, 5)
print("ACCEPTED")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Any, dict[str, str]]]:
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        if process.poll() is None:
            process.communicate("\n", timeout=60)


def connect(address: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", INTRUDER, address]
    return subprocess.run(command, env={**clean, **variables}, capture_output=True, text=True, timeout=60, check=False)


def test_it_listens_on_this_machine_only(cluster: tuple[Any, dict[str, str]]) -> None:
    root = psutil.Process(cluster[0].pid)
    sockets = {
        f"{process.name()} {c.laddr.ip}": ipaddress.ip_address(c.laddr.ip)
        for process in (root, *root.children(recursive=True))
        for c in process.net_connections("tcp")
        if c.status == psutil.CONN_LISTEN
    }
    assert len({name.split()[0] for name in sockets}) >= 3, "the control: driver, gcs_server and raylet were looked at"
    reachable = [name for name, ip in sockets.items() if not (getattr(ip, "ipv4_mapped", None) or ip).is_loopback]
    assert reachable == []


def test_only_its_token_opens_it(cluster: tuple[Any, dict[str, str]]) -> None:
    about = cluster[1]
    for variables in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}):
        refused = connect(about["address"], **variables)
        assert refused.returncode != 0
        assert "ACCEPTED" not in refused.stdout
        assert "authenticat" in refused.stderr.lower()
    assert "ACCEPTED" in connect(about["address"], RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=about["token"]).stdout


def test_the_environment_is_left_as_it_was(cluster: tuple[Any, dict[str, str]]) -> None:
    left, _ = cluster[0].communicate("\n", timeout=60)
    assert json.loads(left) == []


def test_a_ray_without_tokens_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("ray._raylet.AuthenticationTokenLoader")
    with pytest.raises(LostWorkers, match=r"expected a Ray that has tokens, got .*; install Ray 2\.52 or newer"):
        Cluster("local")
