"""A function that is asked for votes, mostly one that asks a service: how many rows at once, and what is done when it does not answer."""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from recert.errors import ServiceUnavailable, first_line

log = logging.getLogger(__name__)

USUAL_BATCH = 64
"""Rows of a request unless given: a few megabytes of images, which services take in one request; more saves hardly any overhead."""
LONGEST_WAIT = 60.0
"""Seconds between two attempts, at most: also where the service asks for more."""
OWN_FAILURES_IN_A_ROW = 8
"""After so many requests more than can be under way, all of them answered with 500, the service is taken to be down."""
PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""Status codes of HTTP after which the same request may succeed: time-outs, too many requests, a server that is busy or restarts."""
PASSING_NAMES = frozenset({"ConnectionError", "Timeout", "TimeoutException", "TransportError", "APIConnectionError"})
"""Base classes of what the usual HTTP libraries raise without an answer; they do not derive from Python's own."""


def passes(error: BaseException) -> bool:
    """Whether an error may be gone when the same is asked again: no connection, a time-out, a service that is busy.

    >>> passes(ConnectionResetError()), passes(TimeoutError()), passes(ValueError("wrong shape"))
    (True, True, False)
    """
    status = _status(error)
    if status is not None:
        return status in PASSING_STATUS
    if isinstance(error, ConnectionError | TimeoutError) or isinstance(getattr(error, "reason", None), OSError):
        return True
    return not PASSING_NAMES.isdisjoint(kind.__name__ for kind in type(error).__mro__)


@dataclass(frozen=True)
class Remote:
    """A function from a batch to logits or labels that asks a service, and how it is asked: `recert.certify(Remote(function), ...)`.

    A request has at most `batch_size` rows, and no more than are needed. At most `in_flight` requests run at a time, each in a thread
    of its own: with more than one the function must allow that. A request that raises an error that passes (`passes`; by
    default no connection, a time-out, HTTP 408, 425, 429, 500, 502, 503, 504, 529) is sent again up to `retries` times, after `wait`
    seconds, then twice as long each time, but never more than a minute, or after what `Retry-After` says. Any other error is final: the
    input is named at the end, and the others go on. When several requests in a row have failed for good, the service is taken to be
    down, and ServiceUnavailable ends the run; what was drawn is kept where votes are kept.

    Functions that are not wrapped are treated alike, with one request at a time.
    """

    function: Callable[[Tensor], Any]
    retries: int = 5
    in_flight: int = 4
    batch_size: int = USUAL_BATCH
    wait: float = 1.0
    passes: Callable[[BaseException], bool] = passes

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(
                f"expected a function from a batch to logits or labels, got {type(self.function).__name__}"
            )
        for name, smallest in (("retries", 0), ("in_flight", 1), ("batch_size", 1)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < smallest:
                raise ValueError(f"expected {name} as a whole number of at least {smallest}, got {number!r}")
        if not 0 <= self.wait <= LONGEST_WAIT:
            raise ValueError(f"expected a wait from 0 to {LONGEST_WAIT:g} seconds, got {self.wait!r}")

    def __call__(self, batch: Tensor) -> Any:
        """One request, tried again as long as its errors pass."""
        return Requests(self).ask(batch)


class Requests:
    """Sends batches to a function, and counts what was sent. Several threads may ask at the same time."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.rows, self.sent, self.failures = 0, 0, 0
        """Rows and requests that were sent, every attempt counted, and requests in a row that failed for good."""
        self.down = False
        self._draws = 0
        self._answered = False
        self._stopped = threading.Event()
        self._counting = threading.Lock()

    def ask(self, batch: Tensor) -> Any:
        """The answer of the function; after errors that pass, asked again."""
        stopped = self._stopped  # of the draw that wants it: the next one has another
        for attempt in range(self.remote.retries + 1):
            with self._counting:
                self.rows, self.sent = self.rows + len(batch), self.sent + 1
            try:
                answer = self.remote.function(batch)
            except Exception as error:
                if not self.remote.passes(error) or stopped.is_set():
                    raise
                if attempt == self.remote.retries:
                    self._failed(error)
                    raise
                self._wait(attempt, error, stopped)
                if stopped.is_set():
                    raise
            else:
                with self._counting:
                    self.failures, self._answered, self.down = 0, True, False
                return answer
        raise AssertionError("the last attempt returns or raises")

    def begin(self) -> None:
        """A draw begins, maybe within another one."""
        self._draws += 1
        if self._draws == 1:
            self._stopped = threading.Event()

    def end(self) -> None:
        """A draw has ended. After the last one no request waits any longer to be sent again."""
        # Votes are asked for again while others are drawn: that is a draw within another one, whose requests go on.
        self._draws -= 1
        if not self._draws:
            self._stopped.set()

    def _failed(self, error: Exception) -> None:
        with self._counting:
            self.failures += 1
            # All requests that were under way may be about one input on which the service fails: that is not being down. Nor are
            # failures of the service's own program (500), which may be about some inputs that are neighbours. Of a service that has not
            # answered yet there was one request, the probe's, which is then made without that input.
            more = OWN_FAILURES_IN_A_ROW if _status(error) == 500 else 1
            self.down = self.failures > (self.remote.in_flight + more if self._answered else 1)
        if self.down:
            raise ServiceUnavailable(
                f"the function raised {first_line(error)}, {self.remote.retries + 1} times each for {self.failures} requests in a row; what "
                "was drawn is kept where votes are kept: do the same again when the service answers"
            ) from error

    def _wait(self, attempt: int, error: Exception, stopped: threading.Event) -> None:
        # Between half of it and all of it, by the system's generator: requests that failed together do not come back together.
        seconds = min(self.remote.wait * 2**attempt, LONGEST_WAIT) * random.SystemRandom().uniform(0.5, 1.0)
        seconds = max(seconds, min(_asked_to_wait(error), LONGEST_WAIT))
        log.warning(
            "%s: asked again in %.1f s (%d of %d)", first_line(error), seconds, attempt + 1, self.remote.retries
        )
        stopped.wait(seconds)


def _status(error: BaseException) -> int | None:
    """The status code of HTTP that an error of any of the usual libraries carries."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # as the error of an AWS client has it
        metadata = response.get("ResponseMetadata")
        found = [metadata.get("HTTPStatusCode")] if isinstance(metadata, dict) else []
    else:
        found = [
            getattr(thing, name, None) for thing in (error, response) for name in ("status_code", "status", "code")
        ]
    return next((code for code in found if isinstance(code, int) and 100 <= code < 600), None)


def _asked_to_wait(error: BaseException) -> float:
    """What the header Retry-After says, in seconds; 0 if there is none, or a date."""
    for thing in (error, getattr(error, "response", None)):
        headers = getattr(thing, "headers", None)
        try:
            return max(0.0, float(headers.get("Retry-After")))  # type: ignore[union-attr]
        except (AttributeError, TypeError, ValueError):
            continue
    return 0.0
