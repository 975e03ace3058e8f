"""`bundle`: everything that a deployed model's certificates rest on, in one file."""

import os
import shutil
import tempfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from recert.bundles.checking import Check, check_unpacked
from recert.bundles.layout import (
    CACHE,
    CONTENTS,
    MODEL,
    REPORT,
    RESULT,
    SIGNATURE,
    VOTES,
    Contents,
    Stored,
    is_allowed,
    plain,
)
from recert.bundles.matching import certified_model
from recert.bundles.page import page_of
from recert.bundles.signatures import sign
from recert.bundles.unpacking import Unpacked
from recert.cache import Cache
from recert.cache.copying import store_files, stores_in
from recert.errors import CorruptBundle
from recert.keeping import SUFFIX
from recert.models.cards import card_of, card_path, file_digest
from recert.report import Result, read_result
from recert.version import __version__

ENDING = ".recert"


def bundle(
    result: str | os.PathLike[str],
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    votes: bool | str | os.PathLike[str] = True,
    whole_cache: bool = True,
    key: str | os.PathLike[str] | None = None,
    trust: bool = False,
) -> Check:
    """Put a result, its model and its cache into one file, NAME.recert, or into a folder if `out` has another name.

    `result` is what a command wrote with -o FILE.parquet; `model` is the file that is deployed, or the spec of a model, which is saved as one.
    With `cache`, the votes of the original go along (or, without `whole_cache`, only what they are about), and those that were kept
    of the changed model (from the folder beside the cache; `votes` names another one, or is False). With `key`, an Ed25519
    private key, the list of all hashes is signed. What is in the bundle is checked first: CorruptBundle if it does not fit together.
    """
    where = Path(out)
    if where.suffix != ENDING and where.exists() and (not where.is_dir() or any(where.iterdir())):
        raise FileExistsError(
            f"expected NAME{ENDING} or a new folder for a bundle, got {where}, which exists; choose another name"
        )
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names = (_add_model(folder, os.fspath(model), trust), _add_result(folder, Path(result)))
        known = read_result(folder / names[1])
        (folder / REPORT).write_bytes(page_of(known).encode())
        if cache is not None:
            _add_store(folder / CACHE, os.fspath(cache), parts=whole_cache)
            if whole_cache and votes is not False:
                beside = f"{os.fspath(cache).rstrip('/')}{SUFFIX}"
                _add_votes(folder / VOTES, beside if votes is True else os.fspath(votes), known)
        contents = Contents(
            *names, whole_cache=cache is not None and whole_cache, made=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            version=__version__, files=_stored(folder),
        )  # fmt: skip
        (folder / CONTENTS).write_bytes(contents.to_json())
        if key is not None:
            sign(folder, Path(key))
        found = check_unpacked(Unpacked(folder, contents, ()), trust=trust)
        if found.problems:
            raise CorruptBundle(
                f"expected a result, a model and a cache that belong together, got: {found.problems[0]}"
            )
        _put(folder, where)
    return found


def _add_model(folder: Path, spec: str, trust: bool) -> str:
    """The model file and its card; a model that is no such file is saved as one."""
    from recert.approximations.saving import save_model
    from recert.models.loading import load_model
    from recert.models.saved import architecture_of

    path, target = Path(spec), folder / MODEL
    target.mkdir()
    if path.is_file() and path.suffix in (".onnx", ".safetensors") and card_of(path) is not None:
        file = target / plain(path.name)
        shutil.copyfile(path, file)
        shutil.copyfile(card_path(path), card_path(file))
    else:
        loaded = load_model(spec, trust=trust)
        graph = hasattr(loaded.model, "session")
        file = target / f"{plain(loaded.name)}{'.onnx' if graph else '.safetensors'}"
        save_model(loaded.model, file, architecture=None if graph else architecture_of(spec))
    return f"{MODEL}/{file.name}"


def _add_result(folder: Path, result: Path) -> str:
    if not result.is_file():
        raise ValueError(
            f"expected a result that was written with -o FILE.parquet, got the folder {result}; export it first"
        )
    (folder / RESULT).mkdir()
    name = f"{RESULT}/{plain(result.stem)}.parquet"
    shutil.copyfile(result, folder / name)
    return name


def _add_store(target: Path, store: str, *, parts: bool) -> None:
    """The files of a cache as they are: what it is about, its signature, its looks, and its votes if they are wanted."""
    target.mkdir()
    for name, data in store_files(store, parts=parts):
        if is_allowed(f"{target.name}/{name}"):
            (target / name).write_bytes(data)


def _add_votes(target: Path, folder: str, result: Result) -> None:
    """The kept votes of the model that the result is about, if there are some."""
    about = certified_model(result.certificates)
    for store in stores_in(folder):
        manifest = Cache.manifest_at(store)
        assert manifest is not None
        if manifest.model == about and set(result.certificates.input) & set(manifest.inputs):
            _add_store(target, store, parts=True)
            return


def _stored(folder: Path) -> dict[str, Stored]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): Stored(path.stat().st_size, file_digest(path)) for path in files}


def _put(folder: Path, where: Path) -> None:
    """Whole or not at all: written beside, flushed and renamed."""
    where.parent.mkdir(parents=True, exist_ok=True)
    beside = where.with_name(f".{where.name}.{os.getpid()}.tmp")
    try:
        if where.suffix == ENDING:
            _write_zip(folder, beside)
        else:
            shutil.copytree(folder, beside)
            if where.exists():
                where.rmdir()
        beside.replace(where)
    except BaseException:
        if beside.is_dir():
            shutil.rmtree(beside)
        beside.unlink(missing_ok=True)
        raise


def _write_zip(folder: Path, target: Path) -> None:
    """Not packed: weights and votes hardly get smaller, and whoever reads it knows how large its files are."""
    with target.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            names = [CONTENTS, *([SIGNATURE] if (folder / SIGNATURE).exists() else []), *sorted(_stored(folder))]
            for name in dict.fromkeys(names):
                info = zipfile.ZipInfo(name)  # without the time of the file: the same content gives the same bytes
                info.external_attr, info.file_size = 0o100644 << 16, (folder / name).stat().st_size
                with (folder / name).open("rb") as source, archive.open(info, "w") as entry:
                    shutil.copyfileobj(source, entry)
        file.flush()
        os.fsync(file.fileno())
