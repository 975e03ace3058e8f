"""Stores whose last put was cut in half: behind a URL a put may be cut, and its half then lies under the full name."""

import hashlib
import warnings

from recert.cache import limits, strict_json
from recert.cache.manifest import MANIFEST, Manifest
from recert.cache.parts import PREFIX, SUFFIX, is_part
from recert.storage import Directory

PREVIOUS = "_manifest.previous.json"


def read_manifest(directory: Directory) -> Manifest:
    """The manifest as it is; CorruptCache if it is not whole."""
    return Manifest.from_json(directory.read(MANIFEST, limits.MANIFEST_BYTES))


def last_good_manifest(directory: Directory) -> Manifest | None:
    """The manifest, or the one before it if its put was cut; None if there was none before."""
    names = directory.names()
    if MANIFEST not in names:
        return None
    data = directory.read(MANIFEST, limits.MANIFEST_BYTES)
    if not _is_cut(data):
        return Manifest.from_json(data)
    previous = directory.read(PREVIOUS, limits.MANIFEST_BYTES) if PREVIOUS in names else b""
    if not _is_cut(previous):
        warnings.warn(f"{MANIFEST} of {directory} is cut off; the one before it is used: {PREVIOUS}", stacklevel=4)
        return Manifest.from_json(previous)
    # The first manifest comes before the first part: with neither, there was no vote yet. On a local disk nothing is ever cut.
    if directory.local is None and not set(names) - {MANIFEST, PREVIOUS}:
        warnings.warn(f"{MANIFEST} of {directory} is cut off, and there are no votes; it is begun anew", stacklevel=4)
        return None
    return Manifest.from_json(data)  # says what is wrong


def has_cut_manifest(directory: Directory) -> bool:
    """Whether a put of a manifest was begun here and never finished. A local manifest is renamed into place, so never cut."""
    cut = directory.local is None and MANIFEST in directory.names()
    return cut and _is_cut(directory.read(MANIFEST, limits.MANIFEST_BYTES))


def put_manifest(directory: Directory, manifest: Manifest) -> bool:
    """Write the manifest unless it is there already. Behind a URL the last good one is kept beside it, first."""
    names, data = directory.names(), manifest.to_json()
    there = directory.read(MANIFEST, limits.MANIFEST_BYTES) if MANIFEST in names else None
    if there == data:
        return False
    if directory.local is None and there is not None and not _is_cut(there):
        directory.write(PREVIOUS, there)
    directory.write(MANIFEST, data)
    return True


def cut_parts(directory: Directory, manifest: Manifest) -> list[str]:
    """Parts that the manifest does not name and whose bytes do not fit their names. One that it names was whole once: no cut."""
    unnamed = sorted(set(filter(is_part, directory.names())) - set(manifest.parts))
    return [name for name in unnamed if not _fits_its_name(name, directory.read(name, limits.PART_BYTES))]


def _fits_its_name(name: str, data: bytes) -> bool:
    return name == f"{PREFIX}{hashlib.sha256(data).hexdigest()}{SUFFIX}"


def _is_cut(data: bytes) -> bool:
    """Whether this is no JSON. A manifest that is JSON but not ours, such as one of a later version, is never passed over."""
    try:
        strict_json.parse(data)
    except ValueError:
        return True
    return False
