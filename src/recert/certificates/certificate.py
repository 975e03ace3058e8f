"""The certificate of one input."""

from dataclasses import dataclass

from recert.certificates.outcome import Outcome


@dataclass(frozen=True)
class Certificate:
    """What is claimed about one input: a row of `Certificates`.

    `prediction` is -1 and `radius` 0 where nothing is claimed; `explanation` says why. `label` is None unless labels were joined.
    """

    input: str
    """SHA-256 of its shape and bytes."""
    index: int
    outcome: Outcome
    explanation: str
    prediction: int
    radius: float
    norm: str
    top_lower: float
    runner_up_upper: float
    samples: int
    method: str
    alpha: float
    forward_passes: int
    label: int | None = None

    @property
    def abstained(self) -> bool:
        """Whether nothing is claimed."""
        return self.outcome.abstained
