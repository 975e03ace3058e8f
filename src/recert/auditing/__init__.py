"""Does a cache hold the votes of its model? A random sample of its votes is drawn again and compared."""

from recert.auditing.audit import audit
from recert.auditing.result import Audit, Verdict

__all__ = ["Audit", "Verdict", "audit"]
