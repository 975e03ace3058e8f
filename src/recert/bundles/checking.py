"""`check`: whether a bundle is whole and its parts belong together, in one sentence."""

import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recert.bundles.again import compute_again
from recert.bundles.audit import AuditInputs, audit_cache, audit_kept, check_data
from recert.bundles.claims import check_claims
from recert.bundles.decisions import decide_again
from recert.bundles.findings import Findings, left_open, right, wrong
from recert.bundles.layout import CACHE, REPORT, SIGNATURE, VOTES
from recert.bundles.matching import OF_THE_MODEL_ITSELF, certified_model, check_cache, check_model, check_votes
from recert.bundles.page import check_page
from recert.bundles.signatures import check_signature
from recert.bundles.unpacking import Unpacked, unpack
from recert.cache import Cache, Manifest
from recert.cache.checking import examine
from recert.cache.signatures import wanted_key
from recert.certificates import Certificates
from recert.errors import RecertError, UntrustedBundle
from recert.report import Result, read_result
from recert.version import __version__

Path_ = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Check:
    """What was checked, what is wrong, and what nobody has looked at: one line for each."""

    name: str
    inputs: int
    problems: tuple[str, ...]
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]
    guarantee: str = field(default="", repr=False)

    def __repr__(self) -> str:
        return f"<Check: {self.sentence}>"

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong with what was checked."""
        return not self.problems

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.problems:
            more = f", and {len(self.problems) - 1} more" if len(self.problems) > 1 else ""
            return f"{self.name} does not hold: {self.problems[0]}{more}"
        open_ = len(self.not_checked)
        but = f", but {open_} {'thing was' if open_ == 1 else 'things were'} not checked" if open_ else ""
        return f"{self.name} holds: this model file has the certificates of {self.inputs} inputs that are stated{but}"


def check(
    bundle: Path_ | None = None,
    *,
    model: Path_ | None = None,
    result: Path_ | None = None,
    cache: Path_ | None = None,
    public_key: Path_ | None = None,
    trust: bool = False,
    audit: AuditInputs | Any = None,
    original: Any = None,
) -> Check:
    """Whether a bundle, or a model file and a result, are whole and belong together.

    Looked at: the hashes of all files; the signature, if there is a key (`public_key`, or the one that RECERT_PUBLIC_KEY names);
    that the model file is the one the certificates are about; that the claims follow from the counts, which are bounded again; that
    the cache is sound and the one they came from; that the report shows this result. With `audit`, the inputs that were certified
    (or a data set, whose labels are compared, too), a random sample of the votes is drawn again; with `original`, the model that a
    changed one was made of, also of its votes, which the certificates follow from as well.
    No code from the bundle runs, unless `trust` is set and its card names a factory.

    CorruptBundle if the file is no bundle, or one that must not be opened.
    """
    inputs = _audit_inputs(audit, original)
    key = wanted_key(public_key)
    if bundle is not None:
        if model is not None or result is not None or cache is not None:
            raise ValueError("expected a bundle, or a model and a result, got both; leave one of them out")
        with tempfile.TemporaryDirectory() as folder:
            return check_unpacked(
                unpack(Path(bundle), Path(folder)), key=key, trust=trust, audit=inputs, name=Path(bundle).name
            )
    if model is None or result is None:
        raise ValueError(
            "expected a bundle, or a model and a result, got neither; name a bundle, or give --model and --result"
        )
    parts = _Parts(Path(model), Path(result), None if cache is None else os.fspath(cache), None, None, trust, inputs)
    unsigned = left_open("signature: of a result and a model beside each other there is none")
    return _check(
        Path(model).name, parts, unsigned if key is None else wrong("signature: only bundles are signed; make one")
    )


def _audit_inputs(audit: Any, original: Any) -> AuditInputs | None:
    if audit is None:
        if original is not None:
            raise ValueError("expected audit=... with original=..., got none; votes are replayed on the data")
        return None
    if isinstance(audit, AuditInputs):
        return audit if original is None else replace(audit, original=original)
    inputs, labels = (getattr(audit, name, None) for name in ("inputs", "labels"))
    return AuditInputs(audit if inputs is None else inputs, labels=labels, original=original)


def check_unpacked(
    unpacked: Unpacked,
    *,
    key: Path | None = None,
    trust: bool = False,
    audit: AuditInputs | None = None,
    name: str = "the bundle",
) -> Check:
    """The same for the files of a bundle in a folder of ours."""
    folder, contents = unpacked.folder, unpacked.contents
    found = _signature(folder, key)
    strangers = tuple(
        f"{each}: a bundle has one model and one result, and this is neither" for each in contents.strangers
    )
    if unpacked.problems or strangers:  # what was changed is not looked into
        return _concluded(name, None, Findings(problems=unpacked.problems + strangers) + found)
    found += right(f"hashes: those of {len(contents.files)} files")
    store, votes = (
        str(folder / each) if held else None
        for each, held in ((CACHE, contents.holds_cache), (VOTES, contents.holds_votes))
    )
    # Votes that are there are looked at, whatever the list says of them.
    whole = store if contents.whole_cache or any(name.startswith(f"{CACHE}/part-") for name in contents.files) else None
    parts = _Parts(folder / contents.model, folder / contents.result, whole, store, votes, trust, audit)
    return _check(name, parts, found, page=(folder / REPORT, contents.version))


@dataclass(frozen=True)
class _Parts:
    """Where everything is, and what is asked."""

    model: Path
    result: Path
    cache: str | None
    """A cache with its votes."""
    manifest: str | None
    """A cache, maybe without its votes."""
    votes: str | None
    trust: bool
    audit: AuditInputs | None


def _check(name: str, parts: _Parts, found: Findings, page: tuple[Path, str] | None = None) -> Check:
    try:
        result = read_result(parts.result)
        certified_model(result.certificates)
    except (RecertError, ValueError) as error:
        return _concluded(name, None, found + wrong(f"{parts.result.name}: {error}"))
    of_model, model = check_model(parts.model, result.certificates, trust=parts.trust)
    of_cache, cache, manifest = _cache(parts, result.certificates)
    found += of_model + _claims(result.certificates, cache, manifest) + of_cache + _votes(parts, result.certificates)
    if cache is not None and not found.problems:
        again = _again(result, cache, parts.votes, __version__ if page is None else page[1])
        if again.checked:  # then there is nothing left open that a result by itself leaves so
            found = replace(
                found, not_checked=tuple(line for line in found.not_checked if not line.startswith("claims:"))
            )
        found += again
    if page is not None and not found.problems:
        found += check_page(page[0], result, page[1])
    if parts.audit is None:
        found += left_open(
            "votes and labels: whether the model gives these and the data has those, which --audit looks at with the data"
        )
    elif found.problems or model is None:
        found += left_open("votes: not replayed, since the model is not known to be the one")
    else:
        found += check_data(parts.audit, result) + _audited(model, parts, result.certificates, cache)
    return _concluded(name, result, found)


def _claims(result: Certificates, cache: Cache | None, manifest: Manifest | None) -> Findings:
    try:
        return check_claims(result, manifest, counted=cache is not None and result.settings.method == "certify")
    except (RecertError, ValueError) as error:  # a noise that there is not, counts that no draw gives
        return wrong(f"claims: {error}")


def _again(result: Result, cache: Cache, votes: str | None, version: str) -> Findings:
    """The claims once more, from the votes that they rest on, if these are there."""
    if result.certificates.settings.at:
        return decide_again(result.certificates, cache, votes)
    return Findings() if votes is None else compute_again(result, cache, votes, version)


def _votes(parts: _Parts, result: Certificates) -> Findings:
    """The votes that were kept of a changed model: of this one, on this noise."""
    if parts.votes is None:
        if result.settings.method in OF_THE_MODEL_ITSELF or (parts.manifest is None and parts.cache is None):
            return Findings()
        return left_open(
            "votes of the changed model: they are not there, so that its counts are what the result itself says"
        )
    try:
        manifest = Cache.manifest_at(parts.votes)
        return wrong("votes: their manifest is missing") if manifest is None else check_votes(manifest, result)
    except (RecertError, ValueError, OSError) as error:
        return wrong(f"votes: {error}")


def _signature(folder: Path, key: Path | None) -> Findings:
    if key is None:
        there = (folder / SIGNATURE).is_file()
        what = (
            "there is one, for which --public-key is needed"
            if there
            else "there is none: whoever could write the bundle can have made it"
        )
        return left_open(f"signature: {what}")
    try:
        check_signature(folder, key)
    except UntrustedBundle as error:
        return wrong(str(error))
    return right("signature: by the owner of this key")


def _cache(parts: _Parts, result: Certificates) -> tuple[Findings, Cache | None, Manifest | None]:
    """The cache: sound, and the one that the result came from."""
    where = parts.cache or parts.manifest
    if where is None:
        return left_open("cache: there is none, and so no votes to bound again"), None, None
    try:
        if parts.cache is None:
            manifest = Cache.manifest_at(where)
            if manifest is None:
                return wrong("cache: its manifest is missing"), None, None
            return check_cache(None, manifest, result), None, manifest
        sound = examine(where)
        if sound.problems:
            return Findings(problems=tuple(f"cache: {line}" for line in sound.problems)), None, None
        cache = Cache.just_written(where)  # its own signature is not asked for: the bundle's is over all of its files
        return right("cache: its parts are whole") + check_cache(cache, cache.manifest, result), cache, cache.manifest
    except (RecertError, ValueError, OSError) as error:
        return wrong(f"cache: {error}"), None, None


def _audited(model: Any, parts: _Parts, result: Certificates, cache: Cache | None) -> Findings:
    assert parts.audit is not None
    about, asked = certified_model(result), parts.audit
    try:
        if cache is not None and cache.manifest.model == about:
            return audit_cache(model, asked.inputs, cache, asked.progress)
        if parts.votes is None:
            return wrong(
                "audit: there are no votes of this model to replay; bundle it with its cache and with the votes that were kept"
            )
        found = audit_kept(model, asked.inputs, Cache.just_written(parts.votes), asked.progress)
        return found if cache is None else found + _audited_original(asked, cache)
    except RecertError as error:
        return wrong(f"audit: {error}")


def _audited_original(asked: AuditInputs, cache: Cache) -> Findings:
    """The votes that a re-certification starts from. They are another model's, which no bundle has."""
    if asked.original is None:
        return left_open(
            "votes of the original, from which the certificates follow as well: --original names the model that gives them"
        )
    return audit_cache(asked.original, asked.inputs, cache, asked.progress, of="audit of the original")


def _concluded(name: str, result: Result | None, found: Findings) -> Check:
    inputs, guarantee = (0, "") if result is None else (len(result.certificates), result.certificates.guarantee)
    return Check(name, inputs, found.problems, found.checked, found.not_checked, guarantee)
