"""What is claimed: outcomes, certificates in columns, and the step from counts of votes to claims. Pure, no torch."""

from recert.certificates.certificate import Certificate
from recert.certificates.certificates import Certificates
from recert.certificates.claims import Claims, certified, claim_from_bounds, claim_one_sided, claim_two_sided
from recert.certificates.outcome import Outcome
from recert.certificates.settings import Settings, Together

__all__ = [
    "Certificate",
    "Certificates",
    "Claims",
    "Outcome",
    "Settings",
    "Together",
    "certified",
    "claim_from_bounds",
    "claim_one_sided",
    "claim_two_sided",
]
