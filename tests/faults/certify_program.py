"""`python -m tests.faults.certify_program STORE ENGINE`: a run in a process of its own, which tells how far it is, and the time."""

import sys
import time
from pathlib import Path

import torch

import recert
from recert.cache import writer
from tests.engines.networks import Patient, digits_inputs, digits_network, on_engine
from tests.faults.undisturbed import OPTIONS

SAMPLES = 30_000
COUNTS = {"samples": SAMPLES, "selection_samples": 100}


def tell(progress: recert.Progress) -> None:
    print(progress.done, progress.total, time.time(), flush=True)


def main(store: str, engine: str) -> None:
    torch.set_num_threads(1)
    writer.VOTES_PER_PART = 5_000  # so that a part is closed many times in a short run
    local = engine == "local"
    network, extra = (digits_network(), {}) if local else (Patient(Path(store)).eval(), {"workers": 2})
    with on_engine(engine, network, digits_inputs(), **OPTIONS, **extra) as model:
        recert.certify(model, digits_inputs(), **OPTIONS, **COUNTS, store=store, progress=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
