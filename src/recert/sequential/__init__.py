"""Is the radius at least so large? Decided input by input, with as few votes as it takes: fresh ones, or replays of a cache."""

from recert.sequential.fresh import FreshVotes, smallest_samples
from recert.sequential.replays import Replays
from recert.sequential.results import Enough, checked_radii, result_of
from recert.sequential.rounds import Question
from recert.sequential.thresholds import class_alone

__all__ = [
    "Enough",
    "FreshVotes",
    "Question",
    "Replays",
    "checked_radii",
    "class_alone",
    "result_of",
    "smallest_samples",
]
