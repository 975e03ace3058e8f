"""recert certify, recert predict"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recert.cli import options as o
from recert.cli.output import check_output, say, show, summary, write
from recert.cli.requirements import check_forms, check_labels, met
from recert.cli.shards import parse_shard, plain_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from recert.certificates import Certificates

BYTES_PER_VOTE = 0.25  # generous: measured parts take about 0.14 bytes per vote at ten classes


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Example: recert certify --model digits --data digits --noise gaussian:0.5 --samples 10000")(
        certify
    )
    app.command(epilog="Example: recert predict --model digits --data digits --noise gaussian:0.5")(predict)


def certify(
    model: o.Model,
    data: o.Data,
    noise: o.Noise = "gaussian:0.5",
    samples: Annotated[int, typer.Option(help="Votes that bound, per input.")] = 100_000,
    selection_samples: Annotated[
        int | None, typer.Option(help="Votes that choose the class, per input; up to 500 if not given.")
    ] = None,
    alpha: o.Alpha = 0.001,
    seed: o.Seed = 0,
    store: Annotated[
        str | None,
        typer.Option("--store", "-s", help="Folder of the cache, or an fsspec URL; runs/MODEL-NOISE if not given."),
    ] = None,
    certificate: Annotated[
        o.CertificateKind, typer.Option(help="one-sided: Algorithm 1; two-sided: with the runner-up.")
    ] = o.CertificateKind.TWO_SIDED,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="Let a faster network draw the votes (fp16 on a GPU, int8 on a CPU; see [b]recert approximations[/b]) and "
            "carry the certificates over to the model with few votes of its own."
        ),
    ] = None,
    proxy_transfer: Annotated[
        int | None, typer.Option(help="Votes of the model itself, per input; a tenth of --samples if not given.")
    ] = None,
    split: o.Split = "test",
    every: o.Every = 1,
    count: o.Count = None,
    shard: o.Shard = None,
    device: o.Device = "cpu",
    precision: o.UsePrecision = None,
    channels_last: o.ChannelsLast = True,
    compile: o.Compile = False,
    runtime: o.UseRuntime = o.Runtime.TORCH,
    engine: o.UseEngine = o.Engine.LOCAL,
    workers: o.Workers = None,
    ray_address: o.RayAddress = None,
    batch_size: o.BatchSize = None,
    radii: o.Radii = "0.25,0.5,1.0",
    format: o.OutputFormat = o.Format.TABLE,
    out: o.Out = None,
    require: o.Require = None,
    allow_numerics: Annotated[
        bool, typer.Option(help="Continue a cache although device, batch size or versions differ.")
    ] = False,
    trust: o.Trust = False,
    dry_run: o.DryRun = False,
    debug: o.Debug = False,
) -> None:
    """Certify a model and keep every vote; an interrupted run continues where it stopped."""
    at = o.parse_radii(radii)
    check_forms(require)
    check_output(out)
    o.check_engine(engine, workers, ray_address)
    if proxy is None and proxy_transfer is not None:
        raise ValueError("expected --proxy with --proxy-transfer, got none")
    mine = parse_shard(shard)
    import recert
    from recert.approximations import needs_calibration
    from recert.cli.loading import approximated, default_store, load_inputs, load_network, prepared
    from recert.cli.progress import drawn_progress
    from recert.engines import on_engine
    from recert.noise import parse_noise

    smoothing = parse_noise(noise)
    network = load_network(model, device=o.home(engine, device), trust=trust)
    dataset = load_inputs(data, split=split, every=every, count=count)
    check_labels(require, dataset.labels)
    store = store or default_store(model, noise)
    if mine is not None:
        dataset, store = mine.of(dataset), mine.store(store)
    stand_in: str | nn.Module | None = proxy
    if proxy is not None and engine is o.Engine.RAY:
        raise ValueError(
            "expected --engine local with --proxy, got ray; certify the proxy there, then run recert recertify"
        )
    # A prepared model also takes a precision for a proxy, such as tf32, which is no approximation of the registry.
    calibrated = proxy is not None and proxy not in list(o.Precision) and needs_calibration(proxy)
    if proxy is not None and (runtime is o.Runtime.ONNXRUNTIME or calibrated):
        # Calibrated on training data: the same proxy for other inputs and shards.
        stand_in = approximated(network, proxy, data, dataset, smoothing, seed).model
        stand_in._made_by = proxy  # type: ignore[assignment]
    network = prepared(network, dataset.inputs, precision, channels_last, compile, runtime)
    passes = len(dataset.inputs) * (samples + (selection_samples or 500))
    if dry_run:
        _say_cost(network, dataset.inputs, smoothing, passes, batch_size, store)
        return
    before = recert.Cache.manifest_at(store)
    try:
        with drawn_progress() as progress, on_engine(
            engine.value, network, dataset.inputs, noise=smoothing, seed=seed, device=device,
            batch_size=batch_size or (before.batch_size if before else None), workers=workers, address=ray_address, allow_numerics=allow_numerics,
        ) as source:  # fmt: skip
            certified = recert.certify(
                source, dataset.inputs, noise=smoothing, samples=samples, selection_samples=selection_samples, alpha=alpha,
                seed=seed, certificate=certificate.value, store=store, allow_numerics=allow_numerics, batch_size=batch_size,
                proxy=stand_in, proxy_transfer=proxy_transfer, progress=progress,
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"stopped; what was drawn is kept in {store}: run the same command again to continue")
        raise typer.Exit(130) from None
    cache = certified if isinstance(certified, recert.Cache) else certified.cache
    cache.remember_names(model=plain_name(f"{proxy} of {model}" if proxy else model), data=plain_name(data))
    result = certified.certificates
    show([summary(model, result, dataset.labels, at)], format)
    say(
        f"{result.guarantee}\nEvery vote {'of the proxy ' if proxy else ''}is kept in {store}; "
        f"re-certify a changed model with: recert recertify --store {store} ..."
    )
    finish(result, dataset.labels, dataset.indices, out, require)


def predict(
    model: o.Model,
    data: o.Data,
    noise: o.Noise = "gaussian:0.5",
    samples: Annotated[int, typer.Option(help="Votes per input.")] = 1_000,
    alpha: o.Alpha = 0.001,
    seed: o.Seed = 0,
    split: o.Split = "test",
    every: o.Every = 1,
    count: o.Count = None,
    device: o.Device = "cpu",
    precision: o.UsePrecision = None,
    channels_last: o.ChannelsLast = True,
    compile: o.Compile = False,
    runtime: o.UseRuntime = o.Runtime.TORCH,
    engine: o.UseEngine = o.Engine.LOCAL,
    workers: o.Workers = None,
    ray_address: o.RayAddress = None,
    batch_size: o.BatchSize = None,
    format: o.OutputFormat = o.Format.TABLE,
    out: o.Out = None,
    require: o.Require = None,
    trust: o.Trust = False,
    debug: o.Debug = False,
) -> None:
    """Predict with the smoothed model, or abstain; no radius. The predictions go to --out."""
    check_forms(require, predictions=True)
    check_output(out)
    o.check_engine(engine, workers, ray_address)
    import recert
    from recert.cli.loading import load_inputs, load_network, prepared
    from recert.cli.progress import drawn_progress
    from recert.engines import on_engine
    from recert.noise import parse_noise

    network = load_network(model, device=o.home(engine, device), trust=trust)
    dataset = load_inputs(data, split=split, every=every, count=count)
    network = prepared(network, dataset.inputs, precision, channels_last, compile, runtime)
    with drawn_progress() as progress, on_engine(
        engine.value, network, dataset.inputs, noise=parse_noise(noise), seed=seed, batch_size=batch_size, device=device,
        workers=workers, address=ray_address,
    ) as source:  # fmt: skip
        result = recert.predict(
            source, dataset.inputs, noise=parse_noise(noise), samples=samples, alpha=alpha, seed=seed, batch_size=batch_size, progress=progress
        )  # fmt: skip
    row = {"model": model, "abstained": result.abstention_rate, "passes per input": result.mean_forward_passes}
    if dataset.labels is not None:
        row["smoothed accuracy"] = result.smoothed_accuracy(dataset.labels)
    show([row], format)
    say(result.guarantee)
    finish(result, dataset.labels, dataset.indices, out, require)


def finish(
    result: "Certificates",
    labels: "NDArray[np.int64] | None",
    indices: "NDArray[np.int64]",
    out: Path | None,
    require: list[str] | None,
) -> None:
    """Write the rows if asked to, and leave with 3 if a requirement is not met."""
    if result.nobody.sum():
        say(
            f"[yellow]warning:[/yellow] {result.nobody.sum()} samples had logits that were not finite; they voted for nobody"
        )
    if out is not None:
        write(result, out, labels, indices)
    failed = False
    for requirement in require or ():
        holds, value = met(requirement, result, labels)
        say(f"{'met' if holds else '[red]not met[/red]'}: {requirement} (it is {value:.4f})")
        failed |= not holds
    if failed:
        raise typer.Exit(3)


def _say_cost(
    network: object, inputs: "NDArray[np.float32]", noise: object, passes: int, batch_size: int | None, store: str
) -> None:
    """Forward passes, time and disk, from two timed batches."""
    import time

    from recert.noise import Noise, Stream
    from recert.sampling import Sampler, Work, collect

    assert isinstance(noise, Noise)
    sampler = Sampler(network, inputs[:1], noise=noise, seed=0, batch_size=batch_size)  # type: ignore[arg-type]
    tried = 2 * sampler.batch_size
    started = time.perf_counter()
    collect(sampler, [Work(0, Stream.CALIBRATION, range(tried))], "timing")
    seconds = (time.perf_counter() - started) / tried * passes
    say(
        f"{len(inputs)} inputs, {passes:,} forward passes, about {seconds / 60:.1f} minutes at {passes / seconds:,.0f} per second "
        f"(timed on {tried} samples), about {passes * BYTES_PER_VOTE / 1e6:.1f} MB in {store}, less what it holds already"
    )
