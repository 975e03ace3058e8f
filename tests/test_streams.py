"""Files come before the table: whatever becomes of stdout and stderr, a result that was asked for is there."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import recert
from recert.cli import main
from tests.test_cli import SMALL
from tests.test_cli import recert as call

PROGRAM = f"{sys.executable} -m recert"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams") / "run"
    assert call("certify", *SMALL, "--samples", "400", "--store", str(folder)).returncode == 0
    return folder


STREAMS = {
    ">&-": (0, 2),
    ">/dev/full": (1, 3),
    "| true": (0, 2),
    "2>/dev/full": (0, 0),
    ">&- 2>&-": (0, 0),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_a_result_is_written_whatever_becomes_of_the_streams(store: Path, tmp_path: Path, stream: str) -> None:
    out, (code, lines) = tmp_path / "out.parquet", STREAMS[stream]
    command = f"{PROGRAM} recertify {' '.join(SMALL)} --samples 60 --method paired --store {store} -o {out} {stream}"
    run = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, env=environment()
    )
    assert run.returncode == code, run.stderr
    assert pq.read_table(out).num_rows == 6
    assert "Traceback" not in run.stderr
    assert "Exception ignored" not in run.stderr
    assert ("expected to print on stdout, got No space left on device" in run.stderr) == (stream == ">/dev/full")
    assert bool(run.stderr) == bool(lines)


@pytest.mark.parametrize(("words", "code"), [("models -f json", 1), ("--help", 1), ("--version", 1)])
def test_what_cannot_be_printed_is_one_line(words: str, code: int) -> None:
    run = subprocess.run(
        ["bash", "-c", f"{PROGRAM} {words} >/dev/full"], capture_output=True, text=True, env=environment()
    )
    assert run.returncode == code
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1


def test_a_requirement_decides_although_nobody_reads(store: Path) -> None:
    run = unread(
        "recertify", *SMALL, "--samples", "60", "--method", "paired", "--store", str(store), "--require", "acr>=9"
    )
    assert run == 3


def test_select_writes_before_it_prints(store: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "out.json", tmp_path / "out.svg"
    arguments = [
        "--samples",
        "60",
        "--tolerance",
        "0.9",
        "-c",
        "bf16-weights",
        "--out",
        str(out),
        "--picture",
        str(picture),
    ]
    with open("/dev/full", "w") as full:
        assert into(full, "select", *SMALL, "--store", str(store), *arguments) == 1
    assert out.read_text().endswith("}\n")
    assert picture.read_text().rstrip().endswith("</svg>")


def test_the_table_is_printed_although_the_disk_is_full(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recert.report.results.write_whole", full)
    run = call(
        "recertify", *SMALL, "--samples", "60", "--method", "paired", "--store", str(store), "-o", str(tmp_path / "o.parquet")
    )  # fmt: skip
    assert run.returncode == 1
    assert "ACR" in run.stdout
    assert "No space left" in run.stderr.splitlines()[-1]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def unread(*arguments: str) -> int:
    """The exit code with stdout a pipe whose reader has left."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        return into(pipe, *arguments)


def into(stdout: object, *arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(sys, "argv", ["recert", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
    return int(stop.value.code or 0)


OUTPUTS = {
    "certify": ["certify", "--model", "nowhere", "--data", "nowhere", "-o"],
    "predict": ["predict", "--model", "nowhere", "--data", "nowhere", "-o"],
    "recertify": ["recertify", "--model", "nowhere", "--data", "nowhere", "--store", "nowhere", "-o"],
    "select": ["select", "--model", "nowhere", "--data", "nowhere", "--store", "nowhere", "-c", "int8", "-o"],
    "report": ["report", "nowhere.parquet", "-o"],
    "export": ["cache", "export", "nowhere"],
}


@pytest.mark.parametrize("command", OUTPUTS)
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("file/out.csv", "which is a file"),
        ("file/deeper/out.csv", "which is a file"),
        ("folder.csv", "got the folder"),
        ("dangling/out.csv", "which is a file"),
        ("/proc/self/out.csv", "expected a folder that can be written"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, command: str, path: str, words: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    run = call(*OUTPUTS[command], path, cwd=tmp_path)
    assert run.returncode == 1
    assert words in " ".join(run.stderr.split())


def test_pictures_figures_and_the_folder_of_the_demo_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, words in (
        ([*OUTPUTS["select"], "out.xlsx"], ".parquet, .csv, .tsv or .json"),
        ([*OUTPUTS["select"], "out.csv", "--picture", "p.gif"], ".png, .svg or .pdf"),
        ([*OUTPUTS["select"], "out.csv", "--picture", "file/p.svg"], "which is a file"),
        ([*OUTPUTS["report"], "page.html", "--figures", "file/figures"], "which is a file"),
        (["demo", "--store", "file"], "which is a file"),
        (["report", "file", "-o", "./file"], "another file for the page"),
    ):
        run = call(*arguments, cwd=tmp_path)
        assert run.returncode == 1, arguments
        assert words in " ".join(run.stderr.split()), arguments


@pytest.mark.parametrize("verb", ["certify", "predict"])
def test_a_log_without_labels_is_refused_before_any_work(tmp_path: Path, verb: str) -> None:
    np.savez(tmp_path / "x.npz", inputs=np.zeros((3, 1, 8, 8), np.float32))
    run = call(verb, "--model", "digits", "--data", str(tmp_path / "x.npz"), "-o", "out.tsv", cwd=tmp_path)
    assert "expected labels for the .tsv log" in run.stderr
    assert sorted(os.listdir(tmp_path)) == ["x.npz"]


def test_a_pipe_can_be_an_output(tmp_path: Path) -> None:
    """As in -o >(gzip > page.html.gz): nothing can be put in its place."""
    reader, writer = os.pipe()
    recert.storage.write_whole(f"/dev/fd/{writer}", b"page")
    os.close(writer)
    assert os.read(reader, 10) == b"page"
