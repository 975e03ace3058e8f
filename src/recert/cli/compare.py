"""recert compare"""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recert.cli import options as o
from recert.cli.output import Row, check_output, say, show, summary

if TYPE_CHECKING:
    from recert.comparison import Comparison


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: recert compare --store runs/digits-gaussian-0.5 --model digits --approximation int8 --data digits"
    )(o.with_groups(compare))


def compare(
    *,
    model: o.ModelOptions,
    data: o.DataOptions,
    store: o.Store,
    public_key: o.PublicKey = None,
    approximation: Annotated[
        str | None,
        o.APPROXIMATION,
    ] = None,
    calibration: o.CalibrationData = None,
    budgets: Annotated[
        str, typer.Option(metavar="N,N,...", help="Forward passes per input, or percentages of the cache's votes.")
    ] = "1%,2%,3%,5%,7%,10%",
    baseline_budgets: Annotated[
        str, typer.Option(metavar="N,N,...", help="The same for the baselines, which need more.")
    ] = "1%,2%,5%,10%,20%,40%",
    methods: Annotated[
        str, typer.Option(metavar="NAME,...", help="Methods to compare with the baselines.")
    ] = "auto,series,irs",
    alpha: Annotated[
        float | None,
        typer.Option(metavar="X", help="Total error probability of a certificate.", show_default="twice the cache's"),
    ] = None,
    radii: o.Radii = "0.25,0.5,1.0",
    format: o.OutputFormat = o.Format.TABLE,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write the sweep here (.csv), or all that was found (.json)."),
    ] = None,
    votes: o.VotesOptions,
    run: o.ExecutionOptions,
    debug: o.Debug = False,
) -> None:
    """Sweep budgets: re-certification against certifying from scratch, at equal average certified radius."""
    at = o.parse_radii(radii)
    check_output(out, (".csv", ".json"))
    import recert
    from recert.cli.loading import approximated
    from recert.cli.progress import drawn_progress
    from recert.recertification import available_methods
    from recert.spot_check import check_original

    cache = recert.Cache.open(store, public_key=public_key)
    known = cache.manifest
    unknown = [method for method in methods.split(",") if method not in available_methods()]
    if unknown:
        raise ValueError(f"expected --methods out of {', '.join(available_methods())}, got {unknown[0]!r}")
    # With fewer samples nothing can be certified, even if all votes agree: such a budget would only waste time.
    least = recert.bounds.smallest_samples_to_certify(
        2 * known.alpha * known.family if alpha is None else alpha, sides=2
    )
    sweep, baseline_sweep = (parse_budgets(text, known.samples, least) for text in (budgets, baseline_budgets))
    network, dataset = model.load(run.local_device), data.load()
    if dataset.labels is None:
        raise ValueError("expected data with labels to compare average certified radii, got none")
    if approximation is None and calibration is not None:
        raise ValueError("expected --approximation with --calibration, got none")
    if approximation is not None:
        check_original(cache, network, dataset.inputs)
        changed = approximated(
            network, approximation, data.data, dataset, known.noise, known.seed, calibrate_on=calibration
        )
        network = changed.model
        say(changed.description)
    with drawn_progress() as progress:
        compared = recert.compare(
            network, dataset.inputs, cache, dataset.labels, budgets=sweep, baseline_budgets=baseline_sweep,
            methods=methods.split(","), alpha=alpha, keep=votes.keep, execution=run.execution(progress),
        )  # fmt: skip
    rows = []
    for curve in compared.curves:
        for budget, result, seconds in zip(curve.budgets, curve.results, curve.seconds, strict=True):
            row = {"method": curve.name, "certificate": curve.certificate, "samples": budget}
            numbers = summary("", result, dataset.labels, at)
            rows.append(
                {
                    **row,
                    **{k: v for k, v in numbers.items() if k not in ("model", "method")},
                    "seconds": seconds * len(result),
                }
            )
    if out is not None:
        _write(rows, compared, out)
    show(rows, format, title=f"{model.model}, {approximation or 'as it is'}, {store}")
    say(f"{compared.drawn / len(dataset.inputs):,.0f} forward passes per input were made for all rows together")
    if format is o.Format.TABLE:
        show(
            speedup_rows(compared),
            format,
            title="Speed-up in forward passes at equal ACR (by area under cost against ACR; by mean of the ratios)",
        )


def _write(rows: list[Row], compared: "Comparison", path: Path) -> None:
    """What was found, with all digits."""
    from recert.storage import write_whole

    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    if path.suffix == ".json":
        json.dump({"rows": rows, "speed-ups": speedup_rows(compared)}, text, indent=1)
    else:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    write_whole(path, text.getvalue().encode())
    say(f"wrote {len(rows)} rows to {path}")


def speedup_rows(compared: "Comparison") -> list[dict[str, str]]:
    """One row per method: speed-ups over both baselines, by both definitions, or the reason why there is none."""
    from recert.comparison import BASELINES

    return [
        {
            "method": name,
            "certificate": curve.certificate,
            **{
                f"over {base}, {kind}": str(value)
                for base in BASELINES
                for kind, value in curve.speedups(compared.baseline(base, curve)).items()
            },
        }
        for name, curve in compared.methods.items()
    ]


def parse_budgets(text: str, samples: int, least: int = 1) -> list[int]:
    """Numbers of samples, or percentages of the cache's, which are taken for no less than `least`.

    >>> parse_budgets("1%,500", 10_000), parse_budgets("1%,2%,10%", 500, least=11)
    ([100, 500], [11, 50])
    """
    try:
        sizes = [
            max(least, round(float(part[:-1]) / 100 * samples)) if part.endswith("%") else int(part)
            for part in text.split(",")
        ]
    except ValueError:
        raise ValueError(f"expected budgets like 1%,5%,10% or 100,500,1000, got {text!r}") from None
    return list(dict.fromkeys(sizes))
