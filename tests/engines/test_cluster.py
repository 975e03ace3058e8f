"""Joining a cluster that is not there, without Ray installed; and what a worker takes over from the driver."""

import sys

import pytest
import torch

from recert.engines.cluster import Cluster
from recert.engines.torch_settings import TorchSettings
from recert.errors import LostWorkers, MissingExtra
from tests.engines.networks import digits_inputs, digits_network, on_engine
from tests.faults.undisturbed import OPTIONS


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingExtra, match=r"--engine ray needs ray, .*; install it with: pip install .*\[ray\]'"),
        on_engine("ray", digits_network(), digits_inputs(), **OPTIONS),
    ):  # fmt: skip
        pass


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "127.0.0.1:port"])
def test_no_cluster_at_the_address(address: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(LostWorkers, match=f"expected a Ray cluster at {address}, got none that answers .*start --head"):
        Cluster(address)


def test_torch_settings_travel() -> None:
    before = TorchSettings.of_this_process()
    try:
        torch.backends.cudnn.benchmark = not before.cudnn_benchmark
        torch.backends.cuda.matmul.allow_tf32 = not before.tf32_matmuls
        torch.use_deterministic_algorithms(True)
        here = TorchSettings.of_this_process()
        before.apply()
        assert TorchSettings.of_this_process() == before
        here.apply()
        assert TorchSettings.of_this_process() == here != before
    finally:
        before.apply()
