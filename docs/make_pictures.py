"""The pictures of the documentation: python docs/make_pictures.py [NAME ...], or `make pictures` for all.

docs/pictures/made-from.json keeps of each picture a digest of the code that decides what it shows; a test compares.
"""

import hashlib
import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import diagram
import numpy as np

import recert
from recert import bounds
from recert.cli.output import cell
from recert.figures import BASELINE, SERIES, new_figure, paper_style
from recert.figures.chart import tick_label
from recert.planning import Beliefs, Objective, Selection, plan_budget
from recert.planning.tables import Circumstances
from recert.recertification.series import Series, bound_table
from recert.report.input_table import down
from recert.votes import SelectionCounts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch.nn import Module

ROOT = Path(__file__).parents[1]
HERE = ROOT / "docs" / "pictures"
README = ROOT / "README.md"
BEGIN, END = "<!-- demo table -->", "<!-- end of demo table -->"
MADE_FROM = HERE / "made-from.json"
SHOWN = {".py", ".html", ".css", ".js"}
STYLES = {
    "from scratch": BASELINE, "irs (the paper)": SERIES[1], "irs (the paper, one-sided)": SERIES[1], "series": SERIES[0]._replace(dash=(6, 1.6, 1.2, 1.6)),
    "paired": SERIES[3]._replace(dash=(1.2, 1.4)), "joint": SERIES[2]._replace(dash=()), "recert": SERIES[0],
}  # fmt: skip
BOLD = {"linewidth": 2.2}


def line(axes: "Axes", name: str, x: np.ndarray, y: np.ndarray, marks: bool = True) -> None:
    bold = BOLD if name == "recert" else {}
    axes.plot(x, y, label=name, **STYLES[name].keywords | bold | ({} if marks else {"marker": ""}))


def finish(figure: "Figure", name: str) -> None:
    figure.savefig(HERE / f"{name}.png")
    print(f"wrote {HERE / name}.png")


def digits() -> None:
    """The embedded network, quantised to int8: average certified radius against forward passes."""
    from recert.comparison import compare
    from recert.data import load_data
    from recert.models import load_model

    model, data, noise = load_model("digits").model, load_data("digits", count=200), recert.Gaussian(0.5)
    int8 = int8_of_digits(model)
    store = TemporaryDirectory()  # as the demo has it: with a store, more votes choose the class
    cache = recert.certify(model, data.inputs, noise=noise, samples=10_000, store=store.name)
    budgets, baseline = [50, 100, 200, 350, 500, 700, 1_000], [50, 100, 200, 500, 1_000, 2_000, 4_000, 7_000, 10_000]
    figure, (axes,) = new_figure(width=4.8, height=2.9)
    ours = compare(int8, data.inputs, cache, data.labels, budgets=budgets, baseline_budgets=baseline, methods=["auto"])
    one = recert.certify(model, data.inputs, noise=noise, samples=10_000, certificate="one-sided")
    paper = compare(int8, data.inputs, one, data.labels, budgets=budgets, baseline_budgets=budgets[:2], methods=["irs"])
    for name, curve in (
        ("from scratch", ours.baseline("scratch", ours.methods["auto"])),
        ("irs (the paper, one-sided)", paper.methods["irs"]),
        ("recert", ours.methods["auto"]),
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
    axes.xaxis.set_major_formatter(tick_label)
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
        axes.xaxis.set_major_formatter(tick_label)
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
        axes.plot(
            share, choice.passes, label=f"{mean:,} on average", color=SERIES[0].colour, linestyle=style, marker=""
        )
    axes.set(
        yscale="symlog", ylim=(0, n / 2), xlabel="share of selection votes for the class (of 500)", ylabel="replays"
    )
    axes.yaxis.set_major_formatter(tick_label)
    axes.legend(loc="upper left")
    finish(figure, "allocation")


def int8_of_digits(model: "Module") -> "Module":
    from recert.data import load_data

    calibration = recert.Calibration(load_data("digits", split="train", count=256).inputs, noise=recert.Gaussian(0.5))
    return recert.approximate(model, "int8", calibration=calibration).model


def story() -> diagram.Story:
    """What happens to one digit, with the numbers as they are."""
    from recert.data import load_data
    from recert.models import load_model

    model, data = load_model("digits").model, load_data("digits", count=7)
    with TemporaryDirectory() as store:  # as the demo has it: with a store, more votes choose the class
        cache = recert.certify(
            model, data.inputs, noise=recert.Gaussian(0.5), samples=10_000, store=store, progress=False
        )
        changed = recert.recertify(int8_of_digits(model), data.inputs, cache, samples=500, progress=False)
    before, after = cache.certificates.to_pandas().iloc[6], changed.to_pandas().iloc[6]
    return diagram.Story(
        pixels=np.asarray(data.inputs[6]).squeeze(), name=str(before.prediction), samples=int(before.samples), votes=int(before.top_votes),
        first_passes=int(before.forward_passes), radius=down(float(before.radius)), change="int8", passes=int(after.forward_passes),
        flips=int(after.lost + after.gained), new_radius=down(float(after.radius)),
    )  # fmt: skip


def how() -> None:
    for name, palette in (("light", diagram.LIGHT), ("dark", diagram.DARK)):
        path = HERE / f"how-it-works-{name}.svg"
        path.write_text(diagram.drawing(story(), palette))
        print(f"wrote {path}")


VIEW = {"width": 860, "height": 1200}
NAMES = {
    "fp16-weights": "weights in fp16",
    "bf16": "bf16",
    "int8": "int8",
    "prune-0.1": "pruned by 10%",
    "prune-0.2": "pruned by 20%",
}


def demo_table(folder: Path) -> str:
    """What the demo found, as README shows it."""
    from recert.cli.demo import span
    from recert.report import read_result
    from recert.report.difference import Difference
    from recert.report.gains import gains
    from recert.report.summary import average_radius

    original, budget, change = read_result(folder / "original.parquet"), list[float](), list[float]()
    rows = ["| change | ACR, was → is | passes per image, was → is | times fewer |", "|---|---|---|---|"]
    for file, name in NAMES.items():
        scratch = [read_result(path) for path in (folder / "from-scratch").glob(f"{file}-from-scratch-*.parquet")]
        found = read_result(folder / f"{file}.parquet")
        gain = gains([found, *scratch])[0]
        assert gain is not None
        passes = [f"{r.certificates.mean_forward_passes:,.0f}" for r in (original, found)]
        rows.append(
            f"| {name} | {cell('ACR', average_radius(original))} → {cell('ACR', average_radius(found))} | {passes[0]} → {passes[1]} | {str(gain).removesuffix('×')} |"
        )
        before, without_flips, after = Difference(found, original).average_radii
        assert without_flips is not None
        budget.append(before - without_flips)
        change.append(without_flips - after)
    missing = f"Of the ACR that is missing, {span(budget)} is the price of one twentieth of the passes, and {span(change)} is what the change itself cost."
    return "\n".join([*rows, "", missing])


def report() -> None:
    """The first screen of the page that `recert demo` writes, in Chromium, for light and dark; and README's table of the demo."""
    from playwright.sync_api import sync_playwright

    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "recert", "demo", "--store", folder], check=True)
        before, _, rest = README.read_text().partition(BEGIN)
        README.write_text(f"{before}{BEGIN}\n{demo_table(Path(folder))}\n{END}{rest.partition(END)[2]}")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for scheme in ("light", "dark"):
                # As wide as README is, so that its letters are as large as those around it.
                page = browser.new_page(viewport=VIEW, color_scheme=scheme, device_scale_factor=2)
                page.goto((Path(folder) / "report.html").as_uri())
                last = page.locator(".legend-line").bounding_box()
                height = last["y"] + last["height"] + 12
                page.screenshot(
                    path=HERE / f"report-{scheme}.png", clip={"x": 0, "y": 0, "width": VIEW["width"], "height": height}
                )
                print(f"wrote {HERE / f'report-{scheme}.png'}")
            browser.close()


MAKERS = {"how": how, "digits": digits, "bounds": bound_curves, "allocation": allocation, "report": report}
# The files and folders that decide what a picture shows.
SOURCES = {
    "how": ["docs/diagram.py"],  # its numbers are compared by a test
    "digits": ["src/recert/figures", "src/recert/comparison.py", "src/recert/bounds", "src/recert/planning", "src/recert/recertification", "src/recert/noise"],
    "bounds": ["src/recert/figures", "src/recert/bounds"],
    "allocation": ["src/recert/figures", "src/recert/bounds", "src/recert/planning"],
    "report": ["src/recert/report", "src/recert/figures", "src/recert/cli/demo.py"],
}  # fmt: skip


def digest(name: str) -> str:
    """Of the code that decides what the picture shows: the files of SOURCES and the function here that draws it."""
    found = hashlib.sha256(inspect.getsource(MAKERS[name]).encode())
    for source in SOURCES[name]:
        path = ROOT / source
        for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in SHOWN):
            found.update(file.relative_to(ROOT).as_posix().encode() + file.read_bytes())
    return found.hexdigest()[:16]


def main(names: list[str]) -> None:
    HERE.mkdir(exist_ok=True)
    made = json.loads(MADE_FROM.read_text()) if MADE_FROM.exists() else {}
    for name in names or list(MAKERS):
        with paper_style():
            MAKERS[name]()
        made[name] = digest(name)
        MADE_FROM.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
