"""Certificates of a modified model from the votes of the original. One file per method."""

from recert.recertification.methods import METHODS
from recert.recertification.verb import recertify

__all__ = ["METHODS", "recertify"]
