"""Whom a cache is believed: signatures that are asked for everywhere, old states that are put back, and what verify says it did not check."""

import base64
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recert import Cache, certify, recertify
from recert.cache import merge, signing
from recert.errors import CorruptCache, UntrustedCache
from tests.cache.stores import OPTIONS, forge, inputs, make, network
from tests.test_cli import recert as command

pytest.importorskip("cryptography")
SIGNATURE = "_manifest.sig"


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path, Path]:
    store, key = tmp_path / "run", tmp_path / "key.pem"
    make(store, slice(0, 2))
    public = signing.create_key(key)
    signing.sign(store, key)
    return store, key, public


def first_form(store: Path, key: Path) -> bytes:
    """A signature as earlier versions wrote it, made with nothing of ours."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private = load_pem_private_key(key.read_bytes(), None)
    message = b"recert manifest, schema 1\n" + (store / "_manifest.json").read_bytes()
    return b"ed25519 " + base64.b64encode(private.sign(message)) + b"\n"  # type: ignore[union-attr,call-arg]


def attacks(store: Path, public: Path) -> dict[str, Path]:
    """Copies of a signed store, each attacked."""
    copies = {name: store.parent / name for name in ("forged", "stripped", "extra", "other-key", "cut")}
    for copy in copies.values():
        shutil.copytree(store, copy)
    forge(copies["forged"], 0.5)
    (copies["stripped"] / SIGNATURE).unlink()
    make(store.parent / "more", slice(2, 3))
    part = next((store.parent / "more").glob("part-*"))
    shutil.copy(part, copies["extra"] / part.name)
    signing.create_key(store.parent / "mallory.pem")
    signing.sign(copies["other-key"], store.parent / "mallory.pem")
    # A manifest that is cut brings up the one before it, which nobody signed.
    shutil.copy(store / "_manifest.json", copies["cut"] / "_manifest.previous.json")
    (copies["cut"] / "_manifest.json").write_bytes(b"{")
    return copies


def test_a_key_in_the_environment_is_asked_for_by_everything_that_reads(
    signed: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _, public = signed
    copies = attacks(store, public)
    for copy in copies.values():  # without a key all of them are used
        if copy.name != "cut":
            Cache.open(copy)
    monkeypatch.setenv("RECERT_PUBLIC_KEY", str(public))
    assert Cache.open(store).verify() == []
    assert len(recertify(network(1), inputs(2), store, samples=50)) == 2
    for name, copy in copies.items():
        with pytest.raises(
            UntrustedCache, match={"stripped": "never signed, or", "extra": "is not signed"}.get(name, "does not fit")
        ):
            Cache.open(copy)
        with pytest.raises(UntrustedCache):
            recertify(network(1), inputs(2), copy, samples=50)
        with pytest.raises(UntrustedCache):
            merge(store.parent / "merged", [store, copy])
    assert len(merge(store.parent / "merged", [store]).digests) == 2  # what is written here cannot be signed yet
    with pytest.raises(UntrustedCache, match="never signed"):
        Cache.open(store.parent / "merged")


def test_writers_are_exempt_and_say_that_the_signature_is_void(
    signed: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key, public = signed
    monkeypatch.setenv("RECERT_PUBLIC_KEY", str(public))
    with pytest.warns(UserWarning, match="its signature is void; sign again"):
        certify(network(), inputs(3), **OPTIONS, store=store)
    with pytest.raises(UntrustedCache, match="extended since; sign again"):
        Cache.open(store)
    with pytest.warns(UserWarning, match="did not sign them, since a run that goes on may have drawn them"):
        certify(network(), inputs(3), **OPTIONS, store=store)
    signing.sign(store, key)
    Cache.open(store)


def test_a_key_that_is_not_there_is_an_error(signed: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    store, _, public = signed
    monkeypatch.setenv("RECERT_PUBLIC_KEY", str(store.parent / "nothing"))
    with pytest.raises(FileNotFoundError, match="where RECERT_PUBLIC_KEY says"):
        Cache.open(store)
    Cache.open(store, public_key=public)  # a key that is given comes first
    monkeypatch.setenv("RECERT_PUBLIC_KEY", "")
    (store / SIGNATURE).unlink()
    Cache.open(store)


@pytest.mark.parametrize(
    "arguments",
    [
        ["cache", "show", "{store}"],
        ["cache", "export", "{store}", "{store}/../out.csv"],
        ["cache", "audit", "{store}", "--model", "digits", "--data", "digits"],
        ["recertify", "--store", "{store}", "--model", "digits", "--data", "digits"],
        ["compare", "--store", "{store}", "--model", "digits", "--data", "digits"],
        ["select", "--store", "{store}", "--model", "digits", "--data", "digits", "--metric", "acr", "--tolerance", "1", "-c", "bf16"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)  # fmt: skip
def test_every_command_that_reads_takes_a_key(signed: tuple[Path, Path, Path], arguments: list[str]) -> None:
    store, _, public = signed
    forge(store, 0.5)
    run = command(*(each.format(store=store) for each in arguments), "--public-key", str(public))
    assert run.returncode == 1
    assert "_manifest.sig does not fit" in run.stderr


def test_an_old_state_that_is_put_back_is_refused_by_its_serial(signed: tuple[Path, Path, Path]) -> None:
    store, key, public = signed
    old = store.parent / "old"
    shutil.copytree(store, old)
    make(store, slice(0, 3))
    signing.sign(store, key)
    assert signing.check_signature(old, public) == []  # it was signed, once
    assert signing.check_signature(store, public, least_serial=2) == []
    (problem,) = signing.check_signature(old, public, least_serial=2)
    assert "expected a signature of serial 2 or later, got serial 1" in problem
    # The number alone cannot be changed, nor the date.
    whole = (old / SIGNATURE).read_bytes()
    for was, becomes in ((b"serial 1", b"serial 2"), (b"date 2", b"date 3")):
        (old / SIGNATURE).write_bytes(whole.replace(was, becomes))
        assert "another key signed it, or it was changed" in signing.check_signature(old, public)[0]


def test_the_date_is_that_of_signing(signed: tuple[Path, Path, Path]) -> None:
    found = signing.signature_of(signed[0])
    assert found is not None
    date = datetime.strptime(found.date, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - date) < timedelta(minutes=5)


def test_serials_count_up_and_are_taken_from_signatures_of_the_same_key_only(
    signed: tuple[Path, Path, Path],
) -> None:
    store, key, public = signed

    def serial() -> int:
        found = signing.signature_of(store)
        assert found is not None
        return found.serial

    signing.sign(store, key)
    assert serial() == 2
    signing.sign(store, key, serial=7)
    assert serial() == 7
    for wrong in (7, 0, -1, 10**15):
        with pytest.raises(ValueError, match="expected a serial from 8 up to"):
            signing.sign(store, key, serial=wrong)
    forged = re.sub(rb"serial \d+", b"serial 999999999999999", (store / SIGNATURE).read_bytes())
    (store / SIGNATURE).write_bytes(forged)
    signing.sign(store, key)
    assert serial() == 1
    assert signing.check_signature(store, public) == []


def test_signatures_of_the_first_form_hold_and_are_called_so(signed: tuple[Path, Path, Path]) -> None:
    store, key, public = signed
    (store / SIGNATURE).write_bytes(first_form(store, key))
    assert signing.check_signature(store, public) == []
    Cache.open(store, public_key=public)
    run = command("cache", "verify", str(store), "--public-key", str(public))
    assert run.returncode == 0
    assert "no serial and no date" in run.stderr
    assert "got no serial and no date" in signing.check_signature(store, public, least_serial=1)[0]
    make(store, slice(0, 3))
    assert "changed or extended since; sign again" in signing.check_signature(store, public)[0]
    signing.sign(store, key)
    assert signing.check_signature(store, public, least_serial=1) == []


def test_verify_says_what_it_checked_and_what_not(signed: tuple[Path, Path, Path]) -> None:
    """Votes that were forged consistently pass without a key, and the last lines say so."""
    store, _, public = signed
    copies = attacks(store, public)
    for name, about_signature in (
        ("forged", "not checked: signature: there is one, for which --public-key is needed"),
        ("stripped", "not checked: signature: there is none, so that whoever can write"),
    ):
        run = command("cache", "verify", str(copies[name]))
        lines = run.stderr.splitlines()
        assert (run.returncode, run.stdout) == (0, "")
        assert "sound" not in run.stderr
        assert "checked: parts: the hashes of 1, and their counts against their votes" in lines
        assert "checked: inputs: 2 have all their votes" in lines
        assert any(line.startswith(about_signature) for line in lines)
        assert any(line.startswith("not checked: votes: whether the model gave them") for line in lines)
    run = command("cache", "verify", str(store), "--public-key", str(public))
    assert run.returncode == 0
    assert re.search(r"^checked: signature: by this key, serial 1, 2\d{3}-\d\d-\d\dT", run.stderr, re.MULTILINE)
    assert "not checked: signature" not in run.stderr
    for copy in copies.values():
        assert command("cache", "verify", str(copy), "--public-key", str(public)).returncode == 1


def test_verify_names_parts_that_no_manifest_names(signed: tuple[Path, Path, Path]) -> None:
    store, _, public = signed
    extra = attacks(store, public)["extra"]
    run = command("cache", "verify", str(extra))
    assert re.search(
        r"part-\w{64}.parquet is not named by _manifest.json: a run was stopped, or somebody put it", run.stdout
    )
    assert "but 1 parts are not named" in run.stderr
    with pytest.raises(CorruptCache, match="is not named"):
        signing.sign(extra, store.parent / "mallory.pem")


def test_verify_with_a_least_serial(signed: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    store, _, public = signed
    assert "expected --public-key" in command("cache", "verify", str(store), "--least-serial", "1").stderr
    monkeypatch.setenv("RECERT_PUBLIC_KEY", str(public))
    assert command("cache", "verify", str(store), "--least-serial", "1").returncode == 0
    refused = command("cache", "verify", str(store), "--least-serial", "2")
    assert refused.returncode == 1
    assert "expected a signature of serial 2 or later" in refused.stdout
