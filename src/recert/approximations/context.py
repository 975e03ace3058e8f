"""What an approximation is given beside the model, and where it records what it did."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from recert.approximations.calibration import Calibration
from recert.approximations.layers import LayerPatterns


@dataclass
class Context:
    """What the caller passed to `approximate`, and what will be written into its result."""

    spec: str
    calibration: Calibration | None = None
    example_input: Tensor | None = None
    description: str = ""
    """One line: what is computed in which type. Replace it when the registered one is not exact enough."""
    facts: dict[str, str] = field(default_factory=dict)
    """Anything worth recording; it ends up in `Approximation.facts`."""

    layers: LayerPatterns | None = None
    """Which layers it is limited to by name; all if None."""

    def chosen(self, layers: Sequence[str]) -> frozenset[str]:
        """Which of these layers are meant, by their names in the model; what was left alone is recorded."""
        if self.layers is None:
            return frozenset(layers)
        found = self.layers.chosen(layers, self.spec)
        self.facts["limited_to"] = f"{self.layers}: {len(found)} of {len(layers)} layers, {', '.join(sorted(found))}"
        return found

    def required_calibration(self) -> Calibration:
        """The calibration, or an error that says how to make one."""
        if self.calibration is None:
            raise ValueError(
                f"expected calibration inputs for {self.spec}, got none: its activation scales are measured on noisy "
                "training inputs; pass calibration=Calibration(training_inputs, noise=recert.Gaussian(...))"
            )
        return self.calibration
