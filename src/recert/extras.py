"""Optional packages: imported when something needs them, with one error that says how to get them."""

import importlib
import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from recert.errors import MissingExtra

CHECKOUT = Path(__file__).resolve().parents[2]
"""Where pyproject.toml lies if this file is run from a checkout."""


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """A module of an optional dependency, or MissingExtra. `extra` is its name in pyproject.toml, as in `pip install 'recert[extra]'`.

    >>> import_extra("json", extra="none", purpose="reading JSON").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    # A torchvision that was built for another torch fails with a RuntimeError about a missing operator.
    except (ImportError, RuntimeError) as error:
        raise MissingExtra(
            f"{purpose} needs {module.partition('.')[0]}, which could not be imported ({error}); "
            f"install it with: {how_to_install(extra)}"
        ) from error


def how_to_install(extra: str) -> str:
    """The command that adds an extra to the recert that runs: from its checkout, its wheel or its repository, else by name."""
    try:
        installed = distribution("recert").read_text("direct_url.json")
    except PackageNotFoundError:
        installed = None
    return _command(extra, json.loads(installed) if installed else None, checkout=CHECKOUT)


def _command(extra: str, origin: dict[str, Any] | None, *, checkout: Path) -> str:
    """`origin` is what pip noted about where it installed recert from (PEP 610); None if from a package index, or not at all."""
    by_name = _pip(f"recert[{extra}]")
    if origin is None:
        # Not installed, but on the path.
        return _from_path(extra, checkout) if (checkout / "pyproject.toml").is_file() else by_name
    url = str(origin["url"])
    if version_control := origin.get("vcs_info"):
        return _pip(f"recert[{extra}] @ {version_control['vcs']}+{url}@{version_control['commit_id']}")
    if urlsplit(url).scheme != "file":
        return _pip(f"recert[{extra}] @ {url}")
    path = Path(url2pathname(urlsplit(url).path))
    if not path.exists():  # a wheel or a checkout that was deleted after it was installed
        return by_name
    return _from_path(extra, path, editable=origin.get("dir_info", {}).get("editable", False))


def _from_path(extra: str, path: Path, *, editable: bool = False) -> str:
    where = "." if path == Path.cwd() else str(path)
    return _pip(f"{where}[{extra}]", "-e " if editable else "")


def _pip(what: str, options: str = "") -> str:
    return f"pip install {options}{shlex.quote(what)}"
