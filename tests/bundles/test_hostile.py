"""Bundles made by somebody who means harm: an error of ours, and nothing is written outside or run."""

import io
import json
import os
import pickle
import random
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import recert
from recert.bundles.layout import CONTENTS
from recert.bundles.unpacking import unpack
from recert.errors import CorruptBundle, RecertError
from recert.models.cards import file_digest
from tests.bundles.conftest import listed_anew
from tests.test_cli import recert as command


class Harm:
    """Unpickling it would make a file."""

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (os.environ["HARM"], "w")


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where harm would show: files beside the bundle, in the folder of temporary files, and in the current one."""
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("HARM", str(tmp_path / "harm"))
    yield tmp_path
    assert not (tmp_path / "harm").exists()
    assert list((tmp_path / "here").iterdir()) == []
    assert [each for each in (tmp_path / "temporary").iterdir() if "torch" not in each.name] == []


def zipped(folder: Path, change: Callable[[zipfile.ZipFile], None] = lambda archive: None) -> Path:
    target = folder.parent / "hostile.recert"
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder).as_posix())
        change(archive)
    return target


def link(archive: zipfile.ZipFile) -> None:
    info = zipfile.ZipInfo("model/link.onnx")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(info, "/etc/passwd")


def packed(archive: zipfile.ZipFile) -> None:
    archive.writestr("cache/part-0.parquet", bytes(50_000_000), compress_type=zipfile.ZIP_DEFLATED)


def twice(archive: zipfile.ZipFile) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("report.html", "another")


NAMES = [
    "../harm", "/harm", "model/../../harm", "..\\harm.json", "C:/harm.json", "model/../harm.onnx", "model//harm.onnx", "model/a/b.onnx",
    "cache/.lock", "model/harm.pkl", "model/harm.pt", "harm.py", "model/harm.onnx.py", "model/har\x00m.onnx", "model/..onnx", "result/\x1b[2J.parquet",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_out_or_are_of_other_files(name: str, copied: Path, outside: Path) -> None:
    bundle = zipped(copied, lambda archive: archive.writestr(name, "harm"))
    with pytest.raises(CorruptBundle, match=r"expected names of a bundle.s files|none or is damaged") as error:
        recert.check(bundle)
    assert "\x1b" not in str(error.value)
    assert command("check", str(bundle)).returncode == 1


@pytest.mark.parametrize(
    ("change", "message"), [(link, "a link"), (packed, "packed or encrypted"), (twice, "report.html twice")]
)
def test_links_bombs_and_repeats(change: Callable[[zipfile.ZipFile], None], message: str, copied: Path) -> None:
    with pytest.raises(CorruptBundle, match=message):
        recert.check(zipped(copied, change))


def test_entries_that_share_their_bytes(copied: Path) -> None:
    """A bomb without packing: many entries of the directory that point at the same large file."""
    with zipfile.ZipFile(zipped(copied)) as archive:
        entries = archive.infolist()
        large = max(entries, key=lambda info: info.file_size)
    body = io.BytesIO(zipped(copied).read_bytes())
    with zipfile.ZipFile(body, "a") as archive:
        for i in range(200):
            again = zipfile.ZipInfo(f"cache/part-{i}.parquet")
            again.header_offset, again.file_size, again.compress_size, again.CRC = (
                large.header_offset, large.file_size, large.file_size, large.CRC,
            )  # fmt: skip
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
        archive._didModify = True  # type: ignore[attr-defined]
    bundle = copied.parent / "overlapping.recert"
    bundle.write_bytes(body.getvalue())
    with pytest.raises(CorruptBundle, match="more bytes than it has"):
        recert.check(bundle)


def test_files_that_only_others_would_find(copied: Path) -> None:
    """Programs that unpack a zip from its front do not look at its directory."""
    bundle, hidden = zipped(copied), io.BytesIO()
    with zipfile.ZipFile(hidden, "w") as archive:
        archive.writestr("model/winner.onnx", "another")
    entry = hidden.getvalue()[: hidden.getvalue().index(b"PK\x01\x02")]
    whole = bundle.read_bytes()
    with zipfile.ZipFile(bundle) as archive:
        directory = archive.start_dir
    # In front of all files, and between the last of them and the directory, whose place is then another.
    where = len(whole) - 6
    moved = struct.pack("<I", directory + len(entry))
    behind = whole[:directory] + entry + whole[directory:where] + moved + whole[where + 4 :]
    assert recert.check(bundle).holds
    for data in (entry + whole, behind):
        bundle.write_bytes(data)
        with zipfile.ZipFile(bundle) as archive:
            assert archive.read("model/winner.onnx") == (copied / "model" / "winner.onnx").read_bytes()
        with pytest.raises(CorruptBundle, match="something could be hidden"):
            recert.check(bundle)


@pytest.mark.parametrize("kind", ["onnx", "int8", "int8-twin"])
def test_graphs_that_are_none(kind: str, copied: Path) -> None:
    model, card = copied / "model" / "winner.onnx", copied / "model" / "winner.onnx.json"
    for content in (b"", b"\xff\x00", b"\x08\x08"):
        model.write_bytes(content)
        said = json.loads(card.read_text())
        card.write_text(json.dumps({**said, "kind": kind, "sha256": file_digest(model)}))
        listed_anew(copied)
        assert "winner.onnx: it does not load: expected a" in recert.check(copied).problems[0]


def test_links_in_a_folder(copied: Path, outside: Path) -> None:
    (outside / "secret.onnx").write_text("secret")
    for target, name in ((outside / "secret.onnx", "model/link.onnx"), (outside, "votes2")):
        (copied / name).symlink_to(target)
        with pytest.raises(CorruptBundle, match="a link"):
            recert.check(copied)
        (copied / name).unlink()
    model = copied / "model" / "winner.onnx"
    model.rename(outside / "elsewhere.onnx")
    model.symlink_to(outside / "elsewhere.onnx")
    with pytest.raises(CorruptBundle, match="a link"):
        recert.check(copied)
    model.unlink()
    os.mkfifo(model)
    with pytest.raises(CorruptBundle, match="a link or something else"):
        recert.check(copied)


@pytest.mark.parametrize(
    "name", ["model/winner.onnx", "model/winner.onnx.json", "result/winner.parquet", "cache/_manifest.json"]
)
def test_pickles_under_other_names_are_not_unpickled(name: str, copied: Path) -> None:
    (copied / name).write_bytes(pickle.dumps(Harm()))
    listed_anew(copied)
    found = recert.check(copied)
    assert any(name.partition("/")[2].removesuffix(".json") in line or "cache:" in line for line in found.problems), (
        found.problems
    )


def test_a_pickle_for_safetensors(copied: Path) -> None:
    """Under a name that is loaded with other code than graphs, with a card that says so."""
    for path in (copied / "model").iterdir():
        path.unlink()
    net = recert.load_model("digits").model
    model = copied / "model" / "winner.safetensors"
    recert.save_model(net, model)
    card = (copied / "model" / "winner.safetensors.json").read_text()
    before = file_digest(model)
    model.write_bytes(pickle.dumps(Harm()))
    (copied / "model" / "winner.safetensors.json").write_text(card.replace(before, file_digest(model)))
    listed_anew(copied, model="model/winner.safetensors")
    assert "not one" in recert.check(copied).problems[0]


def test_swapped_files(copied: Path) -> None:
    """Two parts of cache and votes exchanged, and hashes to fit."""
    cache, votes = (next((copied / folder).glob("part-*")) for folder in ("cache", "votes"))
    a, b = cache.read_bytes(), votes.read_bytes()
    cache.write_bytes(b)
    votes.write_bytes(a)
    assert len(recert.check(copied).problems) == 2
    listed_anew(copied)
    assert any(line.startswith("cache: ") for line in recert.check(copied).problems)


@pytest.mark.parametrize(
    "contents",
    [
        b"", b"[]", b"{}", b'{"form": "recert bundle 1"}', b"\xff", b"[" * 100_000, b'{"form": "recert bundle 1", "form": "x"}',
        pickle.dumps({"a": 1}),
    ],
)  # fmt: skip
def test_lists_of_contents_that_are_none(contents: bytes, copied: Path) -> None:
    (copied / CONTENTS).write_bytes(contents)
    with pytest.raises(CorruptBundle, match=CONTENTS):
        recert.check(copied)


def test_files_that_are_no_zip(copied: Path, outside: Path) -> None:
    whole = zipped(copied).read_bytes()
    for data in (b"", b"PK", whole[: len(whole) // 2], whole[100:], struct.pack("<I", 0x06054B50) * 10):
        (outside / "x.recert").write_bytes(data)
        with pytest.raises(CorruptBundle):
            recert.check(outside / "x.recert")


def test_any_flipped_byte_is_an_error_of_ours_or_a_problem_or_does_no_harm(copied: Path, outside: Path) -> None:
    """Bytes of the zip's own records, too: what is read is then still what was listed, or is refused."""
    whole = zipped(copied).read_bytes()
    draw, target = random.Random(0), outside / "x.recert"
    (outside / "unpacked").mkdir()
    for i in range(300):
        # Every other one near the end, where the zip has its directory.
        at = draw.randrange(len(whole)) if i % 2 else len(whole) - 1 - draw.randrange(1200)
        target.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :])
        folder = outside / "unpacked" / str(i)
        folder.mkdir()
        try:
            found = unpack(target, folder)
        except RecertError:
            continue
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert found.problems or len(files) == len(found.contents.files) + 1
