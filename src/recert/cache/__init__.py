"""The store of votes: every vote that was drawn, and what it takes to use it again. Only this package touches its files."""

from recert.cache.cache import Cache
from recert.cache.manifest import Manifest
from recert.cache.merging import merge

__all__ = ["Cache", "Manifest", "merge"]
