"""Is a cache what its model says? A random sample of its votes is drawn again and compared."""

from recert.auditing.result import Audit, Verdict
from recert.auditing.verb import audit

__all__ = ["Audit", "Verdict", "audit"]
