"""`Smoothed`: the smoothed classifier itself, for answering requests: it predicts or abstains, and says a radius if asked to."""

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recert import bounds
from recert.certificates import claim_one_sided, claim_two_sided
from recert.certification import check_settings
from recert.noise import Noise, Stream, checked_noise, checked_seed, input_digest, noise_key
from recert.sampling.inputs import check_noise_fits, checked_inputs
from recert.sampling.network import Network
from recert.sampling.requests import probe_for_requests, request_counts

ABSTAINED = -1
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """One row per request."""

    prediction: Ints
    """The class, or -1: the smoothed classifier abstains."""
    radius: NDArray[np.float64]
    """The radius within which the prediction is certified not to change; 0 where it abstains, nan where it was not asked for."""
    votes: Ints
    """Votes for the class with most of them, of `samples`."""
    samples: int


class Smoothed(nn.Module):
    """The smoothed version of a model, for requests: `smoothed(batch)` is a class for every row, or -1 where it abstains.

    Every request costs `samples` forward passes, in batches over all requests of a call. With probability at least 1 - alpha, over
    the noise and for each request on its own, the class that is returned is the most probable one under noise (PREDICT of Cohen et
    al., 2019). `Smoothed.answers(batch, radius=True)` certifies instead, with `selection_samples` votes more that choose the class: with the
    same probability the prediction is constant within the radius (`certify`).

    The noise of a request follows from the seed and from the request, so that the same request has the same answer. Without
    `seed` it is a secret number from the operating system, another in each object. With a seed that others know they can look, on
    their own machine and for as long as they like, for inputs whose answer is one of the wrong ones. See docs/deploying.md.

    A model in eval mode whose rows do not influence each other is required; the first request of each shape looks at that.
    """

    def __init__(
        self,
        model: nn.Module,
        noise: Noise,
        samples: int = 1_000,
        alpha: float = 0.001,
        *,
        selection_samples: int = 100,
        certificate: str = "two-sided",
        seed: int | None = None,
        batch_size: int = 256,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise ValueError(f"expected a torch module to smooth, got {type(model).__name__}")
        check_settings(samples, selection_samples, alpha, certificate, smallest=1)
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"expected a batch size of at least 1, got {batch_size!r}")
        self.model, self.noise = model, checked_noise(noise)
        self.samples, self.selection_samples, self.alpha, self.certificate = (
            samples,
            selection_samples,
            alpha,
            certificate,
        )
        self.batch_size = batch_size
        self._seed = secrets.randbits(64) if seed is None else checked_seed(seed)
        self._probed: set[tuple[int, ...]] = set()
        self.training = model.training

    def forward(self, inputs: Tensor | NDArray[np.float32]) -> Tensor:
        """The class of every row, or -1, as integers on the CPU."""
        return torch.from_numpy(self.answers(inputs).prediction)

    def answers(self, inputs: Tensor | NDArray[np.float32], *, radius: bool = False) -> Answers:
        """Predictions with the votes behind them; with `radius`, certified ones."""
        rows = checked_inputs(inputs)
        check_noise_fits(rows, self.noise)
        if radius:
            check_settings(self.samples, self.selection_samples, self.alpha, self.certificate)
        network = Network(self.model)
        if rows.shape[1:] not in self._probed:
            probe_for_requests(network, rows, self.noise)
            self._probed.add(rows.shape[1:])
        keys = np.array([noise_key(self._seed, input_digest(row)) for row in rows], dtype=np.uint64)

        def counted(stream: Stream, samples: int) -> Ints:
            return request_counts(network, rows, keys, stream, samples, noise=self.noise, rows=self.batch_size)

        counts = counted(Stream.ESTIMATION, self.samples)
        if not radius:
            return self._predicted(counts)
        # Other votes choose the class than those that bound it: the same would favour the class that they chose.
        return self._certified(counts, counted(Stream.SELECTION, self.selection_samples).argmax(axis=1))

    def _predicted(self, counts: Ints) -> Answers:
        ranked = np.sort(counts, axis=1)
        certain = bounds.two_sided_p_value(ranked[:, -1], ranked[:, -2]) <= self.alpha
        prediction = np.where(certain, counts.argmax(axis=1), ABSTAINED)
        return Answers(prediction, np.full(len(counts), np.nan), ranked[:, -1], self.samples)

    def _certified(self, counts: Ints, classes: Ints) -> Answers:
        at = np.arange(len(counts))
        votes, rivals = counts[at, classes], counts.copy()
        rivals[at, classes] = 0
        given: Any = (self.samples, self.alpha, self.noise)
        if self.certificate == "two-sided":
            claims = claim_two_sided(classes, votes, rivals.max(axis=1), *given)
        else:
            claims = claim_one_sided(classes, votes, *given)
        return Answers(claims.prediction, np.where(claims.prediction >= 0, claims.radius, 0.0), votes, self.samples)

    def extra_repr(self) -> str:
        return f"{self.noise.spec}, samples={self.samples}, alpha={self.alpha:g}, certificate={self.certificate}"
