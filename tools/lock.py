"""Writes two locks, every package of an environment with its version and the hashes of its files: requirements.lock for the demo,
requirements-dev.lock for tests. What is in both has one version: the demo is locked to what the tests run with.

    python tools/lock.py               resolve anew, with the newest versions that pyproject.toml allows
    python tools/lock.py holds FILE    exit code 0 if this lock is for this Python and platform

pip chooses the versions; the hashes are those that the package index gives for all files of a release. torch is left out, with
the CUDA packages that only it needs: its build differs by machine, constraints.txt has its version.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DEMO, DEV = "requirements.lock", "requirements-dev.lock"
BY_VERSION_ONLY = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)")
LINK = re.compile(r"""href=["']([^"'#]+)#sha256=([0-9a-f]{64})""")
SECONDS_TO_ANSWER = 60.0


@dataclass(frozen=True)
class Chosen:
    """A file that pip would install."""

    name: str
    version: str
    file: str
    sha256: str


def here() -> str:
    """What a lock depends on, as in its first line."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}, {platform.system()} {platform.machine()}"


def locked_for(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def normalized(name: str) -> str:
    """
    >>> normalized("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def is_of_release(file: str, version: str) -> bool:
    """
    >>> [is_of_release(file, "1.2") for file in ("a_b-1.2-py3-none-any.whl", "a-b-1.2.tar.gz", "a_b-1.2.1.tar.gz", "a-1.20-x-y-z.whl")]
    [True, True, False, False]
    """
    if file.endswith(".whl"):
        return file.split("-")[1] == version
    return re.sub(r"\.(tar\.gz|zip)$", "", file).endswith(f"-{version}")


def choose(pip: list[str], extra: str, *, constraints: list[Path]) -> list[Chosen]:
    """What pip would install into an empty environment, without what is taken by version only."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    # hatchling needs editables for `pip install -e`; pip is there to be locked itself.
    wanted = ["pip", "editables", *build, f"{ROOT}[{extra}]"]
    options = [option for file in constraints for option in ("-c", str(file))]
    command = [*pip, "install", "-qq", "--dry-run", "--ignore-installed", "--report", "-", *options, *wanted]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return sorted(
        (
            Chosen(
                name=name,
                version=each["metadata"]["version"],
                file=unquote(PurePosixPath(urlsplit(each["download_info"]["url"]).path).name),
                sha256=each["download_info"]["archive_info"]["hashes"]["sha256"],
            )
            for each in report["install"]
            if not BY_VERSION_ONLY.fullmatch(name := normalized(each["metadata"]["name"])) and name != "recert"
        ),
        key=lambda chosen: chosen.name,
    )


def index_of(python: str) -> str:
    """The index that pip would ask: by its environment, its configuration, or its default."""
    asked = subprocess.run(
        [python, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    if index := os.environ.get("PIP_INDEX_URL") or asked.stdout.strip():
        return index.rstrip("/")
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    return (
        subprocess.run([python, "-c", default], capture_output=True, text=True, check=True).stdout.strip().rstrip("/")
    )


def hashes_of(chosen: Chosen, page: str) -> list[str]:
    """The hashes of all files of the release, from the page that an index has of a package; ValueError without pip's choice."""
    files = {unquote(PurePosixPath(urlsplit(link).path).name): sha256 for link, sha256 in LINK.findall(page)}
    if files.get(chosen.file) != chosen.sha256:
        raise ValueError(
            f"expected the index to have {chosen.file} with sha256 {chosen.sha256}, got {files.get(chosen.file)}; "
            "do not use this file, or set PIP_INDEX_URL to the index that it is from"
        )
    version = chosen.file.split("-")[1] if chosen.file.endswith(".whl") else chosen.version
    return sorted(sha256 for file, sha256 in files.items() if is_of_release(file, version))


def entry(chosen: Chosen, hashes: list[str]) -> str:
    """
    >>> print(entry(Chosen("a", "1.2", "a-1.2.tar.gz", "0f"), ["0f", "1e"]))
    a==1.2 \\
        --hash=sha256:0f \\
        --hash=sha256:1e
    """
    return " \\\n    ".join([f"{chosen.name}=={chosen.version}", *(f"--hash=sha256:{sha256}" for sha256 in hashes)])


def as_text(entries: list[str]) -> str:
    return "\n".join(
        [f"# {here()}", "# Written by `make lock`; docs/dependencies.md says how it is used.", *entries, ""]
    )


def resolve() -> dict[str, str]:
    """The text of each lock, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        pip, torch, chosen_for_tests = [python, "-m", "pip"], ROOT / "constraints.txt", Path(folder) / "constraints.txt"
        for_tests = choose(pip, "dev", constraints=[torch])
        chosen_for_tests.write_text("".join(f"{each.name}=={each.version}\n" for each in for_tests), encoding="utf-8")
        for_demo = choose(pip, "demo", constraints=[torch, chosen_for_tests])
        index = index_of(python)

    def page(package: Chosen) -> str:
        with urllib.request.urlopen(f"{index}/{package.name}/", timeout=SECONDS_TO_ANSWER) as answer:
            return str(answer.read().decode())

    with ThreadPoolExecutor(8) as threads:
        pages = list(threads.map(page, for_tests))
    entries = {
        package: entry(package, hashes_of(package, page)) for package, page in zip(for_tests, pages, strict=True)
    }
    return {DEV: as_text(list(entries.values())), DEMO: as_text([entries[package] for package in for_demo])}


def main(command: str = "write", file: str = DEMO) -> int:
    if command == "write":
        for name, text in resolve().items():
            (ROOT / name).write_text(text, encoding="utf-8")
        return 0
    if (wanted := locked_for((ROOT / file).read_text(encoding="utf-8"))) == here():
        return 0
    print(f"{file} is for {wanted}, this is {here()}: pip chooses the versions, without hashes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
