"""Which families of noise there are, by the word before the colon of a spec."""

from collections.abc import Callable

from recert.noise.family import Noise
from recert.noise.gaussian import Gaussian
from recert.noise.laplace import Laplace
from recert.noise.splitting import Splitting
from recert.noise.uniform import Uniform
from recert.registration import check_new_name

Parse = Callable[[str], Noise]
"""Makes a noise of what stands after the colon; ValueError if it cannot."""

_FAMILIES: dict[str, Parse] = {
    "gaussian": Gaussian.parse,
    "laplace": Laplace.parse,
    "splitting": Splitting.parse,
    "uniform": Uniform.parse,
}


def register_noise(family: str, parse: Parse) -> None:
    """Make `family:...` known as a noise in this process. `parse(noise.spec)` must give an equal noise back."""
    check_new_name(family, _FAMILIES)
    _FAMILIES[family] = parse


def available_noises() -> tuple[str, ...]:
    """Names of all families."""
    return tuple(_FAMILIES)


def parse_noise(spec: str) -> Noise:
    """Noise from its spec string, such as `gaussian:SIGMA`.

    >>> parse_noise("gaussian:0.25")
    Gaussian(sigma=0.25)
    """
    family, _, rest = spec.partition(":")
    if family not in _FAMILIES:
        raise ValueError(
            f"expected a noise like 'gaussian:0.5', got {spec!r}; known families: {', '.join(_FAMILIES)}; register one of your own "
            "with recert.register_noise first"
        )
    try:
        return _FAMILIES[family](rest)
    except ValueError as error:
        raise ValueError(f"expected a noise like 'gaussian:0.5', got {spec!r}: {error}") from None


def noise_with_spec(spec: str) -> Noise:
    """The noise whose spec is exactly this text, as manifests keep it: the text is part of what a cache is known by."""
    noise = parse_noise(spec)
    number = spec.partition(":")[2]
    if isinstance(noise, Gaussian) and number.isdecimal():
        noise = Gaussian(int(number))  # Gaussian(1) and Gaussian(1.0) are equal, but are kept as they were written
    if noise.spec != spec:
        raise ValueError(f"expected a noise as it writes itself, {noise.spec!r}, got {spec!r}")
    return noise
