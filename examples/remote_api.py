"""Certify a model that you can only ask for labels, from votes that you have kept: python examples/remote_api.py

You send noisy copies of every input to the service once and keep its answers as integers, inputs x samples. Certificates
are then a matter of counting; a new version of the service is re-certified by asking it about a part of the same copies.
"""

import numpy as np

import recert

SIGMA, INPUTS, CHOOSE, BOUND = 0.5, 20, 100, 2_000
rng = np.random.default_rng(0)
images = rng.uniform(-1, 1, size=(INPUTS, 8))
truth = (images[:, 0] > 0).astype(int)


def service(batch: np.ndarray, version: int) -> np.ndarray:
    """Stands for the remote model: labels, no logits. Version 2 was retrained and differs a little."""
    return (batch[..., 0] + 0.03 * (version - 1) * batch[..., 1] > 0).astype(int)


# The same noisy copies for both versions: keep the seed, and the noise can be made again.
noise = rng.normal(scale=SIGMA, size=(INPUTS, CHOOSE + BOUND, 8))
votes = {version: service(images[:, None] + noise, version) for version in (1, 2)}

# Some votes choose the class, the others bound it. A vote of -1 is a vote for nobody (a time-out, a refusal).
first, second = (recert.StoredVotes(v[:, CHOOSE:], selection=v[:, :CHOOSE], classes=2) for v in votes.values())
cache = recert.certify(first, None, noise=recert.Gaussian(SIGMA), samples=BOUND, selection_samples=CHOOSE)
result = recert.recertify(second, None, cache, samples=200)

print(f"version 1: average certified radius {cache.certificates.average_certified_radius(truth):.3f}")
print(f"version 2: average certified radius {result.average_certified_radius(truth):.3f}, ", end="")
print(f"{result.mean_forward_passes:.0f} answers per input instead of {CHOOSE + BOUND:,}")

# A service that can be asked whenever it is needed is a function, and no copies need to be kept: see certify_an_api.py.
