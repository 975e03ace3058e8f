"""Image files to arrays, many at a time: in several processes where there are enough of them."""

import io
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from recert.data.dataset import UnusableData, unit_range

FEWEST = 2_000
"""Images for a process: starting one takes as long as decoding some hundreds."""
MOST_PROCESSES = 8


def decoded(files: Sequence[bytes], side: int) -> NDArray[np.float32]:
    """Colour images (count, 3, side, side) in [0, 1]; grey ones are made colour. Files of another size are refused."""
    processes = min(MOST_PROCESSES, os.cpu_count() or 1, len(files) // FEWEST)
    images = _in_processes(files, side, processes) if processes > 1 else decoded_here(files, side)
    return unit_range(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def decoded_here(files: Sequence[bytes], side: int) -> NDArray[np.uint8]:
    """As bytes (count, side, side, 3)."""
    from PIL import Image

    images = np.empty((len(files), side, side, 3), np.uint8)
    for place, content in enumerate(files):
        try:
            with Image.open(io.BytesIO(content)) as image:
                pixels = np.asarray(image.convert("RGB"))
        except Exception as error:  # every decoder has its own errors
            raise UnusableData(
                f"expected an image, got {len(content)} bytes that are none ({error}); unpack the data again"
            ) from None
        if pixels.shape != (side, side, 3):
            raise UnusableData(
                f"expected images of {side} x {side} pixels, got {pixels.shape[1]} x {pixels.shape[0]}; is this the right data set?"
            )
        images[place] = pixels
    return images


def _in_processes(files: Sequence[bytes], side: int, processes: int) -> NDArray[np.uint8]:
    """Workers are commands with pipes: they need no guard in the script of the user, and no copy of what this process holds."""
    parts = np.array_split(np.arange(len(files)), processes)
    command = [sys.executable, "-c", "from recert.data.decoding import serve; serve()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    workers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) for _ in parts]
    try:
        for worker, part in zip(workers, parts, strict=True):
            _send(_pipe(worker.stdin), [files[i] for i in part], side)
        images = [_received(worker, len(part), side) for worker, part in zip(workers, parts, strict=True)]
    except OSError:  # a worker that could not start, or was ended
        return decoded_here(files, side)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            _pipe(worker.stdout).close()
    return np.concatenate(images)


def _send(pipe: IO[bytes], files: Sequence[bytes], side: int) -> None:
    pipe.write(struct.pack("<qq", len(files), side))
    for content in files:
        pipe.write(struct.pack("<q", len(content)))
        pipe.write(content)
    pipe.close()


def _received(worker: "subprocess.Popen[bytes]", count: int, side: int) -> NDArray[np.uint8]:
    content = _pipe(worker.stdout).read()
    size = count * side * side * 3
    if len(content) != size:
        raise UnusableData(content.decode(errors="replace") or "a process that decodes images was ended; try again")
    return np.frombuffer(content, np.uint8).reshape(count, side, side, 3)


def _pipe(pipe: Any) -> IO[bytes]:
    assert pipe is not None
    return pipe  # type: ignore[no-any-return]


def serve() -> None:
    """A worker: image files on stdin, pixels or the words of an error on stdout."""
    source = sys.stdin.buffer
    count, side = struct.unpack("<qq", source.read(16))
    files = [source.read(struct.unpack("<q", source.read(8))[0]) for _ in range(count)]
    try:
        sys.stdout.buffer.write(decoded_here(files, side).tobytes())
    except UnusableData as error:
        sys.stdout.buffer.write(str(error).encode())
