"""Which noise a vote is drawn under, and the counter stream that makes the same bits of it anywhere."""

from recert.noise.families import Gaussian, parse_noise
from recert.noise.keys import Stream, input_digest, noise_key

__all__ = ["Gaussian", "Stream", "input_digest", "noise_key", "parse_noise"]
