"""What training makes small: cross-entropy, and that noisy copies of one input disagree."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

COPIES = 2
"""Noisy copies of each input where they are pulled together."""
ENTROPY_WEIGHT = 0.5
"""Of the entropy of the mean answer: eta of Jeong and Shin (2020)."""


@dataclass(frozen=True)
class Loss:
    """Mean cross-entropy over the copies, plus `consistency_term` of their answers if `consistency` is above 0."""

    consistency: float = 0.0
    label_smoothing: float = 0.0

    @property
    def copies(self) -> int:
        """How many noisy copies of each input the network sees in a step."""
        return COPIES if self.consistency > 0 else 1

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """`logits` are those of all first copies, then of all second ones, in the order of the labels."""
        repeated = labels.repeat(self.copies)
        loss = functional.cross_entropy(logits, repeated, label_smoothing=self.label_smoothing)
        if self.copies == 1:
            return loss
        return loss + consistency_term(logits.float(), self.copies, self.consistency)


def consistency_term(logits: Tensor, copies: int, strength: float) -> Tensor:
    """lambda E[KL(mean || copy)] + eta H(mean), averaged over inputs, of Jeong and Shin (2020).

    The mean is that of the copies' probabilities. The first term makes the answers under noise agree, the second makes them sure.
    """
    logs = torch.log_softmax(logits, 1).reshape(copies, -1, logits.shape[1])
    log_mean = torch.logsumexp(logs, 0) - torch.log(torch.tensor(float(copies), device=logits.device))
    mean = log_mean.exp()
    divergence = (mean * (log_mean - logs)).sum(2).mean(0)
    entropy = -(mean * log_mean).sum(1)
    return (strength * divergence + ENTROPY_WEIGHT * entropy).mean()
