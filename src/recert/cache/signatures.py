"""The signature file of a cache: which manifest was signed, as which one in a row, and when."""

import base64
import hashlib
import os
import re
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from recert.cache import keys, limits
from recert.cache.manifest import MANIFEST, SIGNATURE, Manifest
from recert.cache.parts import is_part
from recert.errors import UntrustedCache
from recert.storage import Directory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE_BYTES = 1000
PUBLIC_KEY = "RECERT_PUBLIC_KEY"
LARGEST_SERIAL = 10**15
# Each form has its own first line, so that a signature made for something else, or for the other form, never fits.
FIRST_PURPOSE = b"recert manifest, schema 1\n"
PURPOSE = b"recert manifest, schema 1, with serial and date\n"
_FIRST_FORM = re.compile(rb"ed25519 ([A-Za-z0-9+/]{86}==)\n?")
_FORM = re.compile(
    rb"ed25519-2\n"
    rb"(serial ([1-9][0-9]{0,14})\ndate ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)\nmanifest ([0-9a-f]{64})\n)"
    rb"([A-Za-z0-9+/]{86}==)\n"
)


@dataclass(frozen=True)
class Signature:
    """What a signature file says. The first form has no serial (0), no date, and signs the manifest itself, not its hash."""

    signed: bytes
    serial: int
    date: str
    manifest: str

    @classmethod
    def parse(cls, data: bytes) -> "Signature | None":
        """The signature in a file; None if that is none."""
        if old := _FIRST_FORM.fullmatch(data):
            return cls(base64.b64decode(old[1]), 0, "", "")
        found = _FORM.fullmatch(data)
        if found is None:
            return None
        return cls(base64.b64decode(found[5]), int(found[2]), found[3].decode(), found[4].decode())

    @classmethod
    def make(cls, manifest: bytes, serial: int, key: "Ed25519PrivateKey") -> "Signature":
        """Sign a manifest, now."""
        date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        unsigned = cls(b"", serial, date, hashlib.sha256(manifest).hexdigest())
        return cls(key.sign(PURPOSE + unsigned.lines), serial, date, unsigned.manifest)

    @property
    def lines(self) -> bytes:
        """The lines that are signed, and that stand in the file."""
        return f"serial {self.serial}\ndate {self.date}\nmanifest {self.manifest}\n".encode()

    def to_bytes(self) -> bytes:
        return b"ed25519-2\n" + self.lines + base64.b64encode(self.signed) + b"\n"

    def is_by(self, key: "Ed25519PublicKey", manifest: bytes) -> bool:
        """Whether the key signed it. In the first form this can only be told with the manifest that was signed."""
        message = PURPOSE + self.lines if self.serial else FIRST_PURPOSE + manifest
        try:
            key.verify(self.signed, message)
        except keys.cryptography("exceptions").InvalidSignature:
            return False
        return True

    def is_about(self, manifest: bytes) -> bool:
        return not self.serial or hashlib.sha256(manifest).hexdigest() == self.manifest

    @property
    def described(self) -> str:
        if not self.serial:
            return "no serial and no date (the first form): any earlier signed state of the cache fits as well"
        return f"serial {self.serial}, {self.date}"


def signature_at(directory: Directory) -> Signature | None:
    """The signature of a cache, good or bad; None if there is none, or a file that is none."""
    if SIGNATURE not in directory.names():
        return None
    return Signature.parse(directory.read(SIGNATURE, SIGNATURE_BYTES))


def check_signed(directory: Directory, manifest: bytes, key: "Ed25519PublicKey", *, least_serial: int = 0) -> Signature:
    """The signature, by this key, of this manifest; UntrustedCache says what is wrong with it."""
    if SIGNATURE not in directory.names():
        raise UntrustedCache(
            f"there is no {SIGNATURE} in {directory}: the cache was never signed, or its signature was removed; have it signed "
            "with: recert cache sign"
        )
    signature = signature_at(directory)
    if signature is None:
        raise UntrustedCache(f"{SIGNATURE} is not a signature: expected ed25519-2 or ed25519, and 64 bytes in base64")
    if not signature.is_by(key, manifest):
        changed = "" if signature.serial else f", or {MANIFEST} was changed or extended since"
        raise UntrustedCache(f"{SIGNATURE} does not fit: another key signed it, or it was changed{changed}; sign again")
    if not signature.is_about(manifest):
        raise UntrustedCache(f"{SIGNATURE} does not fit: {MANIFEST} was changed or extended since; sign again")
    if signature.serial < least_serial:
        raise UntrustedCache(
            f"expected a signature of serial {least_serial} or later, got {signature.described}; an old state was put back, or is all "
            "there is: ask the signer"
        )
    return signature


def signed_manifest(directory: Directory, public_key: Path) -> Manifest:
    """The manifest, which this key signed; the parts that it names, and no others, are in the cache."""
    # One read: what is checked is what is used.
    data = directory.read(MANIFEST, limits.MANIFEST_BYTES)
    check_signed(directory, data, keys.public_key(public_key))
    manifest = Manifest.from_json(data)
    unnamed = sorted(set(filter(is_part, directory.names())) - set(manifest.parts))
    if unnamed:
        raise UntrustedCache(f"{unnamed[0]} in {directory} is not signed: {MANIFEST} does not name it; remove it")
    return manifest


def warn_if_not_signed(store: str | os.PathLike[str]) -> None:
    """Say that votes of a store are used which the configured key did not sign: whoever writes is not refused for it."""
    key = wanted_key(None)
    if key is None:
        return
    try:
        signed_manifest(Directory(store), key)
    except UntrustedCache as error:
        warnings.warn(
            f"votes that {os.fspath(store)} holds are used although the key that {PUBLIC_KEY} names did not sign them, since a run that goes on "
            f"may have drawn them: {error}",
            stacklevel=3,
        )


def wanted_key(public_key: str | os.PathLike[str] | None) -> Path | None:
    """The key that signatures are checked with: the one given, or the one that the environment names."""
    if public_key is not None:
        return Path(public_key)
    configured = os.environ.get(PUBLIC_KEY)
    if not configured:
        return None
    if not os.path.isfile(configured):
        raise FileNotFoundError(f"expected a public key (PEM) where {PUBLIC_KEY} says, {configured}, got none there")
    return Path(configured)
