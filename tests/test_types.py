"""What the type checker refuses: votes that claim, where a choice is made."""

from pathlib import Path

import pytest
from mypy import api

SOURCE = Path(__file__).parents[1] / "src"
PROGRAM = """
from recert.cache import Cache
from recert.noise import Stream
from recert.planning import Beliefs, Selection
from recert.recertification.method import Method, Terms
from recert.votes import SelectionCounts, Votes


def choose(cache: Cache, method: Method, cached: Votes, terms: Terms) -> None:
    Selection(cache.counts(Stream.ESTIMATION))  # refused
    Beliefs.from_votes(cache.counts(Stream.ESTIMATION))  # refused
    Beliefs.from_votes(Selection(cache.counts(Stream.ESTIMATION)))  # refused
    method.noises(cached, cached, 100, terms)  # refused
    selection = Selection(SelectionCounts(cache.counts(Stream.SELECTION)))
    Beliefs.from_votes(selection)
    method.noises(selection.of(0, 1), cached, 100, terms)
"""
# Large packages whose types decide nothing here: without them it takes seconds.
CONFIGURATION = f"""
[mypy]
strict = true
mypy_path = {SOURCE}
follow_imports = silent

[mypy-torch.*,scipy.*,numba.*,triton.*,pandas.*,pyarrow.*,fsspec.*,safetensors.*,sklearn.*]
follow_imports = skip
ignore_missing_imports = true
"""


def test_votes_that_claim_cannot_choose(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """A choice takes `SelectionCounts`, which plain counts are not: whoever makes them of others has to write so."""
    program, configuration = tmp_path / "program.py", tmp_path / "mypy.ini"
    program.write_text(PROGRAM)
    configuration.write_text(CONFIGURATION)
    cache = getattr(pytestconfig, "cache", None)
    kept = cache.mkdir("types") if cache else tmp_path  # what mypy found in numpy, for the next time
    found, failed, _ = api.run(["--config-file", str(configuration), "--cache-dir", str(kept), str(program)])
    errors = [line for line in found.splitlines() if ": error: " in line]
    refused = [i for i, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# refused")]
    assert not failed, failed
    assert [int(line.split(":")[1]) for line in errors] == refused, found
    assert all("[arg-type]" in line for line in errors), found
