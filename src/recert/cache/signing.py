"""Signed caches: an Ed25519 signature over the manifest, which names every part by its hash."""

import os
import stat
from dataclasses import replace
from pathlib import Path

from recert.cache import keys, limits
from recert.cache.cache import Cache
from recert.cache.checking import Findings, examine
from recert.cache.keys import create_key
from recert.cache.manifest import MANIFEST, SIGNATURE
from recert.cache.signatures import LARGEST_SERIAL, Signature, check_signed, signature_at
from recert.errors import CorruptCache, UntrustedCache
from recert.storage import Directory

__all__ = ["check_signature", "create_key", "examine_signed", "is_signed", "sign", "signature_of"]


def sign(store: str | os.PathLike[str], key_file: Path, *, serial: int | None = None) -> list[str]:
    """Sign a sound, complete cache; the signature is a file beside the manifest. Returns warnings, one line each.

    Its serial is one more than that of the signature there, if the same key made it, unless a larger one is given. Whatever
    changes the manifest (more inputs, more samples, another alpha) makes the signature invalid: sign again.
    """
    key = keys.private_key(key_file)
    directory = Directory(store)
    # Locked from the check to the signature: what is signed is what was checked.
    with Cache.locked(store):
        found = examine(store)
        problems = [*found.problems, *found.unnamed]
        if problems:
            raise CorruptCache(
                f"expected a sound and complete cache to sign, got: {problems[0]}; run certify again first"
            )
        manifest = directory.read(MANIFEST, limits.MANIFEST_BYTES)
        there = signature_at(directory)
        # A serial is taken from a signature of ours only: anyone may write a huge one into the file.
        least = there.serial + 1 if there is not None and there.is_by(key.public_key(), manifest) else 1
        serial = least if serial is None else serial
        if not least <= serial < LARGEST_SERIAL:
            raise ValueError(
                f"expected a serial from {least} up to {LARGEST_SERIAL - 1}, got {serial}; signatures count up"
            )
        directory.write(SIGNATURE, Signature.make(manifest, serial, key).to_bytes())
    open_to = stat.S_IMODE(os.stat(key_file).st_mode) & 0o077
    return [f"{key_file} can be read by others; do: chmod 600 {key_file}"] if open_to else []


def check_signature(store: str | os.PathLike[str], public_key_file: Path, *, least_serial: int = 0) -> list[str]:
    """What is wrong with a signed cache, one line each; an empty list: all of it is what the key's owner signed."""
    return list(examine_signed(store, public_key_file, least_serial=least_serial).problems)


def examine_signed(store: str | os.PathLike[str], public_key_file: Path, *, least_serial: int = 0) -> Findings:
    """What was checked in a cache, its signature first, and what is wrong. A part that is not named is not signed."""
    key = keys.public_key(public_key_file)
    directory = Directory(store)
    names = directory.names()
    if MANIFEST not in names:
        raise FileNotFoundError(f"expected a cache with a {MANIFEST} at {directory}, got {len(names)} other files")
    try:
        manifest = directory.read(MANIFEST, limits.MANIFEST_BYTES)
        signature = check_signed(directory, manifest, key, least_serial=least_serial)
    except UntrustedCache as error:
        return Findings(problems=(str(error),))
    found = examine(store)
    return replace(
        found,
        problems=(*found.problems, *(f"{line}, so that it is not signed" for line in found.unnamed)),
        unnamed=(),
        checked=(f"signature: by this key, {signature.described}", *found.checked),
        not_checked=tuple(line for line in found.not_checked if not line.startswith("signature")),
    )


def is_signed(store: str | os.PathLike[str]) -> bool:
    """Whether there is a signature, good or bad."""
    return SIGNATURE in Directory(store).names()


def signature_of(store: str | os.PathLike[str]) -> Signature | None:
    """The signature of a cache, good or bad; None if there is none."""
    return signature_at(Directory(store))
