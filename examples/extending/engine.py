"""An engine of your own: batches run in a thread while this one writes votes. python examples/extending/engine.py

An engine opens a source of votes. It may draw them wherever it likes; they must be the votes that the engine "local" draws, bit for
bit, and come in the order of the works.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import recert
from recert import open_source
from recert.sampling import ProgressCallback


class ThreadSource:
    """The votes of a source, drawn in a thread, one chunk ahead of whoever asks for them."""

    def __init__(self, source: recert.VoteSource, thread: ThreadPoolExecutor) -> None:
        self._source, self._thread = source, thread
        self.classes, self.identity, self.digests = source.classes, source.identity, source.digests
        self.input_shape, self.streams = source.input_shape, source.streams
        self.noise, self.seed = source.noise, source.seed

    @property
    def numerics(self) -> recert.Numerics:
        """What the votes were drawn with so far: asked of the source each time, since batches shrink when memory runs out."""
        return self._source.numerics

    def draw(
        self, works: Sequence[recert.Work], task: str, progress: ProgressCallback | None
    ) -> Iterator[recert.VoteChunk]:
        chunks = self._source.draw(works, task, progress)  # progress is then called in the thread
        ahead = self._thread.submit(next, chunks, None)
        while (chunk := ahead.result()) is not None:  # raises here what was raised there
            ahead = self._thread.submit(next, chunks, None)
            yield chunk


@contextmanager
def open_thread(model: Any, inputs: Any, *, execution: recert.Execution, **about: Any) -> Iterator[recert.VoteSource]:
    """A source for as long as the run takes. `about` holds noise, seed, classes and identity."""
    with ThreadPoolExecutor(1, thread_name_prefix="votes") as thread:
        source = open_source(model, inputs, batch_size=execution.batch_size, device=execution.device, **about)
        yield ThreadSource(source, thread)


recert.register_engine("thread", open_thread)


def main() -> None:
    from recert.data import load_data
    from recert.models import load_model

    model, data = load_model("digits").model, load_data("digits", count=20)
    threaded, local = (
        recert.certify(
            model, data.inputs, noise=recert.Gaussian(0.5), samples=2_000, execution=recert.Execution(engine=engine)
        )
        for engine in ("thread", "local")
    )
    same = all((threaded.votes(digest) == local.votes(digest)).all() for digest in local.digests)
    print(f"the votes of both engines are {'the same' if same else 'different'}")
    print(threaded.certificates.guarantee)


if __name__ == "__main__":
    main()
