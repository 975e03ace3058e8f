"""recert bundle, recert check"""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recert.cli import options as o
from recert.cli.output import check_folder, print_json, say, show_sentence

if TYPE_CHECKING:
    from recert.bundles import Check


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: recert bundle winner.parquet --model winner.onnx --cache runs/digits-gaussian-0.5 -o winner.recert"
    )(bundle)
    app.command(epilog="Example: recert check winner.recert")(check)


def bundle(
    result: Annotated[Path, typer.Argument(help="What certify, recertify or select wrote with -o FILE.parquet.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="MODEL",
            help="The model file that is deployed (.onnx, .safetensors with its card), or a model by its spec.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="NAME.recert, one file; or a new folder.")],
    cache: Annotated[
        str | None,
        typer.Option("--cache", "--store", "-s", metavar="STORE", help="The cache that the result came from."),
    ] = None,
    whole_cache: Annotated[
        bool, typer.Option("--whole-cache/--manifest-only", help="The cache with its votes, or only what it is about.")
    ] = True,
    votes: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the votes of the changed model are kept.",
            show_default="STORE.replays",
            rich_help_panel="Essentials",
        ),
    ] = None,
    keep_votes: Annotated[
        bool,
        typer.Option(
            "--with-votes/--without-votes",
            help="Put these votes in, for check --audit.",
            rich_help_panel="Essentials",
        ),
    ] = True,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sign with this Ed25519 private key (PEM), e.g. from recert cache keygen."),
    ] = None,
    trust: o.Trust = False,
    debug: o.Debug = False,
) -> None:
    """Put a certified model, its certificates, cache, report and card into one file, with hashes of all, signed if a key is given."""
    check_folder(out.parent)
    from recert import bundles

    found = bundles.bundle(
        result,
        model,
        out,
        cache=cache,
        votes=(votes or True) if keep_votes else False,
        whole_cache=whole_cache,
        key=key,
        trust=trust,
    )
    _say_lines(found)
    say(f"wrote {out}; anyone can run:\n  recert check {out}{f' --public-key {key}.pub' if key else ''}", markup=False)


def check(
    bundle: Annotated[
        Path | None, typer.Argument(metavar="[BUNDLE]", help="NAME.recert or a folder; or give --model and --result.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", metavar="FILE", help="The model file that is deployed.")
    ] = None,
    result: Annotated[
        Path | None, typer.Option("--result", "-r", metavar="FILE", help="The certificates, FILE.parquet.")
    ] = None,
    cache: Annotated[
        str | None, typer.Option("--cache", "--store", "-s", metavar="STORE", help="The cache that they came from.")
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Refuse the bundle unless the owner of this Ed25519 public key (PEM) signed it.",
            show_default="what RECERT_PUBLIC_KEY names",
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Draw a random sample of the votes again; needs --data.")
    ] = False,
    data: Annotated[
        str | None, typer.Option("--data", "-d", metavar="DATA", help="The data that was certified, for --audit.")
    ] = None,
    split: o.Split = "test",
    original: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="With --audit, also replay the votes of the model that a changed one was made of: its name, spec or file.",
        ),
    ] = None,
    trust: o.Trust = False,
    format: o.OutputFormat = o.Format.TABLE,
    debug: o.Debug = False,
) -> None:
    """Is this the certified model? Exit code 0: all that was checked holds; 3: something does not, and is named; 1: it cannot be read."""
    if audit != (data is not None):
        raise ValueError("expected --audit and --data together, got one of them; votes are replayed on the data")
    if original is not None and not audit:
        raise ValueError("expected --original with --audit --data, got it alone; votes are replayed on the data")
    from recert import bundles
    from recert.cli.progress import drawn_progress

    known, first = None, None
    if data is not None:
        from recert.data import load_data
        from recert.models.loading import load_model

        known = load_data(data, split=split)
        first = None if original is None else load_model(original, trust=trust).model
    audited = None
    with ExitStack() as stack:
        if known is not None:
            progress = stack.enter_context(drawn_progress())
            audited = bundles.AuditInputs(known.inputs, progress, known.labels, first)
        found = bundles.check(
            bundle, model=model, result=result, cache=cache, public_key=public_key, trust=trust, audit=audited
        )
    _say_lines(found)
    if format is o.Format.JSON:
        lines = {"problems": found.problems, "checked": found.checked, "not checked": found.not_checked}
        print_json(
            {
                "holds": found.holds,
                "sentence": found.sentence,
                **{name: list(each) for name, each in lines.items()},
                "guarantee": found.guarantee,
            }
        )
    else:
        for sentence in (*found.problems, found.sentence):
            show_sentence(sentence)
    if not found.holds:
        raise typer.Exit(3)


def _say_lines(found: "Check") -> None:
    """What was looked at and what not, on stderr."""
    for word, lines in (("checked", found.checked), ("not checked", found.not_checked)):
        for line in lines:
            say(f"{word}: {line}", markup=False)
