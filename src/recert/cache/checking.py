"""What can be checked about a stored cache without its model, and what cannot."""

import os
from dataclasses import dataclass

from recert.cache.looks import Looks
from recert.cache.manifest import MANIFEST, SIGNATURE, Manifest
from recert.cache.parts import is_part
from recert.cache.recovery import read_manifest
from recert.cache.votes import VoteTable
from recert.errors import CorruptCache
from recert.noise import Stream
from recert.storage import Directory

STREAMS = (Stream.SELECTION, Stream.ESTIMATION)


@dataclass(frozen=True)
class Findings:
    """One line for each: what is wrong, which parts no manifest names, what was checked, and what was not."""

    problems: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()


def examine(store: str | os.PathLike[str]) -> Findings:
    """Read every part in full, however damaged the cache is."""
    directory = Directory(store)
    names = directory.names()
    try:
        manifest = read_manifest(directory)
    except (FileNotFoundError, CorruptCache) as error:
        return Findings(problems=(str(error) if MANIFEST in str(error) else f"{MANIFEST}: {error}",))
    table = VoteTable(directory, manifest.context, manifest.classes)
    problems = [f"{name} is missing" for name in sorted(set(manifest.parts) - set(names))]
    found, named = named_first(manifest, names), set(manifest.parts)
    table.add_stored(found, lambda error: problems.append(str(error)))
    try:
        looks = len(Looks(directory, manifest.context).known())
    except CorruptCache as error:
        looks = 0
        problems.append(str(error))
    lacking = [digest for digest in sorted(manifest.inputs) if _lacks_votes(table, manifest, digest)]
    problems += [f"input {digest[:12]} lacks votes; run certify again" for digest in lacking]
    complete = "have all their votes" if manifest.samples else "are named; such a store promises no votes of them"
    return Findings(
        problems=tuple(problems),
        unnamed=tuple(f"{name} is not named by {MANIFEST}" for name in found if name not in named),
        checked=(
            f"manifest: {MANIFEST} has every field, within its limits",
            f"parts: the hashes of {len(found)}, and their counts against their votes",
            f"inputs: {len(manifest.inputs)} {complete}",
            f"looks: {looks} records can be read",
        ),
        not_checked=(
            "votes: whether the model gave them, for which recert cache audit needs the model and the data",
            "signature: there is one, for which --public-key is needed"
            if SIGNATURE in names
            else "signature: there is none, so that whoever can write to the cache can have changed all of it",
            "looks: whether records of re-certifications were removed; they are not signed",
        ),
    )


def named_first(manifest: Manifest, names: list[str]) -> list[str]:
    """Parts in the order they are read: those that the manifest names first, so that an error names the other one."""
    named = set(manifest.parts)
    return sorted(filter(is_part, names), key=lambda name: (name not in named, name))


def _lacks_votes(table: VoteTable, manifest: Manifest, digest: str) -> bool:
    lacking = any(table.missing(digest, stream, manifest.wanted_of(digest, stream)) for stream in STREAMS)
    return lacking or not manifest.is_planned(digest)
