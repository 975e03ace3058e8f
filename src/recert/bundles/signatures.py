"""The signature of a bundle: over its list of contents, which has the hash of every other file."""

import base64
import re
from pathlib import Path

from recert.bundles.layout import CONTENTS, SIGNATURE
from recert.cache import keys
from recert.errors import UntrustedBundle

# Begins as no other text that recert signs: a signature of a cache never fits a bundle.
PURPOSE = b"recert bundle, form 1\n"
_FORM = re.compile(rb"recert-bundle ed25519\n([A-Za-z0-9+/]{86}==)\n")
LARGEST = 1000


def sign(folder: Path, key_file: Path) -> None:
    """Sign the contents of an unpacked bundle."""
    signed = keys.private_key(key_file).sign(PURPOSE + (folder / CONTENTS).read_bytes())
    (folder / SIGNATURE).write_bytes(b"recert-bundle ed25519\n" + base64.b64encode(signed) + b"\n")


def check_signature(folder: Path, public_key_file: Path) -> None:
    """UntrustedBundle unless the owner of the key signed these contents."""
    key = keys.public_key(public_key_file)
    where = folder / SIGNATURE
    if not where.is_file():
        raise UntrustedBundle(f"{SIGNATURE}: there is none; the bundle was never signed, or its signature was removed")
    found = _FORM.fullmatch(where.read_bytes()) if where.stat().st_size <= LARGEST else None
    # The last letter has bits that no signature uses: of all texts that are read as one, only that which is written counts.
    if found is None or base64.b64encode(base64.b64decode(found[1])) != found[1]:
        raise UntrustedBundle(f"{SIGNATURE}: it is not a signature of a bundle")
    try:
        key.verify(base64.b64decode(found[1]), PURPOSE + (folder / CONTENTS).read_bytes())
    except keys.cryptography("exceptions").InvalidSignature:
        raise UntrustedBundle(
            f"{SIGNATURE}: it does not fit; another key signed it, or {CONTENTS} was changed"
        ) from None
