"""The cheapest of many candidates whose certificates are nearly as good as those of the model they came from."""

from recert.choosing.costs import Costs
from recert.choosing.result import Chosen, Entry, Status
from recert.choosing.select import select

__all__ = ["Chosen", "Costs", "Entry", "Status", "select"]
