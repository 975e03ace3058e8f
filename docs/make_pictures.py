"""The pictures of the documentation: python docs/make_pictures.py [digits] [bounds] [allocation]"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import recert
from recert import bounds
from recert.figures import BASELINE, SERIES, new_figure, paper_style
from recert.planning import Beliefs, Objective, Selection, plan_budget
from recert.planning.tables import Circumstances
from recert.recertification.series import Series, bound_table
from recert.votes import SelectionCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent / "pictures"
STYLES = {
    "from scratch": BASELINE, "irs (the paper)": SERIES[1], "irs (the paper, one-sided)": SERIES[1], "series": SERIES[0]._replace(dash=(6, 1.6, 1.2, 1.6)),
    "paired": SERIES[3]._replace(dash=(1.2, 1.4)), "joint": SERIES[2]._replace(dash=()), "auto, planned": SERIES[0],
}  # fmt: skip


def line(axes: "Axes", name: str, x: np.ndarray, y: np.ndarray, marks: bool = True) -> None:
    axes.plot(x, y, label=name, **STYLES[name].keywords | ({} if marks else {"marker": ""}))


def finish(figure: "Figure", name: str) -> None:
    figure.savefig(HERE / f"{name}.png")
    print(f"wrote {HERE / name}.png")


def digits() -> None:
    """The embedded network, quantised to int8: average certified radius against forward passes."""
    from recert.approximations import Calibration, approximate
    from recert.comparison import compare
    from recert.data import load_data
    from recert.models import load_model

    model, data, noise = load_model("digits").model, load_data("digits", count=200), recert.Gaussian(0.5)
    calibration = Calibration(load_data("digits", split="train", count=256).inputs, noise=noise)
    int8 = approximate(model, "int8", calibration=calibration).model
    cache = recert.certify(model, data.inputs, noise=noise, samples=10_000)
    budgets, baseline = [50, 100, 200, 350, 500, 700, 1_000], [50, 100, 200, 500, 1_000, 2_000, 4_000, 7_000, 10_000]
    figure, (axes,) = new_figure(width=4.8, height=2.9)
    ours = compare(int8, data.inputs, cache, data.labels, budgets=budgets, baseline_budgets=baseline, methods=["auto"])
    one = recert.certify(model, data.inputs, noise=noise, samples=10_000, certificate="one-sided")
    paper = compare(int8, data.inputs, one, data.labels, budgets=budgets, baseline_budgets=budgets[:2], methods=["irs"])
    for name, curve in (
        ("from scratch", ours.baseline("scratch", ours.methods["auto"])),
        ("irs (the paper, one-sided)", paper.methods["irs"]),
        ("auto, planned", ours.methods["auto"]),
    ):
        line(axes, name, np.array(curve.passes), np.array(curve.radii))
    original = cache.certificates.average_certified_radius(data.labels)
    axes.axhline(original, color="0.2", linewidth=1, linestyle=(0, (1, 2)))
    axes.annotate(
        f"original network, {cache.certificates.mean_forward_passes:,.0f} passes",
        (55, original),
        xytext=(0, 5),
        textcoords="offset points",
    )
    axes.set(xscale="log", xlabel="forward passes per image on the int8 network", ylabel="average certified radius")
    axes.legend(loc="lower right")
    finish(figure, "digits-int8")


def bound_curves() -> None:
    """Lower bound on the modified network's vote against replays, at expected counts (p = .8, alpha = .002)."""
    p, alpha = 0.8, 0.002
    figure, panels = new_figure(2, width=8.4, height=3.1)
    for axes, n, h in ((panels[0], 10_000, 0.0004), (panels[1], 100_000, 0.005)):
        m = np.unique(np.round(np.geomspace(50, n / 5, 30)))
        k, m0 = round(p * n), np.round(m * (1 - p))
        m1 = m - m0
        lost, gained = np.round(m1 * h / p), np.round(m0 * h / (1 - p))
        irs = bounds.clopper_pearson_lower(k, n, alpha / 2) - bounds.clopper_pearson_upper(
            np.round(2.4 * h * m), m, alpha / 2
        )
        line(axes, "from scratch", m, bounds.clopper_pearson_lower(np.round(p * m), m, alpha), marks=False)
        line(axes, "irs (the paper)", m, irs, marks=False)
        line(axes, "series", m, bounds.series_lower(k, n, m - np.round(m * h / p), m, alpha), marks=False)
        line(axes, "paired", m, bounds.paired_lower(k, n, lost, m1, gained, m0, alpha), marks=False)
        if hasattr(bounds, "joint_lower"):
            line(axes, "joint", m, bounds.joint_lower(k, n, lost, m1, gained, m0, alpha), marks=False)
        axes.axhline(p, color="0.2", linewidth=1, linestyle=(0, (1, 2)))
        axes.set(
            xscale="log",
            ylim=(0.7, 0.803),
            xlabel="forward passes on the modified network",
            ylabel="lower bound on its vote (truth: .8)",
        )
        axes.set_title(f"{n:,} cached votes; {h:.2%} of them lost, as many gained")
    panels[0].legend(loc="lower right")
    finish(figure, "bound-against-replays")


def allocation() -> None:
    """Where the plan spends: replays against the probability of the class."""
    n, alpha, sigma = 10_000, 0.002, 0.5
    share = np.concatenate([np.linspace(0.5, 0.99, 60), 1 - np.geomspace(0.01, 1e-4, 40)])
    votes = np.round(share * 500).astype(int)
    counts = np.stack([votes, 500 - votes], axis=1)
    predict = bound_table(Series(), Circumstances(n, alpha, recert.Gaussian(sigma)), n // 2).radius(1)
    figure, (axes,) = new_figure(width=4.8, height=2.9)
    for mean, style in ((100, ":"), (300, "--"), (1_000, "-")):
        beliefs = Beliefs.from_votes(Selection(SelectionCounts(counts)))
        choice = plan_budget(beliefs, [predict], Objective(), mean * len(counts), n // 2)
        axes.plot(share, choice.passes, label=f"{mean} on average", color=SERIES[0].colour, linestyle=style, marker="")
    axes.set(
        yscale="symlog", ylim=(0, n / 2), xlabel="share of selection votes for the class (of 500)", ylabel="replays"
    )
    axes.legend(loc="upper left")
    finish(figure, "allocation")


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    chosen = sys.argv[1:] or ["digits", "bounds", "allocation"]
    for name in chosen:
        with paper_style():
            {"digits": digits, "bounds": bound_curves, "allocation": allocation}[name]()
