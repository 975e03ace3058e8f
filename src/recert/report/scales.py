"""From values to places on paper: scales and their ticks. Pure."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high`, evenly or by their logarithm, to places from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) for v in (self.low, self.high, value)) if self.logarithmic else (self.low, self.high, value)  # fmt: skip
        return round(self.start + (at - low) / (high - low) * (self.end - self.start), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels."""
        values = log_ticks(self.low, self.high) if self.logarithmic else even_ticks(self.low, self.high)
        return [(self(value), tick_label(value)) for value in values]


def even_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two values.

    >>> even_ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten; where they are few, their multiples by 2 and 5, too.

    >>> log_ticks(80, 12_000)
    [100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0]
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    units = (1,) if math.log10(high / low) > 3 else (1, 2, 5)
    values = [unit * 10.0**exponent for exponent in exponents for unit in units]
    return [value for value in values if low <= value <= high]


def tick_label(value: float) -> str:
    """Short: 0.25, 10k, 2M.

    >>> [tick_label(v) for v in (0, 0.25, 500, 10_000, 2_500_000)]
    ['0', '0.25', '500', '10k', '2.5M']
    """
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:g}"
