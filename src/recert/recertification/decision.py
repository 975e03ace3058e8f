"""Re-certification at a radius: inputs decided one by one from the cache, with as few replays as it takes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recert.cache import Cache, Manifest
from recert.certificates import Certificates, Settings
from recert.certification import check_settings
from recert.recertification.looks import PendingLook
from recert.recertification.registry import method_named
from recert.recertification.task import Task
from recert.sampling import ProgressCallback, VoteSource, check_unchanged
from recert.sequential import Enough, Question, Replays, checked_radii, class_alone, result_of
from recert.votes import SelectionCounts

METHOD = "sequential-replays"


def check_alone(*, method: object, plan: object, looks: object) -> None:
    """ValueError for what means nothing where inputs are decided one by one."""
    given = [
        name
        for name, value, usual in (
            ("method", getattr(method, "name", method), "auto"),
            ("plan", plan, None),
            ("looks", looks, None),
        )
        if value != usual
    ]
    if given:
        raise ValueError(
            f"expected no {given[0]} with at=..., where inputs are decided one by one, however often one looks; leave it out, or leave at out"
        )


@dataclass(frozen=True)
class Decision:
    """What is asked: radii in ascending order, the error of a claim, and the most forward passes of an input."""

    radii: NDArray[np.float64]
    samples: int
    alpha: float
    certificate: str

    @classmethod
    def of(
        cls, manifest: Manifest, at: float | Sequence[float], samples: int, alpha: float, certificate: str | None
    ) -> Self:
        certificate = certificate or manifest.certificate
        check_settings(samples, 1, alpha, certificate, smallest=1)
        radii = checked_radii(at)
        class_alone(manifest.noise, float(radii[-1]))  # an error if the noise cannot show such a radius
        return cls(radii, int(samples), alpha, certificate)

    def made(
        self, source: VoteSource, cache: Cache, family: int, enough: Enough | None, progress: ProgressCallback | None
    ) -> Certificates:
        """Certificates of the changed model, with the look recorded."""
        task = self.task(source, cache, family, progress)
        # The same look for any number of samples: to go on costs no error.
        asked = {"method": METHOD, "certificate": self.certificate, "at": self.radii.tolist(), "alpha": self.alpha}
        look = PendingLook(task.cache, source.identity, task.terms.samples, asked, family=family)
        settings = replace(self._settings(task), family=family)
        tally = self.tally(task)
        question = Question(self.radii, self.alpha, self.samples)
        result = result_of(
            tally, question, source, task.positions, settings, task.terms.noise, enough, progress, votes_of_a_row=task.terms.samples
        )  # fmt: skip
        check_unchanged(source)
        return task.for_every_input(look.recorded(result))

    def task(self, source: VoteSource, cache: Cache, family: int = 1, progress: ProgressCallback | None = None) -> Task:
        """The changed model, and the cache for its inputs."""
        return Task.of(
            source, cache.about(source.digests), method_named("series"), samples=self.samples, alpha=self.alpha,
            certificate=self.certificate, objective=None, family=family, progress=progress,
        )  # fmt: skip

    def tally(self, task: Task) -> Replays:
        """What will be counted of every row, with nothing counted yet."""
        return Replays(
            SelectionCounts(task.selection.counts), task.cached_counts, task.cached_votes, task.terms.noise, self.radii,
            size=task.terms.samples, alpha=self.alpha, runner_up=self.certificate == "two-sided",
        )  # fmt: skip

    def _settings(self, task: Task) -> Settings:
        cached = task.cache.settings(method=METHOD, certificate=self.certificate, alpha=self.alpha)
        return replace(
            cached, cache_numerics=cached.numerics, samples=self.samples, model=asdict(task.source.identity), numerics=task.source.numerics,
            at=tuple(self.radii.tolist()), claims=0,
        )  # fmt: skip
