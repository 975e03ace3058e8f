"""recert compare"""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recert.approximations.rules import candidates as written_out
from recert.cli import options as o
from recert.cli.compared import answers, show_answer, speedup_rows, sweep_rows, without
from recert.cli.output import check_output, say, show

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
        list[str] | None,
        typer.Option(
            "--approximation",
            "-a",
            metavar="CHANGE,...",
            help="Compressions to apply, each by itself, such as int8,prune:0.3 (see [b]recert approximations[/b]). Repeatable.",
            show_default="unchanged",
        ),
    ] = None,
    calibration: o.CalibrationData = None,
    budgets: Annotated[
        str, typer.Option(metavar="N,N,...", help="Forward passes per input, or percentages of the cache's votes.")
    ] = "1%,2%,3%,5%,7%,10%",
    baseline_budgets: Annotated[
        str, typer.Option(metavar="N,N,...", help="The same for the baselines, which need more.")
    ] = "1%,2%,5%,10%,20%,40%",
    methods: Annotated[
        str, typer.Option(metavar="NAME,...", help="Methods to compare with the baselines, such as auto,series,irs.")
    ] = "auto",
    alpha: Annotated[
        float | None,
        typer.Option(metavar="X", help="Total error probability of a certificate.", show_default="twice the cache's"),
    ] = None,
    radii: o.Radii = "0.25,0.5,1.0",
    all_rows: Annotated[bool, typer.Option("--all", help="Show all budgets and both baselines, too.")] = False,
    format: o.OutputFormat = o.Format.TABLE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write all budgets here (.csv), or all that was found (.json)."
        ),
    ] = None,
    votes: o.VotesOptions,
    run: o.ExecutionOptions,
    debug: o.Debug = False,
) -> None:
    """What re-certification saves: passes and seconds against certifying from scratch, at equal average certified radius."""
    at = o.parse_radii(radii)
    check_output(out, (".csv", ".json"))
    import recert
    from recert.approximations import needs_calibration
    from recert.cli.loading import approximated
    from recert.cli.progress import drawn_progress
    from recert.progress import about, part_of
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
    changes = list(dict.fromkeys(change for text in approximation or () for change in written_out(text)))
    if not changes and calibration is not None:
        raise ValueError("expected --approximation with --calibration, got none")
    if changes:
        check_original(cache, network, dataset.inputs)
    found: dict[str, Comparison] = {}
    with drawn_progress() as progress:
        for number, change in enumerate(changes or [model.model], 1):
            changed = network
            if changes:
                # Each is compressed when it is its turn: not all of them are in memory together.
                on = calibration if len(changes) == 1 or needs_calibration(change) else None
                made = approximated(network, change, data.data, dataset, known.noise, known.seed, calibrate_on=on)
                changed = made.model
                say(f"{change}: {made.description}", markup=False)
            found[change] = recert.compare(
                changed, dataset.inputs, cache, dataset.labels, budgets=sweep, baseline_budgets=baseline_sweep,
                methods=methods.split(","), alpha=alpha, keep=votes.keep,
                execution=run.execution(about(part_of(number, len(changes), change), progress)),
            )  # fmt: skip
    answer = [row for change, compared in found.items() for row in answers(change, compared)]
    rows = [row for change, compared in found.items() for row in sweep_rows(change, compared, dataset, at)]
    speedups = [{"change": change, **row} for change, compared in found.items() for row in speedup_rows(compared)]
    if out is not None:
        _write({"answer": answer, "rows": rows, "speed-ups": speedups}, out)
    if format is o.Format.TABLE:
        show_answer(answer, cache, dataset, model.model)
    elif not all_rows:
        show(answer, format)
    if all_rows:
        # Which change it is needs no column where there is one.
        once = ("change",) if format is o.Format.TABLE and len(found) == 1 else ()
        accuracies = [name for name in rows[0] if name.startswith("accuracy")]
        order = ("seconds", "abstained", *accuracies[::-1])
        show([without(row, once) for row in rows], format, title="All budgets", least=order)
    drawn = sum(compared.drawn for compared in found.values())
    spent = f"{drawn / len(dataset.inputs):,.0f} forward passes per input were made"
    say(f"{spent} for all of this together" if drawn else "no forward pass was made: all votes had been kept")
    if format is o.Format.TABLE and all_rows:
        title = "Times fewer forward passes at equal ACR (by area under cost against ACR; by mean of the ratios)"
        show([without(row, once) for row in speedups], format, title=title, least=("certificate",))


def _write(found: dict[str, list[Any]], path: Path) -> None:
    """What was found, with all digits."""
    from recert.storage import write_whole

    path.parent.mkdir(parents=True, exist_ok=True)
    text, rows = io.StringIO(newline=""), found["rows"]
    if path.suffix == ".json":
        json.dump(found, text, indent=1)
    else:
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    write_whole(path, text.getvalue().encode())
    say(f"wrote {len(rows)} rows to {path}")


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
