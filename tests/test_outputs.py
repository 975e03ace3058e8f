"""Outputs are whole or not there: a full disk or a kill leaves the old file as it was."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import recert
from recert.certificates import Certificates
from recert.cli import compare
from recert.figures.style import new_figure, paper_style, save
from recert.report import NotAResult, Result, read_result, write_result
from recert.storage import Directory, write_whole

VOTES = recert.StoredVotes(np.zeros((3, 400), dtype=int), selection=np.zeros((3, 100), dtype=int), classes=2)


def certificates() -> Certificates:
    return recert.certify(VOTES, None, noise=recert.Gaussian(0.5), samples=400, selection_samples=100).certificates


def draw(folder: Path) -> None:
    with paper_style():
        save(new_figure()[0], folder, "out")


WRITERS: dict[str, Callable[[Path], None]] = {
    "out.parquet": lambda path: certificates().to_parquet(path),
    "out.csv": lambda path: certificates().to_csv(path),
    "out.tsv": lambda path: certificates().to_tsv(path, [0, 0, 0]),
    "result.parquet": lambda path: write_result(Result("result", certificates()), path),
    "budgets.csv": lambda path: compare._write({"rows": [{"samples": 1}]}, path),
    "budgets.json": lambda path: compare._write({"rows": [{"samples": 1}]}, path),
    "out.pdf": lambda path: draw(path.parent),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_text("the old file")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        WRITERS[name](tmp_path / name)
    assert (tmp_path / name).read_text() == "the old file"
    assert os.listdir(tmp_path) == [name]


WRITES_IN_PLACE = {
    "storage.py": "writes beside and renames; into pipes and devices it writes directly",
    "cache/keys.py": "never replaces a file",
    "cli/streams.py": "stdout and stderr",
    "bundles/writing.py": "in a temporary folder, then beside and renamed",
    "bundles/signatures.py": "in a temporary folder",
    "bundles/unpacking.py": "in a temporary folder",
}
"""Modules that open a file to write it, and why an output is whole all the same."""


def test_every_other_module_leaves_writing_to_the_storage() -> None:
    """So no command or function can leave half of a text export."""
    source = Path(recert.__file__).parent
    direct = re.compile(
        r"""write_(text|bytes)\(|open\([^)]*["'](w|a|x|r\+)b?["']|\.tofile\(|np\.save|write_csv\((?!.*whole\))"""
    )
    found = {str(f.relative_to(source)) for f in source.rglob("*.py") if direct.search(f.read_text())}
    assert found - {"cache/keys.py"} == set(WRITES_IN_PLACE) - {"cache/keys.py"}


@pytest.mark.parametrize("name", ["out.csv", "out.tsv"])
def test_a_text_export_is_no_input_cut_or_whole(tmp_path: Path, name: str) -> None:
    """Nothing of ours reads one, so that a copy that was cut elsewhere cannot be taken for the whole."""
    path = tmp_path / name
    WRITERS[name](path)
    for text in (path.read_bytes(), path.read_bytes()[:-20]):
        path.write_bytes(text)
        for read in (Certificates.from_parquet, read_result, recert.Cache.open):
            with pytest.raises((NotAResult, OSError)):
                read(path)


def test_a_link_and_the_mode_of_a_file_stay(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_a_link_in_a_store_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("mine")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "manifest.json").symlink_to("../private")
    Directory(tmp_path / "store").write("manifest.json", b"new")
    assert (tmp_path / "private").read_text() == "mine"
    assert (tmp_path / "store" / "manifest.json").read_bytes() == b"new"


def test_a_name_as_long_as_allowed_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / f"{'ä' * 125}.csv"
    write_whole(path, b"rows")
    assert path.read_bytes() == b"rows"


def test_a_log_is_read_by_the_tools_of_the_field(tmp_path: Path) -> None:
    """Atomicity says that a log is whole. A last line that says so would be a row to every reader of the format."""
    pandas = pytest.importorskip("pandas")
    certificates().to_tsv(tmp_path / "out.tsv", [0, 0, 0])
    assert len(pandas.read_csv(tmp_path / "out.tsv", delimiter="\t")) == 3
