"""Several stores of one model become one: shards of a cluster run, or inputs that were certified apart."""

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from recert.cache import limits, parts
from recert.cache.cache import Cache
from recert.cache.manifest import MANIFEST, Manifest
from recert.cache.recovery import has_cut_manifest
from recert.cache.samples import as_array, common, simplified
from recert.cache.votes import VoteTable
from recert.errors import ContextMismatch, CorruptCache
from recert.noise import Stream
from recert.storage import Directory, flush_directory

Path = str | os.PathLike[str]


def merge(out: Path, stores: Sequence[Path], *, allow_numerics: bool = False) -> Cache:
    """One cache at `out` with the votes of all stores, which are only read.

    Parts are copied byte for byte. Where stores hold the same votes, the first one's are kept; where they hold different
    votes for the same noise, the error names the input. `out` appears complete or not at all.
    """
    if len(stores) < 1:
        raise ValueError("expected at least one store to merge, got none")
    target = Directory(out)
    if MANIFEST in target.names() and not has_cut_manifest(target):
        raise FileExistsError(f"expected a new place for the merged cache, got {out}, which holds one already")
    sources = [Cache.open(store) for store in stores]
    manifest = merged([source.manifest for source in sources], allow_numerics=allow_numerics)
    if target.local is None:
        # A remote store cannot be renamed in one step. Its manifest is written last: without it there is no cache.
        whole = Cache(manifest, target)
        _fill(whole, target, sources)
        return Cache.just_written(out)
    if target.names():
        raise FileExistsError(
            f"expected a new or empty folder for the merged cache, got {out}, which holds other files"
        )
    path = target.local.rstrip("/")
    folder, name = os.path.split(path)
    # Beside the target, thus on the same disk: a rename then moves the folder in one step, complete or not at all.
    beside = os.path.join(folder, f".{name}.merging")
    unfinished = Directory(beside)
    _check_ours(beside)  # before the lock, which is a file in it
    with unfinished.locked():
        _check_ours(beside)  # it may have been put there in between
        # An earlier merge that was killed leaves files here; files of other kinds are not ours to remove.
        for left_over in unfinished.names():
            if left_over.endswith((".parquet", ".json", ".tmp")):
                unfinished.remove(left_over)
        _fill(Cache(manifest, unfinished), unfinished, sources)
        os.rename(beside, path)
        flush_directory(folder or ".")
    return Cache.just_written(out)


def _check_ours(path: str) -> None:
    """Refuse what is there unless it is a folder of ours. Files are removed there, and behind a link are those of others."""
    if not os.path.lexists(path):
        return
    there = os.lstat(path)
    if not stat.S_ISDIR(there.st_mode):
        raise FileExistsError(f"expected a folder for the unfinished merge at {path}, got a link or a file; remove it")
    if os.name == "posix" and there.st_uid != os.geteuid():
        raise FileExistsError(
            f"expected a folder of your own at {path}, got one of another user; merge to another place"
        )


def merged(manifests: Sequence[Manifest], *, allow_numerics: bool) -> Manifest:
    """One manifest about the inputs of all.

    The votes must share their context and their counts: a certificate states one number of samples. alpha is no context;
    the smallest is taken, so that no claim grows. If any store has a family, so has the whole: Bonferroni holds for any
    number of claims at one alpha, and the family counts at least every input. A look that any input had is a look of all.
    """
    first = manifests[0]
    whole = first
    for other in manifests[1:]:
        first.check_context(other, allow_numerics=allow_numerics)
        for name in ("samples", "selection_samples", "certificate", "plan"):
            ours, theirs = getattr(first, name), getattr(other, name)
            if ours != theirs:
                option = name.replace("_", "-")
                raise ContextMismatch(
                    name,
                    ours,
                    theirs,
                    f"run certify on the other store with --{option} {_larger(ours, theirs)}, then merge",
                )
        whole = replace(
            whole,
            alpha=min(whole.alpha, other.alpha),
            family=max(whole.family, other.family),
            claims=max(whole.claims, other.claims),
            numerics=whole.numerics.joined(other.numerics),
            inputs=tuple(dict.fromkeys(whole.inputs + other.inputs)),
            # The union of two multisets: a size at which both stores were looked at counts once.
            looks=tuple(sorted((Counter(whole.looks) | Counter(other.looks)).elements())),
        )
    if first.plan:
        whole = replace(whole, planned=()).with_planned(_planned_together(manifests))
    # A family of 1 without claims is the default: no store promised that its claims hold together.
    has_family = whole.family > 1 or whole.claims > 0
    claims = max(whole.family, whole.claims, len(whole.inputs)) if has_family else 0
    return replace(whole, claims=claims, names=_all_names(manifests), parts=())


def _planned_together(manifests: Sequence[Manifest]) -> dict[str, int]:
    """The votes of every input that has been planned; of one that is in two stores, in both as many."""
    numbers: dict[str, int] = {}
    for manifest in manifests:
        for digest in filter(manifest.is_planned, manifest.inputs):
            votes = manifest.wanted_of(digest, Stream.ESTIMATION)
            if numbers.setdefault(digest, votes) != votes:
                raise ContextMismatch(
                    f"votes of input {digest[:12]}",
                    numbers[digest],
                    votes,
                    "each store shared them out on its own; run certify on both with --plan uniform, then merge",
                )
    return numbers


def _all_names(manifests: Sequence[Manifest]) -> dict[str, str]:
    """Every name once, as far as the manifest may hold them. Names are for people: they are cut rather than refused."""
    kinds = list(dict.fromkeys(kind for m in manifests for kind in m.names))[: limits.ENTRIES]
    joined = {kind: ", ".join(dict.fromkeys(m.names[kind] for m in manifests if kind in m.names)) for kind in kinds}
    return {
        kind: text if len(text) <= limits.TEXT else f"{text[: limits.TEXT - 3]}..." for kind, text in joined.items()
    }


def _fill(whole: Cache, target: Directory, sources: Sequence[Cache]) -> None:
    """Write the parts of all sources that hold anything new, then the manifest."""
    table = VoteTable(target, whole.manifest.context, whole.manifest.classes)
    written = set()
    for source in sources:
        for name in source.part_names():
            data, rows = source.part(name)
            fresh = [piece for row in rows for piece in _fresh(row, table)]
            # A part of which every row is new is copied as it is: its name, which is its hash, stays valid. Others are encoded anew.
            if len(fresh) != len(rows) or any(piece is not row for piece, row in zip(fresh, rows, strict=True)):
                if not fresh:
                    continue
                name, data = parts.encode(fresh, whole.manifest.classes, whole.manifest.context)
            target.write(name, data)
            table.add(fresh, name)
            written.add(name)
    # A manifest names all parts in its folder, so that a part of something else would become a part of this cache.
    others = sorted(set(filter(parts.is_part, target.names())) - written)
    if others:
        raise FileExistsError(f"expected a new place for the merged cache, got {target}, which holds {others[0]}")
    for source in sources:
        source.looks.copy_to(target)
    # Nothing more is drawn: entering and leaving writes the manifest.
    with whole.writing():
        pass


def _fresh(row: parts.Row, table: VoteTable) -> Iterator[parts.Row]:
    """The pieces of a row that the table lacks; where it has them, they must be the same votes."""
    across = table.known(row.digest, row.stream, row.start, row.end)
    for known in across:
        both = common(row.samples, known.samples)
        if len(both) and not np.array_equal(row.votes_of(both), known.votes_of(both)):
            raise CorruptCache(
                f"two stores hold different votes for input {row.digest[:12]} ({row.stream.name.lower()}, samples {both[0]} to "
                f"{both[-1]}); one of them is not what the model says: audit both with recert cache audit"
            )
    lacking = (common(row.samples, gap) for gap in table.missing(row.digest, row.stream, row.end))
    pieces = [samples for samples in lacking if len(samples)]
    # With scattered samples there may be thousands of gaps: one row with gaps is smaller than a row for each of them.
    if pieces and any(each.known is not None for each in (row, *across)):
        pieces = [simplified(np.concatenate([as_array(samples) for samples in pieces]))]
    for samples in pieces:
        yield row if len(samples) == len(row.samples) else row.part_about(samples)


def _larger(ours: Any, theirs: Any) -> Any:
    return max(ours, theirs) if isinstance(ours, int) else ours
