"""What was certified and how, and the guarantee in one sentence."""

from dataclasses import asdict, dataclass
from typing import Any

from recert.models.numerics import Numerics
from recert.noise import parse_noise
from recert.version import __version__

_ROUNDING = 1e-9  # relative to an error: sums of errors are themselves rounded


@dataclass(frozen=True)
class Together:
    """What holds for all re-certifications from one cache so far, by the union bound (`recert.cache.looks`)."""

    looks: int
    """Re-certifications of this model that share an input with this one, itself among them."""
    looks_error: float
    """That an input's claims of all of these hold together has an error of at most this."""
    models: int
    models_error: float
    """The same for the claims about all models."""
    families_error: float
    """The same for all claims about this model, of all inputs, where there are families."""


@dataclass(frozen=True)
class Settings:
    """What was certified, how, and with which probability of error."""

    method: str
    certificate: str
    alpha: float
    error: float
    """Probability that an input's claim is wrong, as far as it is proved. Equals alpha, but for the paper's irs."""
    noise: str
    seed: int
    samples: int
    selection_samples: int
    model: dict[str, str]
    numerics: Numerics
    cache_numerics: Numerics | None = None
    """Of a re-certification: what the original's votes were drawn with."""
    looks: tuple[int, ...] = ()
    """The sizes at which the cached votes were looked at."""
    family: int = 1
    """Claims that are to hold together: alpha and error are what each of them was given of the whole."""
    claims: int = 0
    """Claims that the family has come to count, where inputs were added to a store later: more than alpha was divided by."""
    planned: tuple[int, ...] = ()
    """The budgets of all looks that were planned together, if there are several: each has its share of alpha."""
    together: Together | None = None
    proxy: dict[str, str] | None = None
    """Of a certification by proxy: the faster network that drew most votes. The claims are about `model`, not about it."""
    at: tuple[float, ...] = ()
    """The radii that were asked for, where each input was drawn until it was decided: `samples` is the most votes of one."""
    plan: str = ""
    """Of a certification whose votes were shared out by a plan: which one. `samples` is then the mean."""
    same_models: tuple[str, ...] = ()
    """Digests of other models that drew some of the votes, where somebody has stated that they are the same as the cache's."""
    drawn: int | None = None
    """Of a re-certification with votes that were kept before: how many of its forward passes were made now. None: all of them."""

    remarks: tuple[str, ...] = ()
    """What else there is to know of a re-certification: where samples were the limit, say. The guarantee does not depend on it."""
    rows_sent: int | None = None
    """Of a function: how many rows it was given for this result, what checks and attempts that failed took included."""
    version: str = __version__
    """Of recert, when it was made: another one may plan otherwise. Empty in files from before it was recorded."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as results carry them: numerics in their text form."""
        cached = None if self.cache_numerics is None else self.cache_numerics.to_text()
        return {**asdict(self), "numerics": self.numerics.to_text(), "cache_numerics": cached}

    @property
    def _sizes(self) -> int:
        """At how many sizes the votes were looked at: any of them may be the one that is reported."""
        return max(1, len(self.looks))

    @property
    def guarantee(self) -> str:
        """What holds, in a sentence, and what must be added to it."""
        if self.method == "predict":
            return (
                f"For each input on its own, with probability at least {_holding(self.error)} over the noise drawn, the class returned, "
                f"if any, is the most probable one ({self.noise}). Nothing is said about a radius."
            )
        text = (
            f"For each input on its own, with probability at least {_holding(self.error)} over the noise drawn, the smoothed "
            f"model's prediction is constant within the stated {self._norm}radius ({self.noise}, {self.method}, {self.certificate})."
        )
        if self.at:
            several = ", ".join(f"{radius:g}" for radius in self.at)
            which = (
                f"the largest of {several} that was shown" if len(self.at) > 1 else f"{several} where that was shown"
            )
            text += (
                f" It is {which}, and holds whenever one stops drawing: to go on with more samples costs no further error. Other claims "
                "from the same votes add theirs."
            )
        return text + self._of_family() + self._of_votes() + self._of_looks()

    @property
    def _norm(self) -> str:
        """The norm of the radii and a space; nothing for a family of noise that this process does not know."""
        try:
            return f"{parse_noise(self.noise).norm} "
        except ValueError:
            return ""

    def _of_family(self) -> str:
        claims = max(self.family, self.claims)
        if claims < 2:
            return ""
        # The union bound: the error of one claim times the number of claims, of sizes looked at, and of looks that were planned.
        error = claims * self._sizes * max(1, len(self.planned)) * self.error
        text = (
            f" Bonferroni: all {claims} claims of the family hold together with probability at least {_holding(error)}"
        )
        if claims > self.family:
            text += f"; alpha was divided by {self.family} only, before inputs were added"
        return text + "."

    def _of_votes(self) -> str:
        """What the votes were drawn with, and how often their number grew."""
        text = ""
        if self.plan:
            text += f" How many votes bound an input was fixed by votes that only choose (plan {self.plan}, {self.samples} in the mean)."
        if self.proxy:
            text += (
                f" Most votes are of a faster network ({self.proxy['made by']}); the claim is about the model itself."
            )
        mixed = (self.numerics if self.cache_numerics is None else self.cache_numerics).mixed
        if mixed:
            text += f" The cached votes were drawn with mixed numerics ({', '.join(mixed)}): this holds if they do not change votes."
        if self.same_models:
            text += (
                f" Votes of the cache are also of a model with other digests ({'; '.join(self.same_models)}), which is the same on "
                "somebody's word: this holds if it is."
            )
        if len(self.looks) > 1:
            text += (
                f" The votes were looked at before, at another size (n = {', '.join(map(str, self.looks))}): each look holds on "
                f"its own; that all hold together has error at most {_at_most(self._sizes * self.error)}."
            )
        return text

    def _of_looks(self) -> str:
        """How often models were re-certified from the same votes."""
        text, known = "", self.together
        if self.planned:
            text += (
                f" One of {len(self.planned)} looks that were planned, with budgets of {', '.join(map(str, self.planned))}: an "
                f"input's claims of all of them hold together with probability at least "
                f"{_holding(len(self.planned) * self._sizes * self.error)}."
            )
        if known is None:
            return text
        # Looks that were all planned together are stated above; sums of errors differ from multiples in their last digits.
        if known.looks > 1 and known.looks_error > len(self.planned) * self._sizes * self.error * (1 + 1e-9):
            asked = f"was re-certified {known.looks} times from this cache"
            if self.method == "sequential":
                asked = f"was asked {known.looks} such questions by the votes of this store"
            text += (
                f" This model {asked}: each claim holds on its own if its settings "
                f"were not chosen by what the others gave; that an input's claims of all {known.looks} hold together has error "
                f"at most {_at_most(known.looks_error)}."
            )
            if self.family > 1:
                text += (
                    f" That all claims of all these families hold has error at most {_at_most(known.families_error)}."
                )
        if known.models > 1:
            text += (
                f" {known.models} models were re-certified from this cache: that an input's claims about all of them hold "
                f"together has error at most {_at_most(known.models_error)}."
            )
        return text


def _holding(error: float) -> str:
    """The probability that is left when so much may fail, in as many digits as it takes not to state more."""
    # "0.999" for an error of .00100001 would promise too much: digits are added until what is written is not above what holds.
    left = max(0.0, 1 - error)
    texts = (f"{left:.{digits}g}" for digits in range(6, 18))
    return next((text for text in texts if float(text) <= left + _ROUNDING * error), repr(left))


def _at_most(error: float) -> str:
    """An error as a probability, in as many digits as it takes not to state less."""
    most = min(1.0, error)
    texts = (f"{most:.{digits}g}" for digits in range(6, 18))
    return next((text for text in texts if float(text) >= most * (1 - _ROUNDING)), repr(most))
