"""Which noise a vote is drawn under, and the counter stream that makes the same bits of it anywhere."""

from recert.noise.family import Kernels, Noise, check_inputs, checked_noise
from recert.noise.gaussian import Gaussian
from recert.noise.keys import Stream, checked_seed, input_digest, noise_key
from recert.noise.laplace import Laplace
from recert.noise.registry import available_noises, noise_with_spec, parse_noise, register_noise
from recert.noise.splitting import Splitting
from recert.noise.uniform import Uniform

__all__ = [
    "Gaussian",
    "Kernels",
    "Laplace",
    "Noise",
    "Splitting",
    "Stream",
    "Uniform",
    "available_noises",
    "check_inputs",
    "checked_noise",
    "checked_seed",
    "input_digest",
    "noise_key",
    "noise_with_spec",
    "parse_noise",
    "register_noise",
]
