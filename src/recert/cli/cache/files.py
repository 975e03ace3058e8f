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
        Path | None, typer.Option(help="Check the signature, too, with this Ed25519 public key (PEM).")
    ] = None,
    debug: o.Debug = False,
) -> None:
    """Read every part and check it against its hash and its counts; exit with 1 if anything is wrong."""
    from recert.cache import Cache
    from recert.cache.signing import check_signature

    problems = Cache.diagnose(store) if public_key is None else check_signature(store, public_key)
    for problem in problems:
        print(problem)
    sound = "the cache is sound" if public_key is None else "the cache is sound, and all of it is signed by this key"
    say(sound if not problems else f"{len(problems)} problems")
    if problems:
        raise typer.Exit(1)


def merge(
    out: Annotated[str, typer.Argument(help="Folder or URL of the new cache.")],
    stores: Annotated[list[str], typer.Argument(help="Caches of the same model, noise and seed; they are only read.")],
    allow_numerics: Annotated[
        bool, typer.Option(help="Merge although device, batch size or versions differ; recorded as mixed.")
    ] = False,
    debug: o.Debug = False,
) -> None:
    """Make one cache of several, e.g. of the shards of certify --shard; parts are copied byte for byte."""
    from recert.cache import merge as merge_stores

    whole = merge_stores(out, stores, allow_numerics=allow_numerics)
    m = whole.manifest
    votes = f"{m.samples} votes each" if whole.promises_votes else "scattered votes"
    say(escape(f"{out}: {len(m.inputs)} inputs of {len(stores)} stores, {votes}, in {len(m.parts)} parts"))
    if whole.missing():
        say("some votes are missing; run certify with this store: it continues where the shards stopped")


def export(
    store: Where,
    out: Annotated[Path, typer.Argument(help="Where to: .parquet or .csv.")],
    alpha: Annotated[float | None, typer.Option(help="Bound the votes anew at this alpha.")] = None,
    debug: o.Debug = False,
) -> None:
    """Write the certificates of a cache, a row per input."""
    check_output(out)
    check_log(out, None)
    from recert.cache import Cache

    write(Cache.open(store).certify(alpha=alpha), out, None, None)
