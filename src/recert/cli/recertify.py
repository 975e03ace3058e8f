"""recert recertify"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from recert.cli import options as o
from recert.cli.certify import finish
from recert.cli.output import Row, check_log, check_output, say, say_drawn, say_rows_sent, summary
from recert.cli.requirements import check_forms, check_labels, enough
from recert.cli.saving import check_ending, check_save
from recert.cli.saving import save as save_as_file

if TYPE_CHECKING:
    from recert.cache import Cache
    from recert.data import Dataset


def add_to(app: typer.Typer) -> None:
    app.command(
        epilog="Example: recert recertify --store runs/digits-gaussian-0.5 --model digits --approximation int8 --data digits --samples 1000"
    )(o.with_groups(recertify))


def recertify(
    *,
    model: o.ModelOptions,
    data: o.DataOptions,
    store: o.Store,
    public_key: o.PublicKey = None,
    samples: Annotated[
        int, typer.Option(metavar="N", help="Forward passes of the changed model, per input in the mean.")
    ] = 1_000,
    approximation: Annotated[
        str | None,
        o.APPROXIMATION,
    ] = None,
    calibration: o.CalibrationData = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="auto, series, joint, paired, irs, scratch or scratch-cached.")
    ] = "auto",
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="GOAL",
            help="What the budget is spent for: acr, accuracy:R or uniform; acr,all leaves no input out.",
            show_default="acr; uniform for irs and the baselines",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Total error probability of the certificate of an input; for irs more is proved: see its guarantee.",
            show_default="twice the cache's",
        ),
    ] = None,
    reuse_threshold: Annotated[
        float | None,
        typer.Option(metavar="X", help="Of irs: from this cached bound on, draw fresh noise.", show_default="0.99"),
    ] = None,
    certificate: Annotated[
        o.CertificateKind | None,
        typer.Option(
            metavar="KIND",
            help="one-sided, or two-sided, which uses the runner-up, too.",
            show_default="the cache's",
        ),
    ] = None,
    at: o.At = None,
    looks: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Plan for N looks at this model: each has its share of alpha, at --samples, twice as many, four times, ...",
        ),
    ] = None,
    identity: o.Identity = None,
    radii: o.Radii = "0.25,0.5,1.0",
    save: o.Save = None,
    dry_run: o.DryRun = False,
    votes: o.VotesOptions,
    run: o.ExecutionOptions,
    result: o.ResultOptions,
    debug: o.Debug = False,
) -> None:
    """Certify a changed model from the cache of the original, for a fraction of the cost."""
    shown, decided = o.parse_radii(radii), o.parse_at(at)
    check_forms(result.require)
    check_output(result.out)
    check_save(save, run)
    check_ending(save, approximation, graph=run.runtime is o.Runtime.ONNXRUNTIME or model.model.endswith(".onnx"))
    from torch.nn import Module

    import recert
    from recert.cli.loading import approximated, is_function
    from recert.cli.progress import drawn_progress
    from recert.recertification import method_named
    from recert.spot_check import check_original

    cache, dataset = recert.Cache.open(store, public_key=public_key), data.load()
    check_labels(result.require, dataset.labels)
    check_log(result.out, dataset.labels)
    if dry_run:
        how_many = "about" if decided is None else "at most"
        if approximation is None and is_function(network := model.load(run.local_device)):
            bill = recert.bill(network, dataset.inputs, samples=samples, cache=cache, batch_size=run.batch_size)
            say(f"{how_many} {bill}; nothing written")
        else:
            say(
                f"{len(dataset.inputs)} inputs, {how_many} {len(dataset.inputs) * samples:,} forward passes, nothing written"
            )
        if decided is None and method_named(method).usual_plan != "uniform":
            say(str(recert.expected_gain(cache, samples=samples, alpha=alpha, method=method)), markup=False)
        return
    network, name, manifest = model.load(run.local_device), model.model, cache.manifest
    if approximation is None and calibration is not None:
        raise ValueError("expected --approximation with --calibration, got none")
    changed = None
    if approximation is not None:
        check_original(cache, network, dataset.inputs)
        changed = approximated(
            network, approximation, data.data, dataset, manifest.noise, manifest.seed, calibrate_on=calibration
        )
        network, name = changed.model, f"{model.model}, {approximation}"
        say(changed.description, markup=False)
    chosen = method_named(method)
    if reuse_threshold is not None:
        if not isinstance(chosen, recert.Irs):
            raise ValueError(f"expected --method irs with --reuse-threshold, got {method}; leave one of them out")
        chosen = recert.Irs(reuse_threshold)
    if decided is None and samples > (most := chosen.most_passes(manifest.samples)):
        say(
            f"{samples:,} forward passes were asked for; with {manifest.samples:,} cached votes {method} gives no input more than {most:,}: "
            "for more, use --method scratch-cached, or certify with more votes first"
        )
    with drawn_progress() as progress:
        execution = run.execution(progress)
        if save is not None:
            # What is run is what is saved: a network that onnxruntime runs is exported once.
            prepared, execution = execution.prepared(network, dataset.inputs), replace(execution, runtime="torch")
            assert isinstance(prepared, Module)
            network = prepared
            save_as_file(network, save, model.model, changed)
        certificates = recert.recertify(
            network, dataset.inputs, cache, samples=samples, alpha=alpha, method=chosen, plan=plan,
            certificate=None if certificate is None else certificate.value, at=decided, enough=None if decided is None else enough(result.require, dataset.labels), looks=looks, keep=votes.keep,
            identity=identity, execution=execution,
        )  # fmt: skip
    finish(
        certificates, dataset, result, summary(name, certificates, dataset.labels, shown),
        "\n".join((certificates.guarantee, *certificates.remarks)), original=_original(cache, dataset, shown, decided),
    )  # fmt: skip
    if (drawn := certificates.settings.drawn) is not None:
        say_drawn(drawn, int(certificates.forward_passes.sum()), len(certificates))
    say_rows_sent(certificates.settings.rows_sent)


def _original(cache: "Cache", data: "Dataset", radii: list[float], at: list[float] | None) -> Row | None:
    """The original's row about the same inputs; none where the cache certifies nothing, as one of scattered votes."""
    from recert.noise import input_digest

    if not cache.promises_votes:
        return None
    found = cache.about([input_digest(x) for x in data.inputs]).certificates
    return summary("original", found, data.labels, radii if at is None else sorted(at))
