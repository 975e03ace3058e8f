"""A family of noise that only tests know: independent Laplace noise, radii in the l1 norm (Teng et al., 2020). It shows that a
family can be added without a change of any other file: its kernels are the two functions below."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from recert.noise import Kernels
from recert.noise.on_torch import philox4x32

Floats = NDArray[np.float64]
MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class TestLaplace:
    """Certificates are in the l1 norm: scale / 2 * (log(p / q)) with both on one side of 1/2, and the sum of both sides else."""

    __test__ = False
    b: float

    norm = "l1"
    kernels = Kernels(
        "tests.noise.laplace:perturb_on_cpu", "tests.noise.laplace:perturb_on_torch", "tests.noise.laplace:none"
    )

    @classmethod
    def parse(cls, text: str) -> "TestLaplace":
        return cls(float(text))

    @property
    def spec(self) -> str:
        return f"test-laplace:{self.b!r}"

    @property
    def scale(self) -> float:
        return float(np.float32(self.b))

    def radius(self, top_lower: ArrayLike, runner_up_upper: ArrayLike | None = None) -> Any:
        p = np.asarray(top_lower, dtype=float)
        q = 1 - p if runner_up_upper is None else np.asarray(runner_up_upper, dtype=float)
        gap = self.plan_scale(np.clip(p, 1e-300, 1 - 1e-16)) - self.plan_scale(np.clip(q, 1e-300, 1 - 1e-16))
        found = np.where(p > q, np.maximum(self.scale / 2 * gap * (1 - 1e-14), 0.0), 0.0)
        return float(found) if found.ndim == 0 else found

    def plan_scale(self, probability: Floats) -> Floats:
        """The quantile of the Laplace distribution of scale 1."""
        p = np.asarray(probability, dtype=float)
        with np.errstate(divide="ignore"):
            return np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p)))

    def planned_radius(self, top: Floats, not_runner_up: Floats) -> Floats:
        return np.asarray(self.scale / 2 * np.maximum(top + not_runner_up, 0.0))


def perturb_on_torch(
    inputs: torch.Tensor,
    rows: torch.Tensor,
    keys: torch.Tensor,
    samples: torch.Tensor,
    streams: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """inputs[rows[b]] + scale * z, where z is the quantile of a uniform number of 32 bits, in double precision."""
    size = inputs.shape[1]
    blocks = torch.arange((size + 3) // 4, device=inputs.device)
    key = keys[rows][:, None]
    zero = torch.zeros_like(key)
    counter = [blocks[None, :] + zero, samples[:, None] + zero, zero, streams[:, None] + zero]
    words = torch.stack(philox4x32(counter, [key & MASK, key >> 32 & MASK]), dim=-1).flatten(1)[:, :size]
    u = (words.double() + 0.5) / 2**32
    z = torch.where(u < 0.5, torch.log(2 * u), -torch.log(2 * (1 - u)))
    return (inputs[rows].double() + scale * z).float()


def perturb_on_cpu(
    inputs: NDArray[np.float32], rows: Any, keys: NDArray[np.uint64], samples: Any, streams: Any, scale: Any, out: Any
) -> None:
    """The same by plain torch: a test needs no speed."""
    arrays = (rows, keys.view(np.int64), samples, streams)
    out[:] = perturb_on_torch(torch.from_numpy(inputs), *map(torch.from_numpy, arrays), float(scale)).numpy()
