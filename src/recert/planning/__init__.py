"""From selection votes to how many replays each input gets. Pure: no estimation vote of an input enters its own plan."""

from recert.planning.allocation import allocate
from recert.planning.anew import votes_to_bound
from recert.planning.chances import ChancePredictor
from recert.planning.objective import Objective, Reached, parse_plan
from recert.planning.plan import Beliefs, Choice, best_option, equal_passes, plan_budget
from recert.planning.selection import Selected, Selection
from recert.planning.tables import RadiusPredictor

__all__ = [
    "Beliefs",
    "ChancePredictor",
    "Choice",
    "Objective",
    "RadiusPredictor",
    "Reached",
    "Selected",
    "Selection",
    "allocate",
    "best_option",
    "equal_passes",
    "parse_plan",
    "plan_budget",
    "votes_to_bound",
]
