"""Rows that a function is sent by each verb, beside the votes that it needs: the table of docs/certifying-an-api.md.

    python benchmarks/rows_of_a_function.py

The function counts what it is given; nothing of what recert says about itself is used but the number of votes.
"""

import numpy as np
import torch
from torch import Tensor

import recert

WEIGHTS = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32))


class Service:
    """A linear network behind a function."""

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift
        self.requests: list[int] = []

    def __call__(self, batch: Tensor) -> Tensor:
        self.requests.append(len(batch))
        return batch @ (WEIGHTS + self.shift)

    def row(self, job: str, verb: str, needed: int) -> None:
        """One row of the table; the next job begins at zero."""
        sent = sum(self.requests)
        print(
            f"| {job} | `{verb}` | {needed:,} | {sent:,} | {sent / needed:.3f} | {len(self.requests):,} |", flush=True
        )
        self.requests.clear()


def main() -> None:
    print("| job | verb | rows needed | rows sent | ratio | requests |\n|---|---|---|---|---|---|")
    for inputs, samples, passes in ((6, 300, 60), (100, 1_000, 100)):
        x = np.random.default_rng(1).normal(size=(inputs, 4)).astype(np.float32)
        original, changed = Service(), Service(0.05)
        cache = recert.certify(original, x, noise=recert.Gaussian(0.5), samples=samples)
        original.row(f"{inputs} inputs, n = {samples:,}; {passes} to re-certify", "certify", inputs * (samples + 100))
        result = recert.recertify(changed, x, cache, samples=passes)
        changed.row("", "recertify", int(result.forward_passes.sum()))
        original.row("", "audit", int(recert.audit(original, x, cache).replayed.sum()))
        labels = np.maximum(cache.certificates.prediction, 0)
        chosen = recert.select({"changed": changed}, x, cache, labels, cost={"changed": 1}, tolerance=0.3)
        changed.row("", "select", chosen.passes)


if __name__ == "__main__":
    main()
