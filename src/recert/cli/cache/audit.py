"""recert cache audit"""

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recert.cli import options as o
from recert.cli.cache.show import Where
from recert.cli.output import cell, say, show, show_sentence

if TYPE_CHECKING:
    from recert.auditing import Audit
    from recert.cache import Cache
    from recert.data import Dataset


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert cache audit runs/digits-gaussian-0.5 --model digits --data digits")(
        o.with_groups(audit)
    )


def audit(
    *,
    store: Where,
    model: o.ModelOptions,
    data: o.DataOptions,
    samples: Annotated[
        int | None,
        typer.Option(metavar="N", help="Votes to replay, per input.", show_default="as many as it takes to decide"),
    ] = None,
    tolerate: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Share of wrong votes that is tolerated, for last-bit differences of another device.",
            show_default="0, or 0.001 if the numerics differ",
        ),
    ] = None,
    detect: Annotated[
        float, typer.Option(metavar="X", help="Say genuine only if more wrong votes than this share are excluded.")
    ] = 0.01,
    alpha: Annotated[float, typer.Option(metavar="X", help="Probability that the verdict is wrong.")] = 0.001,
    identity: o.Identity = None,
    same_model: o.SameModel = False,
    public_key: o.PublicKey = None,
    format: o.OutputFormat = o.Format.TABLE,
    run: o.ExecutionOptions,
    debug: o.Debug = False,
) -> None:
    """Replay a random sample of a cache's votes: genuine (exit code 0), not genuine or not decided (3)."""
    import recert
    from recert.auditing import Verdict
    from recert.auditing.result import LIMITS
    from recert.cli.progress import drawn_progress

    cache = recert.Cache.open(store, public_key=public_key)
    dataset = _cached(data.load(), cache)
    network = model.load(run.local_device)
    with drawn_progress() as progress:
        found = recert.audit(
            network, dataset.inputs, cache, samples=samples, alpha=alpha, tolerate=tolerate, detect=detect,
            identity=identity, execution=run.execution(progress, same_model=same_model),
        )  # fmt: skip
    facts = _facts(found, dataset)
    if format is o.Format.TABLE:
        show_sentence(found.sentence)
        show([{"fact": name, "value": value} for name, value in _told(facts).items()], format, prose=("value",))
    else:
        show([facts], format)
        say(found.sentence, markup=False)
    if len(found.input) < found.cached_inputs:
        say(f"{found.cached_inputs - len(found.input)} inputs of the cache are not in this data and were not audited")
    say(LIMITS)
    if found.verdict is not Verdict.GENUINE:
        raise typer.Exit(3)


def _facts(found: "Audit", dataset: "Dataset") -> dict[str, Any]:
    """What was found, with the radius that survives the wrong votes that it could not exclude."""
    import numpy as np

    from recert.noise import input_digest

    # Backwards, so that of equal inputs the first is written last and remains.
    row = {digest: i for i, digest in reversed(list(enumerate(map(input_digest, dataset.inputs))))}
    labels = None if dataset.labels is None else dataset.labels[[row[digest] for digest in found.input]]
    claimed = found.cache.certificates
    known = claimed.prediction if labels is None else labels
    worst = found.wrong_upper[np.isfinite(found.wrong_upper)]
    return {
        **found.to_dict(),
        "largest bound of one input": float(worst.max()) if len(worst) else None,
        "inputs with wrong votes": int((found.wrong > 0).sum()),
        "average certified radius claimed": float(claimed.average_certified_radius(known)),
        "average certified radius that survives": found.surviving_average_radius(labels),
    }


def _told(facts: dict[str, Any]) -> dict[str, str]:
    """The facts as people read them: shares as percentages, with three digits."""
    streams = {
        f"{stream} votes": f"{facts[f'{stream} replayed']:,} of {facts[f'{stream} population']:,} replayed, {facts[f'{stream} wrong']:,} wrong; "
        f"at most {_percent(facts[f'{stream} upper'])} of all"
        for stream in ("selection", "estimation")
    }
    worst = facts["largest bound of one input"]
    rows_sent = {"rows sent": f"{facts['rows sent']:,}"} if "rows sent" in facts else {}
    return {
        "verdict": facts["verdict"],
        "inputs audited": f"{facts['audited inputs']:,} of {facts['cached inputs']:,}",
        **streams,
        "inputs with wrong votes": f"{facts['inputs with wrong votes']:,}",
        "wrong votes of one input": "not known"
        if worst is None
        else f"at most {_percent(worst)}, each input on its own",
        "ACR claimed": cell("ACR", facts["average certified radius claimed"]),
        "ACR that survives": f"at least {cell('ACR', facts['average certified radius that survives'])}, with as many wrong votes as there may be",
        "tolerated share of wrong votes": f"{facts['tolerate']:.3g}",
        "share that is to be detected": f"{facts['detect']:.3g}",
        "error probability": f"{facts['alpha']:g}",
        "numerics that differ": ", ".join(facts["other numerics"]) or "none",
        "digests of the model": "not those of the cache" if facts["other digests"] else "those of the cache",
        "forward passes": f"{facts['forward passes']:,}",
        "seconds": cell("seconds", facts["seconds"]),
        **rows_sent,
    }


def _percent(bound: float) -> str:
    """With three digits, rounded up: what is shown is no less than what may be.

    >>> _percent(0.00995134), _percent(0.166201), _percent(0.0), _percent(1.0)
    ('0.996%', '16.7%', '0%', '100%')
    """
    if bound <= 0:
        return "0%"
    unit = 10.0 ** (math.floor(math.log10(100 * bound)) - 2)
    return f"{math.ceil(100 * bound / unit - 1e-9) * unit:.3g}%"


def _cached(dataset: "Dataset", cache: "Cache") -> "Dataset":
    """The inputs that the cache knows; all of them if it knows none, so that the error names them."""
    from dataclasses import replace

    import numpy as np

    from recert.noise import input_digest

    known = set(cache.manifest.inputs)
    rows = np.array([i for i, x in enumerate(dataset.inputs) if input_digest(x) in known], dtype=np.int64)
    if len(rows) == 0:
        return dataset
    labels = None if dataset.labels is None else dataset.labels[rows]
    return replace(dataset, inputs=dataset.inputs[rows], labels=labels, indices=dataset.indices[rows])
