"""Signed caches: an Ed25519 signature over the manifest, which names every part by its hash."""

import base64
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recert.cache import limits, parts
from recert.cache.cache import Cache
from recert.cache.manifest import MANIFEST, SIGNATURE, Manifest
from recert.errors import CorruptCache
from recert.extras import import_extra
from recert.storage import Directory

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PURPOSE = b"recert manifest, schema 1\n"  # so that a signature made for something else never fits
SIGNATURE_BYTES = 1000
KEY_BYTES = 10_000
ED25519, SERIALIZATION = "hazmat.primitives.asymmetric.ed25519", "hazmat.primitives.serialization"


def create_key(path: Path) -> Path:
    """A new private key at `path`, readable by its owner only, and its public key at `path`.pub."""
    ed25519, serialization = _cryptography(ED25519), _cryptography(SERIALIZATION)
    key = ed25519.Ed25519PrivateKey.generate()
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    public = key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
    public_path = path.with_name(f"{path.name}.pub")
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, content, mode in ((path, private, 0o600), (public_path, public, 0o644)):
        # Created with its permissions, and only if it does not exist: there is no moment at which others can read the key.
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise FileExistsError(f"{file} exists already; a key is never overwritten") from None
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
    return public_path


def sign(store: str | os.PathLike[str], key_file: Path) -> list[str]:
    """Sign a sound, complete cache; the signature is a file beside the manifest. Returns warnings, one line each.

    Whatever changes the manifest (more inputs, more samples, another alpha) makes the signature invalid: sign again.
    """
    key = _private_key(key_file)
    directory = Directory(store)
    # Locked from the check to the signature: what is signed is what was checked.
    with Cache.locked(store):
        problems = _unsound(directory)
        if problems:
            raise CorruptCache(
                f"expected a sound and complete cache to sign, got: {problems[0]}; run certify again first"
            )
        signature = key.sign(PURPOSE + directory.read(MANIFEST, limits.MANIFEST_BYTES))
        directory.write(SIGNATURE, b"ed25519 " + base64.b64encode(signature) + b"\n")
    open_to = stat.S_IMODE(os.stat(key_file).st_mode) & 0o077
    return [f"{key_file} can be read by others; do: chmod 600 {key_file}"] if open_to else []


def check_signature(store: str | os.PathLike[str], public_key_file: Path) -> list[str]:
    """What is wrong with a signed cache, one line each; an empty list: all of it is what the key's owner signed."""
    key = _public_key(public_key_file)
    directory = Directory(store)
    names = directory.names()
    if MANIFEST not in names:
        raise FileNotFoundError(f"expected a cache with a {MANIFEST} at {directory}, got {len(names)} other files")
    if SIGNATURE not in names:
        return [f"there is no {SIGNATURE}: the cache was never signed; sign it with: recert cache sign"]
    form, _, encoded = directory.read(SIGNATURE, SIGNATURE_BYTES).strip().partition(b" ")
    try:
        signature = base64.b64decode(encoded, validate=True)
        if form != b"ed25519":
            raise ValueError
    except ValueError:
        return [f"{SIGNATURE} is not a signature: expected 'ed25519' and 64 bytes in base64"]
    try:
        key.verify(signature, PURPOSE + directory.read(MANIFEST, limits.MANIFEST_BYTES))
    except _cryptography("exceptions").InvalidSignature:
        return [
            f"{SIGNATURE} does not fit: another key signed it, or {MANIFEST} was changed or extended since; sign again"
        ]
    return _unsound(directory)


def is_signed(store: str | os.PathLike[str]) -> bool:
    """Whether there is a signature, good or bad."""
    return SIGNATURE in Directory(store).names()


def _unsound(directory: Directory) -> list[str]:
    """Problems of a cache, and parts that its manifest does not name: only what is named is signed."""
    problems = Cache.diagnose(directory.url)
    if problems:
        return problems
    named = Manifest.from_json(directory.read(MANIFEST, limits.MANIFEST_BYTES)).parts
    unnamed = sorted(set(filter(parts.is_part, directory.names())) - set(named))
    return [f"{name} is not named by {MANIFEST}" for name in unnamed]


def _private_key(path: Path) -> "Ed25519PrivateKey":
    ed25519, serialization = _cryptography(ED25519), _cryptography(SERIALIZATION)
    key: Ed25519PrivateKey = _key(
        path, ed25519.Ed25519PrivateKey, "private", lambda data: serialization.load_pem_private_key(data, None)
    )
    return key


def _public_key(path: Path) -> "Ed25519PublicKey":
    ed25519, serialization = _cryptography(ED25519), _cryptography(SERIALIZATION)
    key: Ed25519PublicKey = _key(path, ed25519.Ed25519PublicKey, "public", serialization.load_pem_public_key)
    return key


def _key(path: Path, kind: Any, word: str, load: Any) -> Any:
    unsupported = _cryptography("exceptions").UnsupportedAlgorithm
    with open(path, "rb") as file:
        data = file.read(KEY_BYTES)
    remedy = "make one with: recert cache keygen KEYFILE"
    try:
        key = load(data)
    except TypeError:
        raise ValueError(f"expected a key without a password in {path}, got an encrypted one; {remedy}") from None
    except (ValueError, unsupported):
        raise ValueError(f"expected an Ed25519 {word} key (PEM) in {path}, got something else; {remedy}") from None
    if not isinstance(key, kind):
        raise ValueError(f"expected an Ed25519 {word} key in {path}, got {type(key).__name__.strip('_')}; {remedy}")
    return key


def _cryptography(module: str) -> Any:
    return import_extra(f"cryptography.{module}", extra="sign", purpose="signing")
