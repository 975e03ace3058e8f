"""Where batches run: in this process, or on a Ray cluster. The same votes, bit for bit."""

from recert.engines.execution import Execution, chosen_execution
from recert.engines.registry import open_votes, register_engine

__all__ = ["Execution", "chosen_execution", "open_votes", "register_engine"]
