"""recert cache show"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from recert.cli import options as o
from recert.cli.cache.histogram import Bin, bins, draw
from recert.cli.output import say, show

if TYPE_CHECKING:
    from recert.cache import Cache

Where = Annotated[str, typer.Argument(help="Folder or URL of a cache.")]
# Finer near 1, where small differences in the share of votes are large ones in the radius.
SHARES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
RADIUS_BINS = 10
EXPECTED = "expected of re-certifying a mildly changed model"


def add_to(app: typer.Typer) -> None:
    app.command("show", epilog="Example: recert cache show runs/digits-gaussian-0.5")(show_cache)


def show_cache(
    store: Where, format: o.OutputFormat = o.Format.TABLE, public_key: o.PublicKey = None, debug: o.Debug = False
) -> None:
    """What a cache holds: names, noise, counts, numerics, size; how sure the votes are, and the radii they certify."""
    from recert.cache import Cache

    cache = Cache.open(store, public_key=public_key)
    complete = not cache.missing() and not cache.to_be_planned()
    facts = {**_facts(cache, store), "complete": complete}
    usable = complete and cache.promises_votes and cache.digests
    charts = _charts(cache) if usable else {}
    gain = _expected_gain(cache) if usable and not cache.manifest.plan else []
    if format is o.Format.TABLE:
        told = [{"fact": name.replace("_", " "), "value": _told(value)} for name, value in facts.items()]
        show(told, format, prose=("value",))
        for title, chart in charts.items():
            draw(title, chart)
        if gain:
            title = f"{EXPECTED} (nothing is claimed)"
            show([_as_headings(row) for row in gain], format, title=title)
        if not complete:
            say(
                "votes are missing, so nothing is certified yet; run the same certify again: it continues where it stopped"
            )
        if not cache.promises_votes:
            say("votes of scattered samples, which certify nothing; certify with this store draws what they lack")
    elif format is o.Format.JSON:
        drawn = {title: [vars(b) for b in chart] for title, chart in charts.items()}
        show([facts | drawn | ({EXPECTED: gain} if gain else {})], format)
    else:
        show([facts], format)


def _told(value: Any) -> str:
    return (
        {True: "yes", False: "no"}[value]
        if isinstance(value, bool)
        else f"{value:,}"
        if isinstance(value, int)
        else {"True": "yes", "False": "no"}.get(str(value), str(value))  # numerics are texts
    )


def _as_headings(row: dict[str, Any]) -> dict[str, Any]:
    """Under headings that say what is compared with what."""
    headings = {"anew": "radius from scratch", "gain": "times fewer"}
    return {headings.get(name, name): value for name, value in row.items()}


def _expected_gain(cache: "Cache") -> list[dict[str, Any]]:
    from recert.gain import expected_gain

    return expected_gain(cache).to_rows()


def _facts(cache: "Cache", store: str) -> dict[str, Any]:
    from recert.cache.manifest import escaped, short, short_identity
    from recert.cache.parts import STREAMS

    m, looks = cache.manifest, cache.looks.known()
    votes = {f"{name} votes of all inputs": cache.totals(stream)[0] for name, stream in STREAMS.items()}
    promised = {
        "selection votes per input": m.selection_samples, "votes per input": m.samples,
        **({"votes shared out by plan": m.plan} if m.plan else {}),
        "looks": ", ".join(map(str, m.looks)), "alpha": m.alpha, "certificate": m.certificate, "family": m.family,
    }  # fmt: skip
    return {
        **{f"{escaped(kind)} name (untrusted)": escaped(name) for kind, name in m.names.items()},
        "noise": m.noise.spec, "seed": m.seed, "inputs": len(m.inputs), "input shape": " x ".join(map(str, m.input_shape)),
        "classes": m.classes, **(promised if cache.promises_votes else votes),
        "re-certified so far": f"{len(looks)} times, {len({look.model for look in looks})} different models",
        **({"same on somebody's word": "; ".join(map(short_identity, m.same_models))} if m.same_models else {}),
        "model weights": short(m.model.weights), "model structure": short(m.model.structure), **m.numerics.to_text(),
        "parts": len(m.parts), "megabytes": round(cache.stored_bytes / 1e6, 3),
        "signature": _signature(store),
    }  # fmt: skip


def _signature(store: str) -> str:
    """What the signature file says, which is shown and not checked."""
    from recert.cache.signing import is_signed, signature_of

    if not is_signed(store):
        return "none"
    found = signature_of(store)
    says = "a file that is none" if found is None else found.described
    return f"{says}; check it with verify --public-key"


def _charts(cache: "Cache") -> dict[str, list[Bin]]:
    import numpy as np

    result = cache.certificates
    radii = result.radius[result.certified]
    charts = {
        "inputs by share of votes for the class": bins(result.top_votes / np.maximum(result.samples, 1), list(SHARES))
    }
    if len(radii) and radii.max() > 0:
        edges = np.linspace(0.0, float(radii.max()), RADIUS_BINS + 1).tolist()
        charts["certified inputs by radius"] = bins(radii, edges)
    return charts
