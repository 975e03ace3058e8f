"""stdout and stderr may be closed, full, or pipes that nobody reads any more: work that is done must not be lost by it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


def open_closed() -> None:
    """Put the null device in place of streams that the caller closed (`>&-`)."""
    # Python has None for such a stream, and the next file that is opened, perhaps a part of a store, would get its number.
    if sys.stdout is None:
        sys.stdout = _null(1)
    if sys.stderr is None:
        sys.stderr = _null(2)


@contextmanager
def printing() -> Iterator[None]:
    """What is printed inside reaches stdout now, while an error can still be told; a reader who has left is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
    except OSError as error:
        discard(sys.stdout)
        raise OSError(
            f"expected to print on stdout, got {error.strerror}; files that were asked for are written"
        ) from error


def discard(stream: TextIO) -> None:
    """Send a stream that cannot be written to the null device, with what it holds: at exit Python would try it again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _null(number: int) -> TextIO:
    null = os.open(os.devnull, os.O_RDWR)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    return open(number, "w", encoding="utf-8", closefd=False)
