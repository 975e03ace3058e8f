"""Errors of ours, each named by what the user can do about it. Wrong arguments are plain ValueErrors."""


class RecertError(Exception):
    """Base of every error that recert raises on purpose, wrong arguments (ValueError) aside."""


class MissingExtra(RecertError, ImportError):
    """An optional package is not installed: the message names it and says how to install it."""


class UnusableModel(RecertError):
    """The model cannot be certified as it is: the message says why and what to change."""


class ServiceUnavailable(RecertError):
    """A service behind a function does not answer, however often it is asked: do the same again later, it continues."""


class UnusableInputs(RecertError):
    """The network raised on some inputs; the votes of all others were drawn. `failures`: position to (digest, reason)."""

    def __init__(self, failures: dict[int, tuple[str, str]], inputs: int) -> None:
        named = [f"input {i} ({digest[:12]}): {why}" for i, (digest, why) in sorted(failures.items())]
        shown = "; ".join(named[:20]) + ("; ..." if len(named) > 20 else "")
        super().__init__(
            f"the network failed on {len(failures)} of {inputs} inputs: {shown}. What was drawn of the others is kept if there "
            "is a store: leave these inputs out, or repair the network and run the same command again"
        )
        self.failures = failures


class LostWorkers(RecertError):
    """There are no workers to draw with, or they do not compute alike: repair the cluster and run the same command again."""


class ContextMismatch(RecertError):
    """A cache belongs to another model, noise, seed or data: use the right pair, or another store."""

    def __init__(self, field: str, expected: object, got: object, remedy: str) -> None:
        super().__init__(f"the cache was made with {field} = {expected}, but here it is {got}; {remedy}")
        self.field = field


class UnknownInputs(RecertError):
    """Some inputs are not in the cache: certify them first."""


class IncompleteCache(RecertError):
    """Votes are still missing: run the same `certify` again, it continues where it stopped."""


class MissingVotes(RecertError):
    """A store is asked for votes that it does not hold, and nothing is drawn: draw them with the model, into the same store."""


class CorruptCache(RecertError):
    """A file of the cache is not what was written: restore it, or delete it and run `certify` again."""


class UntrustedCache(RecertError):
    """A cache is not what the owner of the given public key signed: get the signed one, or have it signed."""


class NotAResult(RecertError):
    """The file does not hold certificates: give what `-o FILE.parquet` or `to_parquet` wrote, or a cache."""


class CorruptBundle(RecertError):
    """A file is no bundle, or holds what none of ours does: get it anew from whoever made it, and do not use it."""


class UntrustedBundle(RecertError):
    """A bundle is not what the owner of the given public key signed: get the signed one."""


class StoreBusy(RecertError):
    """Another process is writing to this store: wait for it, or use another store."""


def first_line(error: Exception) -> str:
    """An error of someone else's code in one line."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0][:300]}"
