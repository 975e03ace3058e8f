"""recert demo: certify a small network, change it in five ways, re-certify each, and show what was gained."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from recert.cli.output import check_folder, print_table, say

if TYPE_CHECKING:
    from recert.comparison import Curve
    from recert.report import Result

# Small numbers: the demo is to take about a minute on a laptop without a GPU.
CHANGES = ("fp16-weights", "bf16", "int8", "prune:0.1", "prune:0.2")
RADII = (0.25, 0.5, 1.0)
BUDGET = 0.05
BASELINE_BUDGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.55)


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert demo")(demo)


def demo(
    folder: Annotated[Path, typer.Option("--store", "-s", help="Where the cache and the results go.")] = Path(
        "recert-demo"
    ),
    samples: Annotated[int, typer.Option(help="Votes per image for the original network.")] = 10_000,
    count: Annotated[int, typer.Option(help="Images.")] = 200,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Certify a small network, change it in five ways, re-certify each, and show what was gained (about a minute)."""
    check_folder(folder)
    import recert
    from recert.cli.loading import approximated, load_inputs, load_network
    from recert.cli.progress import drawn_progress
    from recert.cli.report import write_report
    from recert.report import Result

    noise = recert.Gaussian(0.5)
    network = load_network("digits", device="cpu")
    data = load_inputs("digits", split="test", every=1, count=count)
    assert data.labels is not None
    say(
        f"[b]1.[/b] Certify a small network for handwritten digits: {count} images, {samples:,} noisy copies of each, sigma 0.5."
    )
    with drawn_progress() as progress:
        cache = recert.certify(
            network, data.inputs, noise=noise, samples=samples, store=folder / "cache", progress=progress
        )
    original = cache.certificates
    say(f"   Every vote is kept in {folder / 'cache'}.")
    say(
        "[b]2.[/b] Change the network in five ways, and certify each from the votes of the original. (Most of the time from here on goes\n   into certifying each from scratch as well, on fresh noise, to measure what that would have cost.)"
    )
    table, results = _table(), [Result("original", original, data.labels, data.indices)]
    _add(table, "original", original, data.labels, float(original.seconds.sum()), "", "")
    for spec in CHANGES:
        changed = approximated(network, spec, "digits", data, noise, seed=0)
        with drawn_progress() as progress:
            compared = recert.compare(
                changed.model, data.inputs, cache, data.labels, methods=[METHOD], progress=progress,
                budgets=[round(BUDGET * samples)],
                baseline_budgets=[round(share * samples) for share in BASELINE_BUDGETS],
            )  # fmt: skip
        ours = compared.methods[METHOD]
        scratch = compared.baseline("scratch", ours)
        result = ours.results[-1]
        _add(table, spec, result, data.labels, ours.seconds[-1] * count, *_gain(ours, scratch))
        results.append(Result(spec, result, data.labels, data.indices))
        for budget, baseline in zip(scratch.budgets, scratch.results, strict=True):
            results.append(Result(f"{spec} from scratch, {budget} votes", baseline, data.labels, data.indices))
    _write(results, folder)
    write_report(results, folder / "report.html", list(RADII), data="digits", split="test")
    print_table(table, width=110)
    say(_explanation(original.settings.alpha))
    say(f"Files: {folder}/cache (votes), {folder}/*.parquet (a row per image), {folder}/report.html.")
    say("Next: recert certify --help, or the ten lines of Python in the README.")


METHOD = "auto"


def _table() -> Table:
    table = Table(title="What re-certification gained", title_justify="left", caption_justify="left")
    table.add_column("network")
    for name in (
        "ACR",
        *(f"certified\nat {r:g}" for r in RADII),
        "passes\nper image",
        "seconds",
        "from scratch,\nsame ACR",
        "speed-up",
    ):
        table.add_column(name, justify="right")
    return table


def _add(table: Table, name: str, result: object, labels: object, seconds: float, scratch: str, speedup: str) -> None:
    from recert.certificates import Certificates

    assert isinstance(result, Certificates)
    shares = [f"{a:.1%}" for a in result.certified_accuracy(labels, list(RADII))]  # type: ignore[arg-type]
    acr = result.average_certified_radius(labels)  # type: ignore[arg-type]
    table.add_row(
        name,
        f"{acr:.3f}",
        *shares,
        f"{result.mean_forward_passes:,.0f}",
        f"{seconds:.1f}",
        scratch,
        speedup,
        end_section=name == "original",
    )


def _gain(ours: "Curve", scratch: "Curve") -> tuple[str, str]:
    """What certifying from scratch would have needed for the same average radius, and how many times that is."""
    from recert.report.gains import gain_over

    gain = gain_over(ours.passes[-1], ours.radii[-1], scratch.passes, scratch.radii)
    if gain is None:
        return f"< {scratch.passes[0]:,.0f}", "unknown"
    return f"{'> ' * gain.at_least}{gain.needed:,.0f}", str(gain).replace("×", "x")


def _write(results: "list[Result]", folder: Path) -> None:
    """A file for each result; the baselines in a folder of their own."""
    from recert.report import write_result

    (folder / "from-scratch").mkdir(exist_ok=True)
    for result in results:
        name = re.sub(r"[^A-Za-z0-9.]+", "-", result.name)
        write_result(result, folder / ("from-scratch" if result.is_baseline else "") / f"{name}.parquet")


def _explanation(alpha: float) -> str:
    return (
        "\nACR: average certified radius, the mean l2 distance within which the prediction provably cannot change (0 where it is\n"
        "wrong or uncertain). Certified at r: images predicted right with at least that radius. Passes: forward passes per image.\n"
        f"The original's certificates are wrong with probability at most {alpha:g} each, the others' {2 * alpha:g}. 'From scratch' is what certifying\n"
        "the changed network without the cache would have cost for the same ACR, measured on fresh noise.\n"
        "That their ACR is a little below the original's is the price of one twentieth of the passes, not damage to the network."
    )
