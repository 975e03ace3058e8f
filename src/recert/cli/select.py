"""recert select"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from recert.approximations.rules import candidates as written_out
from recert.cli import options as o
from recert.cli.output import RESULTS, check_output, print_json, say, say_drawn, show, write
from recert.cli.saving import MODELS, check_save, with_ending
from recert.cli.saving import save as save_model
from recert.cli.shards import plain_name
from recert.cli.tables import stdout_width

if TYPE_CHECKING:
    from torch import nn

    from recert.approximations import Approximation
    from recert.cache import Cache
    from recert.choosing import Chosen
    from recert.data import Dataset
    from recert.sampling.network import Model


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: recert select --store runs/digits-gaussian-0.5 --model digits --data digits --metric accuracy:0.5 --tolerance 0.02 "
        "--candidates int8,bf16,prune:0.3,prune:0.6"
    )(o.with_groups(select))


def select(
    *,
    model: o.ModelOptions,
    data: o.DataOptions,
    store: o.Store,
    public_key: o.PublicKey = None,
    candidates: Annotated[
        list[str],
        typer.Option(
            "--candidates",
            "-c",
            metavar="NAME,...",
            help="Compressions of the model (int8, prune:0.3+int8, int8\\[!conv1], ...; see [b]recert approximations[/b]) or models of their own, "
            "between commas; prune:0.1..0.6/0.1+int8 is one for each 0.1 from 0.1 to 0.6. Repeatable.",
        ),
    ],
    calibration: o.CalibrationData = None,
    metric: Annotated[
        str, typer.Option(metavar="NAME", help="accuracy:R (certified accuracy at radius R) or acr.")
    ] = "accuracy:0.5",
    tolerance: Annotated[
        float, typer.Option(metavar="X", help="How far the metric may lie below the original's.")
    ] = 0.01,
    cost: Annotated[
        str, typer.Option(metavar="NAME", help="bytes, parameters (non-zero) or latency (measured).")
    ] = "bytes",
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Forward passes of a finalist, per input in the mean.",
            show_default="20 times the square root of the cache's",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Total error probability, over all finalists.", show_default="twice the cache's"
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="bonferroni: all certificates of the winner hold together.")
    ] = None,
    format: o.OutputFormat = o.Format.TABLE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the winner's certificates (.parquet, .csv, .tsv) or everything else (.json) here.",
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw metric against cost here: .png, .svg or .pdf.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the winner here, with its card; the ending (.onnx or .safetensors) is the one that suits it.",
        ),
    ] = None,
    votes: o.VotesOptions,
    run: o.ExecutionOptions,
    debug: o.Debug = False,
) -> None:
    """Find the cheapest candidate that is certified nearly as well as the original. Exit code 3 if there is none."""
    specs = [spec for text in candidates for spec in written_out(text)]
    if not specs:
        raise ValueError("expected at least one candidate, got none; for example --candidates int8,bf16,prune:0.2")
    check_output(out, (*RESULTS, ".json"))
    check_output(picture, (".png", ".svg", ".pdf"))
    check_save(None if save is None else with_ending(save, ".onnx"), run)
    if save is not None and run.runtime is o.Runtime.ONNXRUNTIME:
        raise ValueError("expected no --runtime onnxruntime with --save, got both; save, then re-certify the winner so")
    import recert
    from recert.choosing.summary_text import text_picture
    from recert.cli.progress import drawn_progress

    cache, dataset = recert.Cache.open(store, public_key=public_key), data.load()
    if dataset.labels is None:
        raise ValueError("expected data with labels to score candidates, got none")
    network = model.load(run.local_device)
    _check_original(cache, run.execution().prepared(network, dataset.inputs), dataset)
    # A candidate that is named twice is raced once.
    found = {
        spec: _candidate(spec, network, cache, data.data, dataset, run.local_device, model.trust, calibration)
        for spec in dict.fromkeys(specs)
    }
    models = {spec: candidate if made is None else made.model for spec, (candidate, made) in found.items()}
    with drawn_progress() as progress:
        chosen = recert.select(
            models, dataset.inputs, cache, dataset.labels, metric=metric, tolerance=tolerance, cost=cost, samples=samples,
            alpha=alpha, family=family, keep=votes.keep, execution=run.execution(progress),
        )  # fmt: skip
    try:
        if out is not None:
            _write(chosen, out, dataset)
        if picture is not None:
            _draw(chosen, picture)
        if save is not None:
            _save_winner(chosen, save, model.model, found)
    finally:
        if format is o.Format.JSON:
            print_json(chosen.to_dict())
        else:
            show(
                _rows(chosen),
                format,
                prose=("status",),
                least=("race passes", "final passes", "predicted"),
                title=f"{model.model}: {metric} at least {chosen.target:.4f}, in order of cost",
            )
            say(text_picture(chosen, stdout_width()), markup=False)
        _conclude(chosen)
    if chosen.winner is None:
        raise typer.Exit(3)


def _check_original(cache: "Cache", network: "Model", data: "Dataset") -> None:
    """Refuse a store of another model: its certificates would be compared with those of candidates that are not its own."""
    from dataclasses import replace

    from recert.models.description import describe
    from recert.models.digest import identify
    from recert.spot_check import check_original

    # Numerics may differ: no vote of the original that is drawn here is used.
    told = describe(network)
    here = replace(cache.manifest, model=identify(network), names={"model": told.name}, model_parts=dict(told.parts))
    cache.manifest.check_context(here, allow_numerics=True)
    check_original(cache, network, data.inputs)


def _candidate(
    spec: str,
    network: "nn.Module",
    cache: "Cache",
    data_spec: str,
    data: "Dataset",
    device: str,
    trust: bool,
    calibration: str | None,
) -> "tuple[nn.Module, Approximation | None]":
    """An approximation of the original if there is one of this name, else a model of its own."""
    from recert.approximations import available_approximations, needs_calibration
    from recert.cli.loading import approximated, load_network

    known = available_approximations()
    if re.split(r"[:\[]", spec)[0] in {usage.partition(":")[0] for usage in known}:
        on = calibration if needs_calibration(spec) else None
        m = cache.manifest
        changed = approximated(network, spec, data_spec, data, m.noise, m.seed, calibrate_on=on)
        say(f"{spec}: {changed.description}", markup=False)
        return changed.model, changed
    try:
        return load_network(spec, device=device, trust=trust), None
    except (ValueError, OSError) as error:
        raise ValueError(
            f"expected candidates that are approximations ({', '.join(known)}) or models, got {spec!r}: {error}"
        ) from error


def _save_winner(
    chosen: "Chosen", path: Path, original: str, found: "dict[str, tuple[nn.Module, Approximation | None]]"
) -> None:
    if chosen.winner is None:
        say(f"there is no winner, so nothing was saved to {path}")
        return
    winner, made = found[chosen.winner]
    graph = any(hasattr(winner, name) for name in ("session", "constant"))  # of an ONNX file, or the twin of one
    suited = with_ending(path, ".onnx" if graph else ".safetensors")
    if path.suffix in MODELS and suited != path:
        say(f"the winner, {chosen.winner}, does not fit into {path.name}: it is saved as {suited.name}", markup=False)
    save_model(winner, suited, original if made is not None else chosen.winner, made)


def _rows(chosen: "Chosen") -> list[dict[str, Any]]:
    return [
        {
            "candidate": entry.name, chosen.cost_unit: f"{entry.cost:,.6g}", "status": entry.status.value,
            "certified": None if entry.certified is None else f"{entry.certified:.4f}",
            "predicted": f"{entry.predicted:.3f} ({entry.predicted_low:.3f} to {entry.predicted_high:.3f})",
            "race passes": entry.race_passes / chosen.inputs, "final passes": entry.final_passes / chosen.inputs,
        }
        for entry in chosen.entries
    ]  # fmt: skip


def _conclude(chosen: "Chosen") -> None:
    """The winner, what holds, and what it cost."""
    share = chosen.passes / chosen.exhaustive_passes
    with_base = (chosen.passes + chosen.base_passes) / (chosen.exhaustive_passes + chosen.base_passes)
    say(f"winner: [b]{escape(chosen.winner or 'none')}[/b]")
    say(chosen.guarantee, markup=False)
    say(f"cost: {chosen.cost_note}")
    say(
        f"{chosen.passes:,} forward passes ({chosen.passes / chosen.inputs:,.0f} per input); certifying all {len(chosen.entries)} from scratch "
        f"takes {chosen.exhaustive_passes:,}: {share:.1%} of that, or {with_base:.1%} if the original's {chosen.base_passes:,} are counted on both sides"
    )
    if chosen.drawn is not None and chosen.drawn < chosen.passes:
        say_drawn(chosen.drawn, chosen.passes, chosen.inputs)


def _draw(chosen: "Chosen", path: Path) -> None:
    from recert.figures.choice import draw_choice

    draw_choice(chosen, path)
    say(f"drew {path}")


def _write(chosen: "Chosen", path: Path, data: "Dataset") -> None:
    from recert.storage import write_whole

    if path.suffix == ".json":
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{json.dumps(chosen.to_dict(), indent=1)}\n".encode())
        say(f"wrote {path}")
    elif chosen.certificates is None:
        say(f"there is no winner, so nothing was written to {path}")
    else:
        write(
            chosen.certificates,
            path,
            data.labels,
            data.indices,
            model=plain_name(str(chosen.winner)),
            data=plain_name(data.name),
        )
