"""The data behind results, found by the content of the inputs: labels, positions, names of classes, pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recert.data import Dataset
from recert.errors import UnknownInputs
from recert.noise import input_digest
from recert.report.results import Result
from recert.report.thumbnails import Sprite, make_sprite


@dataclass(frozen=True)
class Pictures:
    """What a page shows of the data beside labels."""

    data: str
    inputs: NDArray[np.float32]
    rows: NDArray[np.int64]
    """Where in `inputs` each input of the results is."""
    classes: tuple[str, ...] | None

    def sprite(self, chosen: NDArray[np.int64]) -> Sprite | None:
        """Thumbnails of some of the inputs of the results."""
        return make_sprite(self.inputs[self.rows[chosen]])


def add_data(results: Sequence[Result], data: Dataset) -> tuple[list[Result], Pictures]:
    """The results with labels and positions of the data, and pictures of their inputs. Results are about the same inputs."""
    rows = _rows_of(results[0].certificates.input, data)
    labels = None if data.labels is None else data.labels[rows]
    known = [replace(r, labels=r.labels if labels is None else labels, positions=data.indices[rows]) for r in results]
    return known, Pictures(data.name, data.inputs, rows, data.classes)


def _rows_of(digests: NDArray[np.object_], data: Dataset) -> NDArray[np.int64]:
    """Which row of the data each input is."""
    # By content, not by position: results may be of every k-th input, of a shard, or in another order.
    place = {input_digest(values): row for row, values in enumerate(data.inputs)}
    unknown = [digest for digest in digests if digest not in place]
    if unknown:
        raise UnknownInputs(
            f"{len(unknown)} of the {len(digests)} inputs of the results are not in {data.name} ({unknown[0][:12]}, ...); "
            "give the --data and --split that were certified"
        )
    return np.array([place[digest] for digest in digests], dtype=np.int64)
