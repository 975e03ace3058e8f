"""Inputs as the user passes them, checked: a float32 array, the first dimension counts the inputs."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert.noise import Noise, check_inputs
from recert.sampling.gathering import gathered

SMALLEST_STEPS = 256
"""The scale of the noise must span so many steps of float32 at the largest element: else noise is rounded away."""


def check_noise_fits(inputs: NDArray[np.float32], noise: Noise) -> None:
    """ValueError if the noise is not for these inputs, or if they are so large that float32 cannot hold input plus noise."""
    check_inputs(noise, inputs)
    largest = float(np.abs(inputs).max())
    step = float(np.spacing(np.float32(largest)))
    # A radius would be about other noise.
    if step * SMALLEST_STEPS > noise.scale:
        raise ValueError(
            f"expected inputs to which float32 can add noise of scale {noise.scale:g}, got elements up to {largest:g}, where numbers of "
            f"float32 are {step:g} apart; scale the inputs, for example to [0, 1], or use more noise"
        )


def checked_inputs(inputs: Any) -> NDArray[np.float32]:
    """The inputs as one float32 array on the CPU, or a ValueError that says what to do."""
    inputs = gathered(inputs)
    if inputs is None:
        raise ValueError("expected inputs, got None; only StoredVotes certify without inputs")
    if isinstance(inputs, torch.Tensor) and inputs.dtype in (torch.bfloat16, torch.float16):
        raise ValueError(f"expected float32 inputs, got {inputs.dtype}; convert them with .float()")
    array = inputs.detach().cpu().numpy() if isinstance(inputs, torch.Tensor) else np.asarray(inputs)
    if np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"expected float32 inputs, got {array.dtype}; for images in 0..255 pass (images / 255).astype('float32'), "
            "so that the noise scale is in units of the [0, 1] range"
        )
    if array.dtype != np.float32:
        raise ValueError(
            f"expected float32 inputs, got {array.dtype}; convert them with .astype('float32') or .float()"
        )
    if array.ndim < 2 or array.size == 0:
        raise ValueError(
            f"expected inputs of shape (count, ...) with at least one input, got {array.shape}; "
            "for a single input pass x[None]"
        )
    finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"expected finite inputs, got NaN or infinity in input {int(np.argmin(finite))}; clean the data first"
        )
    return np.ascontiguousarray(array)
