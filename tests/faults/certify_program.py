"""`python -m tests.faults.certify_program STORE ENGINE`: a run in a process of its own, which tells how far it is, and the time."""

import sys
import time

import torch

import recert
from recert.cache import writer
from recert.engines import on_engine
from tests.engines.networks import digits_inputs, digits_network
from tests.faults.undisturbed import OPTIONS

SAMPLES = 30_000
COUNTS = {"samples": SAMPLES, "selection_samples": 100}


def tell(progress: recert.Progress) -> None:
    print(progress.done, progress.total, time.time(), flush=True)


def main(store: str, engine: str) -> None:
    torch.set_num_threads(1)
    writer.VOTES_PER_PART = 5_000  # so that a part is closed many times in a short run
    extra = {"workers": 2} if engine == "ray" else {}
    with on_engine(engine, digits_network(), digits_inputs(), **OPTIONS, **extra) as model:
        recert.certify(model, digits_inputs(), **OPTIONS, **COUNTS, store=store, progress=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
