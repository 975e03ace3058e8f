"""What a noise is: a distribution with a scale, the norm of its certificates, and the step from bounds to radii."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Kernels(NamedTuple):
    """Where the noise is made, as "module:function", one for each implementation. All three must give the same bits.

    They are named and not imported, so that a cache is read without torch. The signatures are those of the functions in
    `recert.noise.on_cpu`, `on_torch` and `on_cuda`; the last argument but `out` is the scale as a float32 number, and `numbers`, if
    there are any, follow it.
    """

    cpu: str
    torch: str
    cuda: str
    numbers: tuple[int, ...] = ()


@runtime_checkable
class Noise(Protocol):
    """A family of noise at one scale: a frozen value that can be compared and hashed. `recert.Gaussian` is one.

    It may have a method `check_inputs` that raises ValueError if it is not for these inputs (float32, count x ...). `register_noise` makes a family known by the word before the colon of its spec.
    """

    @property
    def spec(self) -> str:
        """The noise as text, `family:scale`: what manifests and results keep. `parse_noise` reads it back."""
        ...

    @property
    def norm(self) -> str:
        """The norm that radii are in, such as l2."""
        ...

    @property
    def scale(self) -> float:
        """The scale of the noise that is really drawn, a float32 number; radii are computed with it too."""
        ...

    @property
    def kernels(self) -> Kernels:
        """Who makes the noise."""
        ...

    def __hash__(self) -> int: ...

    def radius(self, top_lower: ArrayLike, runner_up_upper: ArrayLike | None = None) -> Any:
        """The certified radius, rounded down; 0 where `top_lower` is not above `runner_up_upper` (what it leaves, if not given)."""
        ...

    def plan_scale(self, probability: Floats) -> Floats:
        """Probabilities on the scale on which plans interpolate: increasing, 0 at 1/2, and radii are nearly straight lines on it."""
        ...

    def planned_radius(self, top: Floats, not_runner_up: Floats) -> Floats:
        """The radius to expect from two bounds on that scale: on the class, and on not voting for the runner-up.

        It guides a plan and claims nothing, so it is not rounded.
        """
        ...


def checked_noise(noise: Any) -> Noise:
    """The noise itself, or a ValueError that says what was expected. A class is no noise: it has no scale yet."""
    if not isinstance(noise, Noise) or isinstance(noise, type):
        raise ValueError(f"expected a noise such as recert.Gaussian(0.5), got {noise!r}")
    return noise


def check_inputs(noise: Noise, inputs: NDArray[np.float32]) -> None:
    """ValueError if the noise says that it is not for these inputs."""
    check = getattr(noise, "check_inputs", None)
    if check is not None:
        check(inputs)
