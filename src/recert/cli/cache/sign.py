"""recert cache keygen, sign"""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from recert.cli import options as o
from recert.cli.cache.show import Where
from recert.cli.output import say


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert cache keygen signing-key.pem")(keygen)
    app.command(epilog="Example: recert cache sign runs/digits-gaussian-0.5 --key signing-key.pem")(sign)


def keygen(
    key: Annotated[Path, typer.Argument(help="File of the new private key; the public key gets .pub behind its name.")],
    debug: o.Debug = False,
) -> None:
    """Make an Ed25519 key pair for signing caches."""
    from recert.cache.signing import create_key

    public = create_key(key)
    say(escape(f"keep {key} to yourself, and publish {public} where people trust it"))


def sign(
    store: Where,
    key: Annotated[
        Path, typer.Option(metavar="FILE", help="Ed25519 private key (PEM), e.g. from recert cache keygen.")
    ],
    serial: Annotated[
        int | None,
        typer.Option(metavar="N", help="Its serial.", show_default="one more than that of your signature there"),
    ] = None,
    debug: o.Debug = False,
) -> None:
    """Sign a complete cache. Extending or changing it makes the signature invalid: sign again then."""
    from recert.cache import signing

    for warning in signing.sign(store, key, serial=serial):
        say(f"[yellow]warning:[/yellow] {escape(warning)}")
    made = signing.signature_of(store)
    say(
        escape(
            f"signed, {made.described if made else 'and changed since'}; anyone with the public key can run:\n  recert cache verify {store} --public-key {key}.pub"
        )
    )
