"""What must hold of a cache before it is used, and what to do where it does not."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recert.errors import IncompleteCache, UnknownInputs

if TYPE_CHECKING:
    from recert.cache.cache import Cache


def require_promise(cache: "Cache") -> None:
    """IncompleteCache unless every input has, or is still to get, all votes that certify it."""
    if not cache.promises_votes:
        raise IncompleteCache(
            f"expected a cache with all votes of its inputs, got {cache!r}; run certify with this store to draw the others, or "
            "read its votes with CachingSource.from_store"
        )
    if waiting := cache.to_be_planned():
        raise IncompleteCache(
            f"{len(waiting)} inputs lack selection votes, by which the other votes are shared out (plan {cache.manifest.plan}); run the "
            "same certify again: it continues where it stopped"
        )


def require_equal_votes(cache: "Cache", purpose: str) -> None:
    """IncompleteCache unless every input has as many estimation votes."""
    m = cache.manifest
    if m.plan:
        raise IncompleteCache(
            f"expected a cache with equally many votes of every input {purpose}, got one whose votes were shared out (plan {m.plan}, "
            f"{m.samples} in the mean); run certify again with this store and plan='uniform' (--plan uniform), which draws what is "
            "missing, or use another store"
        )


def require_inputs(cache: "Cache", digests: Sequence[str]) -> None:
    """UnknownInputs, which names them, unless the cache has all of these."""
    known = set(cache.manifest.inputs)
    unknown = [i for i, digest in enumerate(digests) if digest not in known]
    if unknown:
        named = ", ".join(map(str, unknown[:10])) + (", ..." if len(unknown) > 10 else "")
        whose = "all of them: this cache was made for other data" if len(unknown) == len(digests) else f"inputs {named}"
        raise UnknownInputs(
            f"{len(unknown)} of {len(digests)} inputs are not in the cache ({whose}); certify them first, on the same store"
        )
