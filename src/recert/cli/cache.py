"""recert cache show, verify, export"""

from pathlib import Path
from typing import Annotated

import typer

from recert.cli import options as o
from recert.cli.output import say, show

app = typer.Typer(help="Look at, check and export caches.", no_args_is_help=True, rich_markup_mode="rich")

Where = Annotated[str, typer.Argument(help="Folder or URL of a cache.")]


@app.command("show", epilog="Example: recert cache show runs/digits-gaussian-0.5")
def show_cache(store: Where, format: o.OutputFormat = o.Format.TABLE, debug: o.Debug = False) -> None:
    """What a cache holds: model, noise, counts, numerics."""
    from recert.cache import Cache

    cache = Cache.open(store)
    m = cache.manifest
    facts = {
        "noise": m.noise, "seed": m.seed, "inputs": len(m.inputs), "input shape": " x ".join(map(str, m.input_shape)),
        "classes": m.classes, "selection votes per input": m.selection_samples, "votes per input": m.samples,
        "looks": ", ".join(map(str, m.looks)), "alpha": m.alpha, "certificate": m.certificate,
        "model weights": m.model.weights[:16], "model structure": m.model.structure[:16], **m.numerics, "parts": len(m.parts),
        "complete": not cache.missing(),
    }  # fmt: skip
    show(
        [{"fact": name, "value": str(value)} for name, value in facts.items()] if format is o.Format.TABLE else [facts],
        format,
    )


@app.command(epilog="Example: recert cache verify runs/digits-gaussian-0.5")
def verify(store: Where, debug: o.Debug = False) -> None:
    """Read every part and check it against its hash and its counts; exit with 1 if anything is wrong."""
    from recert.cache import Cache

    problems = Cache.diagnose(store)
    for problem in problems:
        print(problem)
    say("the cache is sound" if not problems else f"{len(problems)} problems")
    if problems:
        raise typer.Exit(1)


@app.command(epilog="Example: recert cache export runs/digits-gaussian-0.5 certificates.csv")
def export(
    store: Where,
    out: Annotated[Path, typer.Argument(help="Where to: .parquet or .csv.")],
    alpha: Annotated[float | None, typer.Option(help="Bound the votes anew at this alpha.")] = None,
    debug: o.Debug = False,
) -> None:
    """Write the certificates of a cache, a row per input."""
    from recert.cache import Cache
    from recert.cli.output import write

    write(Cache.open(store).certify(alpha=alpha), out, None, None)
