"""Signatures: what they cover, what breaks them, and keys that are not keys."""

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from recert import Cache
from recert.cache import signing
from recert.errors import CorruptCache
from tests.cache.stores import forge, make, rewrite_manifest

pytest.importorskip("cryptography")


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path, Path]:
    store, key = tmp_path / "run", tmp_path / "key.pem"
    make(store, slice(0, 2))
    public = signing.create_key(key)
    assert signing.sign(store, key) == []
    return store, key, public


def test_a_signed_cache_is_accepted_and_the_key_is_private(signed: tuple[Path, Path, Path]) -> None:
    store, key, public = signed
    assert signing.check_signature(store, public) == []
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    assert b"PRIVATE" not in public.read_bytes()


def test_the_signature_is_plain_ed25519(signed: tuple[Path, Path, Path]) -> None:
    """Checked with nothing of ours: base64, the manifest's hash, and the key."""
    import base64
    import hashlib

    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    store, _, public = signed
    kind, serial, date, manifest, encoded = (store / "_manifest.sig").read_text().splitlines()
    key = load_pem_public_key(public.read_bytes())
    message = f"recert manifest, schema 1, with serial and date\n{serial}\n{date}\n{manifest}\n".encode()
    key.verify(base64.b64decode(encoded), message)  # type: ignore[union-attr,call-arg]
    assert (kind, serial) == ("ed25519-2", "serial 1")
    assert manifest == f"manifest {hashlib.sha256((store / '_manifest.json').read_bytes()).hexdigest()}"


def test_tampering_is_found(signed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    store, key, public = signed
    part = next(store.glob("part-*"))
    data = part.read_bytes()
    part.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert any("is damaged" in p for p in signing.check_signature(store, public))
    part.write_bytes(data)
    (store / f"part-{'0' * 64}.parquet").write_bytes(data)
    assert signing.check_signature(store, public)
    (store / f"part-{'0' * 64}.parquet").unlink()
    assert signing.check_signature(store, public) == []
    forge(store, 0.1)
    assert "does not fit" in signing.check_signature(store, public)[0]
    signing.sign(store, key)
    rewrite_manifest(store, lambda m: m | {"alpha": 0.5})
    assert "does not fit" in signing.check_signature(store, public)[0]


def test_an_honest_part_that_was_not_signed_is_found(signed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    store, _, public = signed
    make(tmp_path / "other", slice(2, 4))
    part = next((tmp_path / "other").glob("part-*"))
    (store / part.name).write_bytes(part.read_bytes())
    assert signing.check_signature(store, public) == [
        f"{part.name} is not named by _manifest.json, so that it is not signed"
    ]


def test_extending_breaks_it_and_reading_does_not(signed: tuple[Path, Path, Path]) -> None:
    store, key, public = signed
    make(store, slice(0, 2))  # nothing new: the manifest stays as it is
    assert signing.check_signature(store, public) == []
    make(store, slice(0, 3))
    assert "extended since; sign again" in signing.check_signature(store, public)[0]
    signing.sign(store, key)
    assert signing.check_signature(store, public) == []


def test_a_run_that_draws_nothing_keeps_the_signature_whatever_its_data_is_called(
    signed: tuple[Path, Path, Path],
) -> None:
    store, key, public = signed
    before = (store / "_manifest.json").read_bytes()
    with pytest.warns(UserWarning, match="signed and unchanged, so that it keeps the names"):
        make(store, slice(0, 2)).remember_names(data="another name")
    assert (store / "_manifest.json").read_bytes() == before
    assert signing.check_signature(store, public) == []
    with pytest.warns(UserWarning, match="its signature is void; sign again"):
        grown = make(store, slice(0, 3))
    grown.remember_names(data="another name")  # there is nothing left to keep
    assert Cache.open(store).manifest.names == {"model": "Sequential", "data": "another name"}
    signing.sign(store, key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(store, slice(0, 3)).remember_names(data="another name")
    assert signing.check_signature(store, public) == []


def test_another_key_and_broken_signatures(signed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    store, _, _ = signed
    other = signing.create_key(tmp_path / "other.pem")
    assert "another key" in signing.check_signature(store, other)[0]
    for content in (b"", b"ed25519", b"ed25519 !!!", b"rsa " + b"A" * 88, b"ed25519 " + b"A" * 88, b"\xff\x00"):
        (store / "_manifest.sig").write_bytes(content)
        assert len(signing.check_signature(store, other)) == 1
    (store / "_manifest.sig").write_bytes(b"A" * 5000)
    with pytest.raises(CorruptCache, match="at most 1,000 bytes"):
        signing.check_signature(store, other)
    (store / "_manifest.sig").unlink()
    assert "never signed" in signing.check_signature(store, other)[0]


def test_keys_that_are_not_ed25519(signed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    store, key, public = signed
    curve = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    other = tmp_path / "ec.pem"
    other.write_bytes(curve.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    with pytest.raises(ValueError, match=r"expected an Ed25519 private key in .* got E"):
        signing.sign(store, other)
    secret = ed25519.Ed25519PrivateKey.generate()
    other.write_bytes(secret.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"pw")))
    with pytest.raises(ValueError, match="without a password"):
        signing.sign(store, other)
    for content in (
        b"",
        b"not a key",
        public.read_bytes(),
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ):
        other.write_bytes(content)
        with pytest.raises(ValueError, match=r"expected an Ed25519 private key \(PEM\)"):
            signing.sign(store, other)
    with pytest.raises(ValueError, match=r"expected an Ed25519 public key \(PEM\)"):
        signing.check_signature(store, key)
    with pytest.raises(FileExistsError, match="never overwritten"):
        signing.create_key(key)


def test_a_key_file_that_is_not_there(signed: tuple[Path, Path, Path], tmp_path: Path) -> None:
    store, _, _ = signed
    with pytest.raises(FileNotFoundError, match=r"expected a file with a private key, got .*none\.pem, .* keygen"):
        signing.sign(store, tmp_path / "none.pem")


def test_an_open_key_file_is_warned_about(signed: tuple[Path, Path, Path]) -> None:
    store, key, _ = signed
    key.chmod(0o644)
    assert "chmod 600" in signing.sign(store, key)[0]


def test_only_a_sound_and_complete_cache_is_signed(signed: tuple[Path, Path, Path]) -> None:
    store, key, _ = signed
    rewrite_manifest(store, lambda m: m | {"inputs": [*m["inputs"], "ab" * 32]})
    with pytest.raises(CorruptCache, match="lacks votes"):
        signing.sign(store, key)


def test_without_the_extra_the_error_names_it() -> None:
    program = (
        "import sys; sys.modules['cryptography.hazmat.primitives'] = None\n"
        "from pathlib import Path; from recert.cache import signing\n"
        "try: signing.create_key(Path('/nowhere/k'))\n"
        "except ImportError as error: sys.exit('[sign]' not in str(error))\nsys.exit(1)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
