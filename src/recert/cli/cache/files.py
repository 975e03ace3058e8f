"""recert cache verify, merge, export"""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from recert.cli import options as o
from recert.cli.cache.show import Where
from recert.cli.output import check_log, check_output, say, write


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert cache verify runs/digits-gaussian-0.5")(verify)
    app.command(epilog="Example: recert cache merge runs/whole runs/digits-shard-1-of-2 runs/digits-shard-2-of-2")(
        merge
    )
    app.command(epilog="Example: recert cache export runs/digits-gaussian-0.5 certificates.csv")(export)


def verify(
    store: Where,
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Check the signature, too, with this Ed25519 public key (PEM).",
            show_default="what RECERT_PUBLIC_KEY names",
        ),
    ] = None,
    least_serial: Annotated[
        int | None,
        typer.Option(metavar="N", help="Refuse a signature whose serial is smaller: an old state that was put back."),
    ] = None,
    debug: o.Debug = False,
) -> None:
    """Read every part, check it against its hash and its counts, and say what was checked and what not; exit with 1 if anything is wrong."""
    from recert.cache.checking import examine
    from recert.cache.signatures import wanted_key
    from recert.cache.signing import examine_signed

    key = wanted_key(public_key)
    if key is None and least_serial is not None:
        raise ValueError("expected --public-key with --least-serial, got none; a serial counts only if it is signed")
    found = examine(store) if key is None else examine_signed(store, key, least_serial=least_serial or 0)
    for problem in found.problems:
        print(problem)
    for name in found.unnamed:
        print(f"{name}: a run was stopped, or somebody put it there; the same certify again names it")
    for word, lines in (("checked", found.checked), ("not checked", found.not_checked)):
        for line in lines:
            say(escape(f"{word}: {line}"))
    if found.problems:
        say(f"{len(found.problems)} problems")
        raise typer.Exit(1)
    but = f", but {len(found.unnamed)} parts are not named" if found.unnamed else ""
    say(f"nothing is wrong with what was checked{but}")


def merge(
    out: Annotated[str, typer.Argument(help="Folder or URL of the new cache.")],
    stores: Annotated[list[str], typer.Argument(help="Caches of the same model, noise and seed; they are only read.")],
    allow_numerics: Annotated[
        bool,
        typer.Option(
            "--allow-numerics", help="Merge although device, batch size or versions differ; recorded as mixed."
        ),
    ] = False,
    debug: o.Debug = False,
) -> None:
    """Make one cache of several, e.g. of the shards of certify --shard; parts are copied byte for byte."""
    from recert.cache import merge as merge_stores

    whole = merge_stores(out, stores, allow_numerics=allow_numerics)
    m = whole.manifest
    votes = f"{m.samples} votes each" if whole.promises_votes else "scattered votes"
    say(escape(f"{out}: {len(m.inputs)} inputs of {len(stores)} stores, {votes}, in {len(m.parts)} parts"))
    if whole.missing() or whole.to_be_planned():
        say("some votes are missing; run certify with this store: it continues where the shards stopped")


def export(
    store: Where,
    out: Annotated[Path, typer.Argument(help="Where to: .parquet or .csv.")],
    alpha: Annotated[
        float | None, typer.Option(metavar="X", help="Bound the votes anew at this alpha.", show_default="the cache's")
    ] = None,
    public_key: o.PublicKey = None,
    debug: o.Debug = False,
) -> None:
    """Write the certificates of a cache, a row per input."""
    check_output(out)
    check_log(out, None)
    from recert.cache import Cache

    write(Cache.open(store, public_key=public_key).certify(alpha=alpha), out, None, None)
