"""Conditions on certificates, such as accuracy:0.5>=0.6: whether they hold, and of which value."""

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recert.certificates import Certificates

_COMPARE = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
# Matched as a whole, and not evaluated as Python: a requirement may come from a file that others write.
_FORM = re.compile(r"\s*(accuracy|acr|abstained|smoothed-accuracy)(?::([0-9.]+))?\s*(>=|<=|>|<)\s*([0-9.eE+-]+)\s*")


@dataclass(frozen=True)
class Requirement:
    """A metric, for accuracy at a radius, and the limit that it must keep."""

    text: str
    metric: str
    radius: float | None
    comparison: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError if the text is no requirement.

        >>> Requirement.parse("accuracy:0.5>=0.6").radius
        0.5
        """
        match = _FORM.fullmatch(text)
        if match is None or (match[1] == "accuracy") != (match[2] is not None):
            raise ValueError(
                "expected a requirement like accuracy:0.5>=0.6, acr>=0.4, abstained<=0.1 or smoothed-accuracy>=0.7, "
                f"got {text!r}"
            )
        radius = None if match[2] is None else float(match[2])
        return cls(text, match[1], radius, match[3], float(match[4]))

    @property
    def needs_labels(self) -> bool:
        return self.metric != "abstained"

    def value(self, result: "Certificates", labels: "NDArray[np.int64] | None") -> float:
        """What the metric is; ValueError where it needs labels and there are none."""
        if labels is None and self.needs_labels:
            raise ValueError(f"expected labels to check {self.text!r}, got data without labels")
        if self.metric == "accuracy":
            return float(result.certified_accuracy(labels, self.radius))  # type: ignore[arg-type]
        if self.metric == "acr":
            return result.average_certified_radius(labels)  # type: ignore[arg-type]
        if self.metric == "abstained":
            return result.abstention_rate
        return result.smoothed_accuracy(labels)  # type: ignore[arg-type]

    def kept_by(self, value: float) -> bool:
        """Whether a value keeps the limit."""
        return bool(_COMPARE[self.comparison](value, self.limit))
