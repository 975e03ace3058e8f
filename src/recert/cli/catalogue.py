"""recert models, recert approximations"""

import typer

from recert.cli import options as o
from recert.cli.output import say, show


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert models")(models)
    app.command(epilog="Example: recert approximations")(approximations)


def models(format: o.OutputFormat = o.Format.TABLE) -> None:
    """Which models are known by name, and how to name your own."""
    from recert.models.registry import available_models
    from recert.models.specs import SPEC_FORMS

    show(
        [
            {
                "model": entry.name,
                "weights for sigma": ", ".join(entry.sigmas) or "none",
                "what it is": entry.description,
            }
            for entry in available_models()
        ],
        format,
        prose=("weights for sigma", "what it is"),
    )
    if format is o.Format.TABLE:
        forms = [{"form": form, "what it names": text} for form, text in SPEC_FORMS]
        show(forms, format, prose=("what it names",), title="What --model takes: these names, and models of your own")


def approximations(format: o.OutputFormat = o.Format.TABLE) -> None:
    """Which compressions can be applied by name."""
    from recert.approximations import available_approximations

    rows = [{"approximation": name, "what it does": text} for name, text in available_approximations().items()]
    show(rows, format, prose=("what it does",))
    say(
        "one after the other: prune:0.3+int8; limited to layers by name, or without some: prune:0.5[layer3.*], int8[!conv1,!fc]",
        markup=False,
    )
