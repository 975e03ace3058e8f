"""Results as a page that explains them, and as figures for papers."""

from recert.report.reading import NotAResult, read_result
from recert.report.results import Result, write_result

__all__ = ["NotAResult", "Result", "read_result", "write_result"]
