"""A real process is killed at a random moment; the run is continued; the votes are those of an undisturbed run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recert import Cache
from recert.noise import Stream

PROGRAM = """
import sys, numpy as np, torch, recert
from recert.cache import writer
torch.set_num_threads(1)
torch.manual_seed(0)
writer.VOTES_PER_PART = 3000
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10)).eval()
x = np.random.default_rng(0).normal(size=(12, 3, 8, 8)).astype(np.float32)
def tell(progress):
    print(progress.done, progress.total, flush=True)
recert.certify(net, x, noise=recert.Gaussian(0.5), samples=12_000, batch_size=100, store=sys.argv[1], progress=tell)
"""


def start(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def votes(store: Path) -> list[bytes]:
    cache = Cache.open(store)
    assert cache.verify() == []
    return [cache.votes(d, s).tobytes() for d in cache.digests for s in (Stream.SELECTION, Stream.ESTIMATION)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    store = tmp_path_factory.mktemp("undisturbed")
    run = start(store)
    _, errors = run.communicate()
    assert run.returncode == 0, errors
    return votes(store)


@pytest.mark.parametrize("trial", range(3))
def test_kill_and_resume(tmp_path: Path, undisturbed: list[bytes], trial: int) -> None:
    killed = start(tmp_path)
    assert killed.stdout is not None
    killed.stdout.readline()
    time.sleep(float(np.random.default_rng(trial).uniform(0.05, 0.6)))
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, "the run was over before it was killed"
    resumed = start(tmp_path)
    lines, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    assert int(lines.split()[1]) <= 12 * 12_500
    assert votes(tmp_path) == undisturbed
