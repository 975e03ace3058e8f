"""recert certify, recert predict"""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from recert.cli import options as o
from recert.cli.output import Row, check_log, check_output, say, say_rows_sent, show, summary, write
from recert.cli.requirements import check_forms, check_labels, enough, met, said_of
from recert.cli.shards import parse_shard, plain_name
from recert.cli.stopping import INTERRUPTED
from recert.cli.unused_to_noise import said_of_training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from recert.cache import Cache
    from recert.certificates import Certificates
    from recert.data import Dataset
    from recert.engines import Execution
    from recert.noise import Noise

INPUTS_TRIED, VOTES_TRIED = 32, 16
"""A dry run draws two batches: of so many inputs at most, and at least so many votes of each."""


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert certify --model digits --data digits --noise gaussian:0.5 --samples 10000")(
        o.with_groups(certify)
    )
    app.command(epilog="Example: recert predict --model digits --data digits --noise gaussian:0.5")(
        o.with_groups(predict)
    )


def certify(
    *,
    model: o.ModelOptions,
    data: o.DataOptions,
    noise: o.Noise = "gaussian:0.5",
    samples: Annotated[int, typer.Option(metavar="N", help="Votes for the bound, per input.")] = 100_000,
    selection_samples: Annotated[
        int | None, typer.Option(metavar="N", help="Votes that choose the class, per input.", show_default="up to 500")
    ] = None,
    alpha: o.Alpha = 0.001,
    seed: o.Seed = 0,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            "-s",
            metavar="STORE",
            help="Folder of the cache, or an fsspec URL.",
            show_default="runs/MODEL-NOISE",
        ),
    ] = None,
    certificate: Annotated[
        o.CertificateKind,
        typer.Option(
            metavar="KIND", help="one-sided (Cohen's Algorithm 1), or two-sided, which uses the runner-up, too."
        ),
    ] = o.CertificateKind.TWO_SIDED,
    at: o.At = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="GOAL",
            help="acr or accuracy:R: share out votes for this goal, --samples in the mean; uniform: --samples for each input, "
            "which re-certification needs.",
            show_default="that of the store, else uniform",
        ),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            metavar="CHANGE",
            help="Let a faster network draw the votes (fp16 on a GPU, int8 on a CPU), and carry the certificates over to the model "
            "with few votes of its own.",
        ),
    ] = None,
    proxy_transfer: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="With --proxy: votes of the model itself, per input.", show_default="a tenth of --samples"
        ),
    ] = None,
    calibration: o.CalibrationData = None,
    identity: o.Identity = None,
    classes: o.Classes = None,
    shard: o.Shard = None,
    radii: o.Radii = "0.25,0.5,1.0",
    allow_numerics: Annotated[
        bool, typer.Option("--allow-numerics", help="Continue a cache although device, batch size or versions differ.")
    ] = False,
    same_model: o.SameModel = False,
    dry_run: o.DryRun = False,
    run: o.ExecutionOptions,
    result: o.ResultOptions,
    debug: o.Debug = False,
) -> None:
    """Certify a model and keep every vote; an interrupted run continues where it stopped."""
    shown, decided = o.parse_radii(radii), o.parse_at(at)
    check_forms(result.require)
    check_output(result.out)
    if decided is not None and proxy is not None:
        raise ValueError(
            "expected no --proxy with --at, got both; certify the proxy, then run recert recertify --at ..."
        )
    if proxy is None and proxy_transfer is not None:
        raise ValueError("expected --proxy with --proxy-transfer, got none")
    if proxy is None and calibration is not None:
        raise ValueError("expected --proxy with --calibration, got none")
    if proxy is not None and run.engine != "local":
        raise ValueError(
            f"expected --engine local with --proxy, got {run.engine}; certify the proxy there, then run recert recertify"
        )
    if proxy is not None and plan is not None:
        raise ValueError(
            f"expected no --plan with --proxy, got {plan}; votes are carried over from equally many of every input"
        )
    mine = parse_shard(shard)
    # Everything above needs no torch: mistakes in options are reported at once.
    import recert
    from recert.cli.loading import default_store, is_function
    from recert.cli.progress import drawn_progress

    smoothing = recert.parse_noise(noise)
    network, dataset = model.load(run.local_device), data.load()
    check_labels(result.require, dataset.labels)
    check_log(result.out, dataset.labels)
    store = default_store(model.model, noise) if store is None else store
    # Each shard has a store of its own, since one process writes to a store at a time; `recert cache merge` joins them.
    if mine is not None:
        dataset, store = mine.of(dataset), mine.store(store)
        # All stores of a function merge, in batches of whatever size it was asked.
        run = run if is_function(network) else run.of_a_shard(dataset.inputs[0].size, store)
    if dry_run and is_function(network):
        expected = recert.bill(
            network, dataset.inputs, samples=samples, selection_samples=selection_samples, store=store, batch_size=run.batch_size
        )  # fmt: skip
        say(str(expected))
        return
    if dry_run:
        from recert.cache import Cache
        from recert.certification import chosen_plan, usual_selection_samples

        before = Cache.manifest_at(store)
        planned = bool(chosen_plan(plan, before))
        selection_samples = selection_samples or usual_selection_samples(samples, store, before, planned=planned)
        _say_cost(network, dataset.inputs, smoothing, (selection_samples, samples), run.execution(), store)
        return
    settings: dict[str, Any] = {
        "noise": smoothing, "samples": samples, "selection_samples": selection_samples, "alpha": alpha, "seed": seed,
        "certificate": certificate.value, "store": store, "identity": identity,
    }  # fmt: skip
    try:
        with drawn_progress() as progress:
            execution = run.execution(progress, allow_numerics=allow_numerics, same_model=same_model)
            if decided is not None:
                settings["selection_samples"] = selection_samples
                certificates = recert.certify(
                    network,
                    dataset.inputs,
                    at=decided,
                    enough=enough(result.require, dataset.labels),
                    classes=classes,
                    execution=execution,
                    **settings,
                )
            elif proxy is None:
                cache = recert.certify(
                    network, dataset.inputs, plan=plan, classes=classes, execution=execution, **settings
                )
                certificates = cache.certificates
            else:
                by_proxy = recert.certify_by_proxy(
                    network, dataset.inputs, proxy=_proxy(network, proxy, run.runtime, data.data, dataset, smoothing, seed, calibration),
                    transfer=proxy_transfer, execution=execution, **settings,
                )  # fmt: skip
                cache, certificates = by_proxy.cache, by_proxy.certificates
    except KeyboardInterrupt:
        drawn = "what was drawn" if proxy is None else "what the proxy has drawn"
        say(f"stopped; {drawn} is kept in {store}: run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from None
    named = f"{proxy} of {model.model}" if proxy else model.model
    say_rows_sent(cache.rows_sent if decided is None else certificates.settings.rows_sent)
    _remember(store if decided is not None else cache, model=plain_name(named), data=plain_name(data.data))
    remark = f"{certificates.guarantee}\nEvery vote {'of the proxy ' if proxy else ''}is kept in {store}"
    if decided is None and not cache.manifest.plan:
        remark += f"; re-certify a changed model with:\n  recert recertify --store {store} ..."
    if decided is None:
        remark += said_of_training(network, dataset.inputs, certificates, model.model, run.batch_size)
    finish(certificates, dataset, result, summary(model.model, certificates, dataset.labels, shown), remark)


def _remember(written: "Cache | str", **names: str) -> None:
    """Note names for people. The votes are drawn and kept: whatever is wrong with the store now must not cost the result."""
    from recert.cache import Cache
    from recert.errors import RecertError

    try:
        # Nobody can have signed it yet, so no signature is asked for, whatever key is configured.
        cache = Cache.just_written(written) if isinstance(written, str) else written
        cache.remember_names(**names)
    except (RecertError, OSError) as error:
        say(f"[yellow]warning:[/yellow] {escape(f'the names of model and data were not noted: {error}')}")


def _proxy(
    network: "nn.Module",
    proxy: str,
    runtime: o.Runtime,
    data: str,
    dataset: "Dataset",
    noise: "Noise",
    seed: int,
    calibration: str | None,
) -> "str | nn.Module":
    """The proxy by its name, or made here if it needs calibration: on training data, so that it is the same for all shards."""
    from recert.approximations import needs_calibration
    from recert.cli.loading import approximated

    # A prepared model also takes a precision for a proxy, such as tf32, which is no approximation of the registry.
    calibrated = proxy not in list(o.Precision) and needs_calibration(proxy)
    if calibration is not None and not calibrated:
        raise ValueError(f"expected --calibration with a proxy that needs it, such as int8, got {proxy}; leave it out")
    if runtime is not o.Runtime.ONNXRUNTIME and not calibrated:
        return proxy
    made = approximated(network, proxy, data, dataset, noise, seed, calibrate_on=calibration, scored=False).model
    made._made_by = proxy  # type: ignore[assignment]
    return made


def predict(
    *,
    model: o.ModelOptions,
    data: o.DataOptions,
    noise: o.Noise = "gaussian:0.5",
    samples: Annotated[int, typer.Option(metavar="N", help="Votes per input.")] = 1_000,
    alpha: Annotated[
        float, typer.Option(metavar="X", help="Probability that the prediction of an input is wrong.")
    ] = 0.001,
    seed: o.Seed = 0,
    classes: o.Classes = None,
    run: o.ExecutionOptions,
    result: o.ResultOptions,
    debug: o.Debug = False,
) -> None:
    """Predict with the smoothed model, or abstain; no radius. The predictions go to --out."""
    check_forms(result.require, predictions=True)
    check_output(result.out)
    import recert
    from recert.cli.progress import drawn_progress

    network, dataset = model.load(run.local_device), data.load()
    check_labels(result.require, dataset.labels)
    check_log(result.out, dataset.labels)
    with drawn_progress() as progress:
        predicted = recert.predict(
            network, dataset.inputs, noise=recert.parse_noise(noise), samples=samples, alpha=alpha, seed=seed,
            classes=classes, execution=run.execution(progress),
        )  # fmt: skip
    say_rows_sent(predicted.settings.rows_sent)
    row = {
        "model": model.model,
        "abstained": predicted.abstention_rate,
        "passes per input": predicted.mean_forward_passes,
    }
    if dataset.labels is not None:
        row["smoothed accuracy"] = predicted.smoothed_accuracy(dataset.labels)
    remark = predicted.guarantee + said_of_training(network, dataset.inputs, predicted, model.model, run.batch_size)
    finish(predicted, dataset, result, row, remark)


def finish(
    certificates: "Certificates",
    data: "Dataset",
    wanted: o.ResultOptions,
    row: Row,
    remark: str,
    *,
    original: Row | None = None,
) -> None:
    """Write the rows if asked to, print what they come to, and leave with 3 if a requirement is not met.

    In a table the row of the original comes first, to compare with. The method is in the remark.
    """
    # The file first: a terminal that is gone must not take the result with it. And the table even if the disk is full.
    try:
        if wanted.out is not None:
            about = {"model": plain_name(str(row["model"])), "data": plain_name(data.name)}
            write(
                certificates, wanted.out, data.labels, data.indices, **about, requirements=tuple(wanted.require or ())
            )
    finally:
        rows = [original, row] if original is not None else [row]
        if wanted.format is o.Format.TABLE:
            show([{name: each.get(name) for name in row if name != "method"} for each in rows], wanted.format)
        else:
            show([row], wanted.format)
        say(remark, markup=False)
    invalid = certificates.nobody.sum()
    if invalid:
        # An invalid vote counts for no class: the certificate holds, but the model or its precision should be looked at.
        say(f"[yellow]warning:[/yellow] {invalid} invalid votes: logits were not finite, and count for no class")
    # All of them, not only up to the first that fails: in the log of a pipeline every number is wanted.
    failed = False
    for requirement in wanted.require or ():
        holds, value = met(requirement, certificates, data.labels)
        say(said_of(requirement, holds, value, certificates, data.labels))
        failed |= not holds
    if failed:
        raise typer.Exit(3)


def _say_cost(
    network: "nn.Module",
    inputs: "NDArray[np.float32]",
    noise: "Noise",
    votes: tuple[int, int],
    execution: "Execution",
    store: str,
) -> None:
    """Forward passes, time and disk, from two timed batches. `votes` are those that choose and those that bound, per input."""
    import time

    import numpy as np

    from recert.cache.size import expected_bytes
    from recert.noise import Stream
    from recert.sampling import Sampler, Work, collect

    prepared = execution.prepared(network, inputs)
    # Inputs from all of the data, since it depends on them how well votes compress.
    some = inputs[np.unique(np.linspace(0, len(inputs) - 1, INPUTS_TRIED).astype(int))]
    sampler = Sampler(prepared, some, noise=noise, seed=0, batch_size=execution.batch_size)
    each = max(2 * sampler.batch_size // len(some), VOTES_TRIED)
    # The calibration stream, so that no vote of a certificate is drawn.
    count = min(len(some), max(1, 2 * sampler.batch_size // each))
    works = [Work(i, Stream.CALIBRATION, range(each)) for i in range(count)]
    started = time.perf_counter()
    drawn = collect(sampler, works, "timing")
    tried, passes = each * len(works), len(inputs) * sum(votes)
    seconds = (time.perf_counter() - started) / tried * passes
    wanted = dict(zip((Stream.SELECTION, Stream.ESTIMATION), votes, strict=True))
    size = expected_bytes([one.votes for one in drawn], sampler.classes, len(inputs), wanted)
    say(
        f"{len(inputs)} inputs, {passes:,} forward passes, about {seconds / 60:.1f} minutes at {passes / seconds:,.0f} per second "
        f"(timed on {tried} samples), about {size / 1e6:.3g} MB in {store}, less what it holds already"
    )
