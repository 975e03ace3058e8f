"""A certified model with everything that its certificates rest on, in one file; and whether such a file holds."""

from recert.bundles.audit import AuditInputs
from recert.bundles.checking import Check, check
from recert.bundles.writing import bundle

__all__ = ["AuditInputs", "Check", "bundle", "check"]
