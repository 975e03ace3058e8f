"""Runs a study: python -m studies NAME"""

import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from studies.catalogue import STUDIES, Grid, Study, study

_STUDIES = "\n\n".join(f"- [b]{entry.name}[/b]: {entry.sentence}" for entry in STUDIES.values())
_EPILOG = f"""Studies:

{_STUDIES}

Example: python -m studies speedup

On a GPU: python -m studies speedup --full --networks cifar-resnet20 --device cuda --minutes 9 --pack votes.tar

Later, from these votes alone: python -m studies speedup --full --networks cifar-resnet20 --no-draw"""

FROM_A_FILE = ("at-radius", "gamma", "gamma-as-published")
"""Studies that can do with votes in a file."""

app = typer.Typer(
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(epilog=_EPILOG)
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(metavar="STUDY", show_default=False, help=f"One of: {', '.join(STUDIES)}. None: list them."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="At the paper's size; else a few images, in minutes.")] = False,
    networks: Annotated[
        str | None,
        typer.Option(
            help="digits, cifar-resnet20, cifar-resnet110, tiny-resnet50, efficientnet-lite0, efficientnet-lite0-followed."
        ),
    ] = None,
    sigmas: Annotated[str | None, typer.Option(help="Noise scales: 0.25,0.5,1.0.")] = None,
    noises: Annotated[
        str | None,
        typer.Option(help="Noises of any family, in place of --sigmas: laplace:0.35,gaussian:0.5:grid=1/16."),
    ] = None,
    approximations: Annotated[str | None, typer.Option(help="Changes: fp16,int8-twin,prune:0.1.")] = None,
    count: Annotated[int | None, typer.Option(help="So many of the 500 test images, the first.")] = None,
    samples: Annotated[str | None, typer.Option(help="Votes in the cache, n: 10000,100000.")] = None,
    data: Annotated[
        str, typer.Option("--data", "-d", help="CIFAR-10: cifar10:DIR; tiny-imagenet:DIR and FILE.npz for the others.")
    ] = "cifar10",
    weights: Annotated[
        Path | None, typer.Option(help="Folder of trained weights, NAME-SIGMA.safetensors; else those shipped.")
    ] = None,
    store: Annotated[Path, typer.Option("--store", "-s", help="Folder where votes are stored.")] = Path("runs/studies"),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for results; results, or results/small without --full.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    precision: Annotated[
        str | None, typer.Option(help="How float32 networks are computed: fp32, tf32, bf16, fp16.")
    ] = None,
    compile: Annotated[bool, typer.Option("--compile", help="Compile the networks: pays for long runs.")] = False,
    batch_size: Annotated[int | None, typer.Option(help="Samples per batch; the fastest if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    minutes: Annotated[float | None, typer.Option(help="Stop cleanly before so many minutes are over.")] = None,
    draw_only: Annotated[bool, typer.Option("--draw-only", help="Only draw the votes that the study needs.")] = False,
    no_draw: Annotated[
        bool, typer.Option("--no-draw", help="Compute from stored votes alone; load no network.")
    ] = False,
    allow_numerics: Annotated[
        bool, typer.Option("--allow-numerics", help="Add votes to stores that were drawn on another device.")
    ] = False,
    votes: Annotated[
        Path | None,
        typer.Option(help="Of at-radius and gamma: votes of all networks in one .npz file, in place of stores."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Compute anew what is there already.")] = False,
    pack: Annotated[
        Path | None,
        typer.Option(help="At the end, put all votes of the store into tar files: votes.tar gives votes-1.tar, ..."),
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figures, too, when all is computed.")] = True,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Reproduce a table or figure of the paper on real networks; stop at any time, run again, it continues."""
    if name is None:
        print(list_of_studies(shutil.get_terminal_size().columns))
        return
    # The modules that load torch are imported here: --help and the list of studies do without.
    from studies.request import Clock, Request

    clock, chosen = Clock(minutes), study(name)
    grid = _grid(
        chosen.full if full else chosen.small, networks=networks, sigmas=sigmas, noises=noises, approximations=approximations,
        samples=samples, count=count,
    )  # fmt: skip
    if draw_only and no_draw:
        raise typer.BadParameter("expected --draw-only or --no-draw, got both")
    if votes is not None and chosen.name not in FROM_A_FILE:
        raise typer.BadParameter(f"expected --votes with one of {', '.join(FROM_A_FILE)}, got {chosen.name}")
    log(f"{chosen.name}: {chosen.sentence}")
    from studies.progress import shown_progress
    from studies.run import pack as pack_votes
    from studies.run import run

    with shown_progress() as progress:
        request = Request(
            study=chosen, grid=grid, store=store, out=out or (Path("results") if full else Path("results/small")),
            data=data, device=device, weights=weights, precision=precision, compiled=compile, batch_size=batch_size, seed=seed,
            draw_only=draw_only, may_draw=not no_draw, allow_numerics=allow_numerics, again=again, clock=clock, votes=votes,
            log=log, progress=progress,
        )  # fmt: skip
        finished = run(request)
    if finished and not draw_only:
        _publish(chosen, request.out, figures)
    if pack is not None:
        log(f"packed all votes of {store} into {', '.join(map(str, pack_votes(store, pack)))}")
    log("finished" if finished else "not finished: run again")


def log(line: str) -> None:
    """A remark, on stderr: stdout is for data."""
    print(line, file=sys.stderr)


def list_of_studies(columns: int) -> str:
    """Every study with its sentence, in lines of at most so many columns."""
    wide = max(map(len, STUDIES)) + 2
    return "\n".join(
        textwrap.fill(f"{entry.name:{wide}}{entry.sentence}", columns, subsequent_indent=" " * wide)
        for entry in STUDIES.values()
    )


def _publish(chosen: Study, out: Path, figures: bool) -> None:
    """A page and figures from all results of the study that are there."""
    from studies.figures import draw_figures
    from studies.page import section

    page = out / f"{chosen.name}.md"
    page.write_text(section(chosen.name, out), encoding="utf-8")
    log(f"wrote {page}")
    if not figures:
        return
    try:
        for figure in draw_figures(chosen.name, out):
            log(f"wrote {figure}")
    except ImportError as error:
        log(f"no figures: {error}")


def _grid(
    grid: Grid,
    *,
    networks: str | None,
    sigmas: str | None,
    noises: str | None,
    approximations: str | None,
    samples: str | None,
    count: int | None,
) -> Grid:
    """The study's own cells, with what was given in place of them."""
    if count is not None and count < 1:
        raise typer.BadParameter(f"expected --count of at least 1, got {count}")
    if sigmas is not None and noises is not None:
        raise typer.BadParameter("expected --sigmas or --noises, got both")
    given: dict[str, Any] = {
        "networks": None if networks is None else tuple(networks.split(",")),
        "sigmas": _noises(noises)
        if noises is not None
        else None
        if sigmas is None
        else _numbers(sigmas, "sigmas", float),
        "approximations": None if approximations is None else tuple(approximations.split(",")),
        "samples": None if samples is None else _numbers(samples, "samples", int),
        "count": count,
    }
    return replace(grid, **{key: value for key, value in given.items() if value is not None})


def _noises(text: str) -> tuple[float | str, ...]:
    """Specs as their noises write them; of plain Gaussian noise sigma, by which its results go."""
    from recert import Gaussian, parse_noise

    found = [parse_noise(part) for part in text.split(",")]
    return tuple(
        float(noise.sigma) if isinstance(noise, Gaussian) and noise.grid is None else noise.spec for noise in found
    )


def _numbers(text: str, name: str, kind: type) -> tuple[float, ...]:
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected --{name} like 0.25,0.5 or 1000,10000, got {text!r}") from None


def main() -> None:
    """Run the command line; errors that a user can do something about become one line and exit code 1."""
    from recert import RecertError

    try:
        app(prog_name="python -m studies")
    except KeyboardInterrupt:
        log("interrupted; what was drawn so far is in the store: run the same command again to continue")
        sys.exit(130)
    except (RecertError, ValueError, OSError, ImportError) as error:
        if "--debug" in sys.argv:
            raise
        log(f"error: {' '.join(str(error).split())}")
        sys.exit(1)


if __name__ == "__main__":
    main()
