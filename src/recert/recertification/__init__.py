"""Certificates of a modified model from the votes of the original. One file per method."""

from recert.recertification.verb import METHODS, recertify

__all__ = ["METHODS", "recertify"]
