"""A small network chosen by select and saved, with its certificates, cache and kept votes."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from recert.bundles.layout import CONTENTS, Contents, Stored
from recert.models.cards import file_digest
from recert.report import read_result, write_result
from tests.test_cli import SMALL, recert


@dataclass(frozen=True)
class Chosen:
    """Files of one run: the winner, its certificates, the cache that they came from, and a result of the original."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "winner.onnx"

    @property
    def result(self) -> Path:
        return self.folder / "winner.parquet"

    @property
    def cache(self) -> Path:
        return self.folder / "base"


def listed_anew(folder: Path, **changes: object) -> None:
    """The list of contents with the hashes that files have now, as a forger would write it."""
    old = Contents.from_json((folder / CONTENTS).read_bytes())
    files = {
        path.relative_to(folder).as_posix(): Stored(path.stat().st_size, file_digest(path))
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (CONTENTS, "bundle.sig")
    }
    (folder / CONTENTS).write_bytes(replace(old, files=files, **changes).to_json())  # type: ignore[arg-type]


def forged(path: Path, **columns: object) -> None:
    result = read_result(path)
    write_result(replace(result, certificates=replace(result.certificates, **columns)), path)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Chosen:
    made = Chosen(tmp_path_factory.mktemp("chosen"))
    runs = (
        ("certify", *SMALL, "--samples", "400", "--store", str(made.cache), "-o", str(made.folder / "base.parquet")),
        (
            "select", *SMALL, "--store", str(made.cache), "--metric", "accuracy:0.1", "--tolerance", "0.4",
            "-c", "prune:0.2..0.3/0.1+int8[!conv1]", "--save", str(made.folder / "winner"), "-o", str(made.result),
        ),
    )  # fmt: skip
    for arguments in runs:
        run = recert(*arguments)
        assert run.returncode == 0, run.stderr
    return made


@pytest.fixture(scope="session")
def bundled(chosen: Chosen) -> Path:
    """The bundle, as a folder that tests copy."""
    folder = chosen.folder / "bundle"
    run = recert(
        "bundle", str(chosen.result), "--model", str(chosen.model), "--cache", str(chosen.cache), "-o", str(folder)
    )
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture
def copied(bundled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundled, tmp_path / "bundle"))
