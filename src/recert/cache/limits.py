"""What a cache may ask for. Beyond this, a manifest is a mistake or an attack, and is refused before memory is spent on it."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recert.models.numerics import Numerics
from recert.noise import checked_noise, noise_with_spec
from recert.noise.keys import LARGEST_SAMPLE, LARGEST_SEED

if TYPE_CHECKING:
    from recert.cache.manifest import Manifest

MANIFEST_BYTES = 2**27  # about 70 bytes an input
PART_BYTES = 2**28  # parts are closed at 2**25 votes of one or two bytes
PART_VALUES = 2**27  # values of one column of a part, once unpacked
PART_ROWS = 2**16
INPUTS = 2**20
CLASSES = 2**16 - 1  # votes are at most uint16, and the largest value is an invalid vote (for nobody)
COUNTS = 2**28  # inputs x classes: 2 GiB of counts per stream
ELEMENTS = 2**34  # one 32-bit counter word numbers blocks of four elements
DIMENSIONS = 32
BATCH = 2**20
TEXT = 4096
ENTRIES = 64

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"part-[0-9a-f]{64}\.parquet")


def check(m: "Manifest") -> None:
    """ValueError unless every field is of its type and within the limits."""
    for name, smallest, largest in (
        ("seed", 0, LARGEST_SEED),
        ("classes", 2, CLASSES),
        ("samples", 0, LARGEST_SAMPLE),
        ("selection_samples", 0, LARGEST_SAMPLE),
        ("family", 1, 2**63 - 1),
        ("claims", 0, 2**63 - 1),
    ):
        _whole(name, getattr(m, name), smallest, largest)
    if (m.samples == 0) != (m.selection_samples == 0):  # both are 0 in a store that promises no complete votes
        raise ValueError(
            f"expected samples and selection_samples both 0 or both at least 1, got {m.samples} and {m.selection_samples}"
        )
    alpha: Any = m.alpha
    if isinstance(alpha, bool) or not isinstance(alpha, float | np.floating) or not 0 < alpha < 1:
        raise ValueError(f"expected alpha between 0 and 1, got {_shown(alpha)}")
    if m.certificate not in ("one-sided", "two-sided"):
        raise ValueError(f"expected certificate one-sided or two-sided, got {_shown(m.certificate)}")
    _texts("model", {"weights": m.model.weights, "structure": m.model.structure}, printable=True)
    _texts("noise", {"noise": checked_noise(m.noise).spec}, printable=True)
    if noise_with_spec(m.noise.spec) != m.noise:  # what is written must be read back as the same noise
        raise ValueError(f"expected a noise that its spec gives back, got {m.noise!r} with spec {m.noise.spec!r}")
    numerics: Any = m.numerics
    if not isinstance(numerics, Numerics):
        raise ValueError(f"expected numerics as a Numerics, got {_shown(numerics)}; make one with Numerics.from_text")
    check_numerics(numerics.to_text())
    # Replays are drawn at the recorded batch size: a huge one would exhaust the memory of the machine that re-certifies.
    for size in numerics.values.get("batch_size", ()):
        if size.isdecimal() and (len(size) > 9 or int(size) > BATCH):
            raise ValueError(f"expected a batch size of at most {BATCH}, got {_shown(size)}")
    _texts("names", m.names, printable=False)  # untrusted, escaped wherever it is shown
    _list("input_shape", m.input_shape, DIMENSIONS)
    for length in m.input_shape:
        _whole("input_shape", length, 1, ELEMENTS)
    if math.prod(m.input_shape) > ELEMENTS:
        raise ValueError(f"expected inputs of at most {ELEMENTS} elements, got shape {tuple(m.input_shape)}")
    _named("inputs", m.inputs, _DIGEST, INPUTS)
    if len(m.inputs) * m.classes > COUNTS:
        raise ValueError(
            f"expected inputs x classes of at most {COUNTS:,}, got {len(m.inputs):,} x {m.classes:,}; use several stores"
        )
    _check_planned(m)
    _named("parts", m.parts, _PART, INPUTS)
    _list("looks", m.looks, 10_000)
    for look in m.looks:
        _whole("looks", look, 1, LARGEST_SAMPLE)
    if list(m.looks) != sorted(m.looks) or (m.looks and m.looks[-1] != m.samples):
        raise ValueError(f"expected looks that grow up to samples = {m.samples}, got {list(m.looks)[:10]}")


def _check_planned(m: "Manifest") -> None:
    _texts("plan", {"plan": m.plan}, printable=True)
    _list("planned", m.planned, len(m.inputs) if m.plan else 0)
    for votes in m.planned:
        _whole("planned", votes, -1, LARGEST_SAMPLE)


def check_numerics(texts: Any) -> None:
    """ValueError unless these are numerics in the form of a file: a few short texts by name."""
    _texts("numerics", texts, printable=True)


def _whole(name: str, value: Any, smallest: int, largest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not smallest <= value <= largest:
        raise ValueError(f"expected {name} as a whole number from {smallest} to {largest}, got {_shown(value)}")


def _list(name: str, value: Any, longest: int) -> None:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > longest:
        size = f"{len(value):,}" if isinstance(value, Sequence) else type(value).__name__
        raise ValueError(f"expected {name} as a list of at most {longest:,}, got {size}")


def _named(name: str, values: Any, form: re.Pattern[str], longest: int) -> None:
    _list(name, values, longest)
    wrong = next((v for v in values if not (isinstance(v, str) and form.fullmatch(v))), None)
    if wrong is not None:
        raise ValueError(f"expected {name} that look like {form.pattern}, got {_shown(wrong)}")
    if len(set(values)) < len(values):
        raise ValueError(f"expected every one of {name} once, got one twice")


def _texts(name: str, values: Any, *, printable: bool) -> None:
    if not isinstance(values, Mapping) or len(values) > ENTRIES:
        raise ValueError(f"expected {name} as at most {ENTRIES} texts, got {_shown(values)}")
    for text in (*values, *values.values()):
        if not isinstance(text, str) or len(text) > TEXT or (printable and not text.isprintable()):
            raise ValueError(f"expected {name} as printable text of at most {TEXT} characters, got {_shown(text)}")


def _shown(value: Any) -> str:
    """A value in a message: short, and without control characters that a terminal would act on."""
    # The digits of a huge number take quadratic time, and Python refuses more than 4,300 of them.
    text = ascii(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    return text if len(text) <= 60 else f"{text[:60]}..."
