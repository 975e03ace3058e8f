"""Certificates of a modified model from the votes of the original. One file per method."""

from recert.recertification.irs import Irs
from recert.recertification.method import Method, Strategy
from recert.recertification.recertify import draw_votes, recertify
from recert.recertification.registry import available_methods, method_named, register_method
from recert.recertification.scratch import Scratch

__all__ = [
    "Irs",
    "Method",
    "Scratch",
    "Strategy",
    "available_methods",
    "draw_votes",
    "method_named",
    "recertify",
    "register_method",
]
