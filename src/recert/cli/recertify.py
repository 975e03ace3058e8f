"""recert recertify"""

from dataclasses import asdict
from typing import Annotated

import typer

from recert.cli import options as o
from recert.cli.certify import finish
from recert.cli.output import check_output, say, show, summary
from recert.cli.requirements import check_forms, check_labels


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: recert recertify --store runs/digits-gaussian-0.5 --model digits --approximation int8 --data digits --samples 1000"
    )(recertify)


def recertify(
    model: o.Model,
    data: o.Data,
    store: o.Store,
    samples: Annotated[
        int, typer.Option(help="Forward passes on the changed model, about the mean per input.")
    ] = 1_000,
    approximation: Annotated[
        str | None,
        typer.Option(
            "--approximation", "-a", help="Change the model so; without it, the model is taken as changed already."
        ),
    ] = None,
    method: Annotated[str, typer.Option(help="auto, series, joint, paired, irs, scratch or scratch-cached.")] = "auto",
    plan: Annotated[
        str | None,
        typer.Option(help="acr, accuracy:R or uniform: where the budget goes; acr for auto, series and paired."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="Total error probability; twice the cache's if not given. What is proved for irs is more: see its guarantee."
        ),
    ] = None,
    reuse_threshold: Annotated[float, typer.Option(help="irs: above this cached bound, draw fresh noise.")] = 0.99,
    certificate: Annotated[
        o.CertificateKind | None,
        typer.Option(help="one-sided, or two-sided with the runner-up; the cache's if not given."),
    ] = None,
    looks: Annotated[
        int | None,
        typer.Option(
            help="Plan for so many looks: each has its share of alpha, and budgets of --samples, twice, four times as many, ... are fixed."
        ),
    ] = None,
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
    radii: o.Radii = "0.25,0.5,1.0",
    format: o.OutputFormat = o.Format.TABLE,
    out: o.Out = None,
    require: o.Require = None,
    trust: o.Trust = False,
    dry_run: o.DryRun = False,
    debug: o.Debug = False,
) -> None:
    """Certify a changed model from the cache of the original, for a fraction of the cost."""
    at = o.parse_radii(radii)
    check_forms(require)
    check_output(out)
    o.check_engine(engine, workers, ray_address)
    import recert
    from recert.cli.loading import approximated, load_inputs, load_network, prepared
    from recert.cli.progress import drawn_progress
    from recert.engines import on_engine
    from recert.recertification import Irs, method_named

    cache = recert.Cache.open(store)
    dataset = load_inputs(data, split=split, every=every, count=count)
    check_labels(require, dataset.labels)
    if dry_run:
        say(f"{len(dataset.inputs)} inputs, about {len(dataset.inputs) * samples:,} forward passes, nothing written")
        return
    network = load_network(model, device=o.home(engine, device), trust=trust)
    name = model
    if approximation is not None:
        changed = approximated(network, approximation, data, dataset, cache.manifest.noise, cache.manifest.seed)
        network, name = changed.model, f"{model}, {approximation}"
        say(changed.description)
    network = prepared(network, dataset.inputs, precision, channels_last, compile, runtime)
    manifest = cache.manifest
    chosen = Irs(reuse_threshold) if method == Irs.name else method_named(method)
    if samples > (most := chosen.most_passes(manifest.samples)):
        say(
            f"{samples:,} forward passes were asked for; with {manifest.samples:,} cached votes {method} gives no input more than {most:,}: "
            "for more, use --method scratch-cached, or certify with more votes first"
        )
    with drawn_progress() as progress, on_engine(
        engine.value, network, dataset.inputs, noise=manifest.noise, seed=manifest.seed, classes=manifest.classes,
        batch_size=batch_size or manifest.batch_size, device=device, workers=workers, address=ray_address,
    ) as source:  # fmt: skip
        result = recert.recertify(
            source, dataset.inputs, cache, samples=samples, alpha=alpha, method=chosen, plan=plan,
            certificate=None if certificate is None else certificate.value,
            looks=looks, batch_size=batch_size, progress=progress,
        )  # fmt: skip
    if result.settings.model == asdict(cache.manifest.model):
        say("this is the model that the cache was made with; its own, larger certificates: recert cache export")
    show([summary(name, result, dataset.labels, at)], format)
    say(result.guarantee)
    finish(result, dataset.labels, dataset.indices, out, require)
