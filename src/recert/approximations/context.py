"""What an approximation is given beside the model, and where it records what it did."""

from dataclasses import dataclass, field

from torch import Tensor

from recert.approximations.calibration import Calibration


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

    def required_calibration(self) -> Calibration:
        """The calibration, or an error that says how to make one."""
        if self.calibration is None:
            raise ValueError(
                f"expected calibration inputs for {self.spec}, got none: its activation scales are measured on noisy "
                "training inputs; pass calibration=Calibration(training_inputs, noise=recert.Gaussian(...))"
            )
        return self.calibration
