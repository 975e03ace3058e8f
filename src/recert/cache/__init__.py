"""What certifying leaves behind: every vote, and what it takes to use them again. The only room that touches its files."""

from recert.cache.cache import Cache
from recert.cache.manifest import Manifest
from recert.cache.merging import merge

__all__ = ["Cache", "Manifest", "merge"]
