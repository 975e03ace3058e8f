"""recert report"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recert.cli import options as o
from recert.cli.output import check_folder, check_output, say
from recert.cli.requirements import check_forms

if TYPE_CHECKING:
    from recert.report import Result


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert report base.parquet int8.parquet --data digits -o report.html")(report)


def report(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT", help="What certify or recertify wrote with -o FILE.parquet, or caches."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    data: Annotated[
        str | None, typer.Option("--data", "-d", metavar="DATA", help="The data that was certified: for pictures, labels and class names.")
    ] = None,
    split: o.Split = "test",
    radii: o.Radii = "0.25,0.5,1.0",
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Say of each result whether this holds, e.g. 'accuracy:0.5>=0.6' or 'acr>=0.4'. Repeatable."),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the charts here, too, as PDF, SVG and PNG.")
    ] = None,
    debug: o.Debug = False,
) -> None:  # fmt: skip
    """Write one self-contained page about results, and figures for papers."""
    at = o.parse_radii(radii)
    check_forms(require)
    check_output(out, None)
    check_folder(figures)
    if any(out.resolve() == each.resolve() for each in results):
        raise ValueError(f"expected another file for the page than the results, got {out}; give it with -o PAGE.html")
    from recert.report import read_result

    write_report(
        [read_result(path) for path in results], out, at, data=data, split=split, figures=figures, require=require or ()
    )


def write_report(
    results: "list[Result]",
    out: Path,
    radii: list[float],
    *,
    data: str | None,
    split: str,
    figures: Path | None = None,
    require: Sequence[str] = (),
) -> None:
    """Write the page and the figures, with all inputs beside it where they are many, and say where they are and what they say."""
    from recert.report.alignment import align
    from recert.report.figures import write_figures
    from recert.report.input_table import MOST_ROWS, inputs_as_csv
    from recert.report.page import compared_inputs, render_page, verdicts_of
    from recert.storage import write_whole

    aligned, pictures = align(results), None
    if data is not None:
        from recert.data import load_data
        from recert.report.matching import add_data

        aligned, pictures = add_data(aligned, load_data(data, split=split))
    many = len(aligned[0].certificates) > MOST_ROWS
    beside = out.with_name(f"{out.stem}-inputs.csv") if many else None
    page = render_page(aligned, radii, pictures, require, all_inputs=beside.name if beside else None)
    out.parent.mkdir(parents=True, exist_ok=True)
    if beside is not None:
        write_whole(beside, inputs_as_csv(compared_inputs(aligned, radii, require)))
        say(f"wrote {beside}: every input; the page has the {MOST_ROWS:,} that changed most")
    write_whole(out, page.encode())
    say(f"wrote {out} ({len(page.encode()) / 1e6:.1f} MB); open it in any browser")
    for verdict in verdicts_of(aligned, radii, require):
        for check in verdict.checks:
            say(
                f"{verdict.name}: {'not checked' if check.met is None else 'met' if check.met else 'not met'}: {check.text}",
                markup=False,
            )
    if aligned[0].labels is None:
        say("without labels there are no accuracies on it; give --data SPEC to have them")
    if figures is not None:
        files = write_figures(aligned, figures, radii)
        say(f"wrote {len(files)} files to {figures}")
