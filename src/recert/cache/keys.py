"""Ed25519 keys, in files of PEM."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recert.extras import import_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_BYTES = 10_000
ED25519, SERIALIZATION = "hazmat.primitives.asymmetric.ed25519", "hazmat.primitives.serialization"


def create_key(path: Path) -> Path:
    """A new private key at `path`, readable by its owner only, and its public key at `path`.pub."""
    ed25519, serialization = cryptography(ED25519), cryptography(SERIALIZATION)
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


def private_key(path: Path) -> "Ed25519PrivateKey":
    """The private key in a file; ValueError if there is none, or one with a password."""
    ed25519, serialization = cryptography(ED25519), cryptography(SERIALIZATION)
    key: Ed25519PrivateKey = _key(
        path, ed25519.Ed25519PrivateKey, "private", lambda data: serialization.load_pem_private_key(data, None)
    )
    return key


def public_key(path: Path) -> "Ed25519PublicKey":
    """The public key in a file; ValueError if there is none."""
    ed25519, serialization = cryptography(ED25519), cryptography(SERIALIZATION)
    key: Ed25519PublicKey = _key(path, ed25519.Ed25519PublicKey, "public", serialization.load_pem_public_key)
    return key


def _key(path: Path, kind: Any, word: str, load: Any) -> Any:
    unsupported = cryptography("exceptions").UnsupportedAlgorithm
    remedy = "make one with: recert cache keygen KEYFILE"
    try:
        with open(path, "rb") as file:
            data = file.read(KEY_BYTES)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"expected a file with a {word} key, got {path}, which does not exist; {remedy}"
        ) from None
    try:
        key = load(data)
    except TypeError:
        raise ValueError(f"expected a key without a password in {path}, got an encrypted one; {remedy}") from None
    except (ValueError, unsupported):
        raise ValueError(f"expected an Ed25519 {word} key (PEM) in {path}, got something else; {remedy}") from None
    if not isinstance(key, kind):
        raise ValueError(f"expected an Ed25519 {word} key in {path}, got {type(key).__name__.strip('_')}; {remedy}")
    return key


def cryptography(module: str) -> Any:
    """A module of the optional package; MissingExtra says how to install it."""
    return import_extra(f"cryptography.{module}", extra="sign", purpose="signing")
