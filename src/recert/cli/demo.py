"""recert demo: certify a small network, change it in five ways, re-certify each, and show what was gained."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recert.cli import options as o
from recert.cli.output import cell, check_folder, command_line, say
from recert.cli.tables import Column, print_columns

if TYPE_CHECKING:
    from recert.comparison import Curve
    from recert.report import Result

# Small numbers: the demo is to take about a minute on a laptop without a GPU.
CHANGES = ("fp16-weights", "bf16", "int8", "prune:0.1", "prune:0.2")
RADII = (0.25, 0.5, 1.0)
METHOD = "auto"
BUDGET = 0.05
BASELINE_BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.55)
HEADINGS = (
    "network", "ACR", "certified at 0.25", "certified at 0.5", "passes per image", "seconds",
    "passes from scratch, same ACR", "times fewer",
)  # fmt: skip


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert demo")(demo)


def demo(
    folder: Annotated[
        Path, typer.Option("--store", "-s", metavar="FOLDER", help="Where the cache and the results go.")
    ] = Path("recert-demo"),
    samples: Annotated[int, typer.Option(metavar="N", help="Votes per image for the original network.")] = 10_000,
    count: Annotated[int, typer.Option(metavar="N", help="Images.")] = 200,
    debug: o.Debug = False,
) -> None:
    """Certify a small network, change it in five ways, re-certify each, and show what was gained (about a minute)."""
    check_folder(folder)
    import recert
    from recert.cli.loading import approximated, load_inputs, load_network
    from recert.cli.progress import drawn_progress
    from recert.cli.report import write_report
    from recert.progress import about, part_of
    from recert.report import Result

    noise = recert.Gaussian(0.5)
    network = load_network("digits", device="cpu")
    data = load_inputs("digits", split="test", every=1, count=count)
    assert data.labels is not None
    say(
        f"[b]1.[/b] Certify a small network for handwritten digits: {count} images, {samples:,} noisy copies of each, sigma 0.5."
    )
    with drawn_progress(timed=False) as progress:
        cache = recert.certify(
            network, data.inputs, noise=noise, samples=samples, store=folder / "cache", progress=progress
        )
    original = cache.certificates
    say(f"Every vote is kept in {folder / 'cache'}.")
    say(
        "[b]2.[/b] Change the network in five ways, and certify each from the votes of the original. (Most of the time goes into the "
        "baseline: certifying each from scratch as well, on fresh noise, to measure what that costs.)"
    )
    about_all: dict[str, Any] = {
        "labels": data.labels,
        "positions": data.indices,
        "command": command_line(),
        "data": "digits test",
    }
    results = [Result("original", original, model="digits", **about_all)]
    rows = [_row("original", results[0], float(original.seconds.sum()))]
    for number, spec in enumerate(CHANGES, 1):
        changed = approximated(network, spec, "digits", data, noise, seed=0)
        with drawn_progress(timed=False) as show:
            compared = recert.compare(
                changed.model, data.inputs, cache, data.labels, methods=[METHOD],
                progress=about(part_of(number, len(CHANGES), spec), show),
                budgets=[round(BUDGET * samples)],
                baseline_budgets=[round(share * samples) for share in BASELINE_BUDGETS],
            )  # fmt: skip
        ours = compared.methods[METHOD]
        scratch = compared.baseline("scratch", ours)
        results.append(Result(spec, ours.results[-1], model=f"digits, {spec}", **about_all))
        rows.append(_row(spec, results[-1], ours.seconds[-1] * count, *_gain(ours, scratch)))
        for budget, baseline in zip(scratch.budgets, scratch.results, strict=True):
            name = f"{spec} from scratch, {budget} votes"
            results.append(Result(name, baseline, model=f"digits, {spec}", **about_all))
    _write(results, folder)
    write_report(results, folder / "report.html", list(RADII), data="digits", split="test")
    _show(rows)
    say(_explanation(original.settings.alpha))
    say(_missing([result for result in results if result.is_changed], results[0]))
    say(f"Files: {folder}/cache (votes), {folder}/*.parquet (a row per image), {folder}/report.html.")
    say("Next: recert certify --help, or the ten lines of Python in the README.")


def _row(name: str, result: "Result", seconds: float, scratch: str = "", fewer: str = "") -> tuple[str, ...]:
    from recert.report.summary import average_radius

    found = result.certificates
    shares = found.certified_accuracy(result.labels, [0.25, 0.5])  # type: ignore[arg-type]
    passes = f"{found.mean_forward_passes:,.0f}"
    return (
        name,
        cell("ACR", average_radius(result)),
        *(f"{a:.1%}" for a in shares),
        passes,
        f"{seconds:.1f}",
        scratch,
        fewer,
    )


def _show(rows: list[tuple[str, ...]]) -> None:
    columns = [Column(name, cells) for name, cells in zip(HEADINGS, zip(*rows, strict=True), strict=True)]
    gone = print_columns(columns, title="What re-certification saved", least=("seconds", "certified at 0.25"))
    if gone:
        say(f"not shown for lack of width: {', '.join(gone)}")


def _gain(ours: "Curve", scratch: "Curve") -> tuple[str, str]:
    """What certifying from scratch would have needed for the same average radius, and how many times that is."""
    from recert.report.gains import gain_over

    gain = gain_over(ours.passes[-1], ours.radii[-1], scratch.passes, scratch.radii)
    if gain is None:
        return f"< {scratch.passes[0]:,.0f}", "unknown"
    return f"{'> ' * gain.at_least}{gain.needed:,.0f}", str(gain).replace("×", "")


def _write(results: "list[Result]", folder: Path) -> None:
    """A file for each result; the baselines in a folder of their own."""
    from recert.report import write_result

    (folder / "from-scratch").mkdir(exist_ok=True)
    for result in results:
        name = re.sub(r"[^A-Za-z0-9.]+", "-", result.name)
        write_result(result, folder / ("from-scratch" if result.is_baseline else "") / f"{name}.parquet")


def _missing(changed: "list[Result]", original: "Result") -> str:
    """Of the ACR that is missing, how much the budget took and how much the changes did."""
    from recert.report.difference import Difference

    budget, change = [], []
    for result in changed:
        before, without_flips, after = Difference(result, original).average_radii
        if without_flips is None:
            return ""
        budget.append(before - without_flips)
        change.append(without_flips - after)
    return (
        f"The ACR is below the original's by {span(budget)} since a twentieth of the passes was spent, and by {span(change)} since votes "
        "flipped. The report keeps the two apart."
    )


def span(numbers: list[float]) -> str:
    """From the least to the most.

    >>> span([0.0124, 0.0158]), span([0.0004, 0.0076]), span([0.0, 0.0])
    ('0.012 to 0.016', '0.000 to 0.008', '0.000')
    """
    least, most = f"{min(numbers):.3f}", f"{max(numbers):.3f}"
    return least if least == most else f"{least} to {most}"


def _explanation(alpha: float) -> str:
    return (
        "\nACR: average certified radius, the mean l2 distance within which the prediction provably cannot change (0 where it is wrong or "
        "uncertain). Certified at r: images predicted right with at least that radius. Passes: forward passes per image. "
        f"Each certificate of the original is wrong with probability at most {alpha:g}, each of the others with at most {2 * alpha:g}.\n"
        "Passes from scratch: what certifying the changed network without the cache takes for the same ACR, measured on fresh noise."
    )
