"""The page of results, from the JSON files of the studies: python -m recert.studies.page [RESULTS] > docs/results.md"""

import sys
from pathlib import Path

from recert.studies import cost_sections, other_sections
from recert.studies.catalogue import STUDIES
from recert.studies.figures import names as figure_names
from recert.studies.tables import Found

SECTIONS = {
    "speedup": cost_sections.speedups, "headline": cost_sections.headline, "samples": cost_sections.samples,
    "large-np": cost_sections.large_np, "disparity": other_sections.disparity, "gamma": other_sections.gamma,
    "distribution": other_sections.distribution, "accuracy": other_sections.accuracy, "binomial": other_sections.binomial,
    "soundness": other_sections.soundness,
}  # fmt: skip

INTRODUCTION = """# Results: the paper's tables beside ours

This page is made from the JSON files under `results/` by `python -m recert.studies.page > docs/results.md`; a test checks that it
is. A cell that was not run says so. Every study runs again with `recert reproduce NAME --full`; without `--full` it takes a few
minutes on a CPU.

*Settings.* Up to 500 CIFAR-10 test images, every twentieth (a smaller number of images takes the first of these). Cache: n votes
that bound and 500 that choose, alpha = .001. Re-certification and baselines: alpha = .002 in total, as in the paper. Seed 0. Costs
are forward passes on the changed network, charged as if every run stood alone, and seconds: passes times what a pass took in the
fastest second of drawing (a device that was shared made all passes of a cell dearer alike). Networks: ours, trained with Gaussian noise; ResNet-20 ships with the package.

## Where ours differ, and why

- **int8.** The authors call `quantize_dynamic` for convolutions, which torch leaves as they are: their int8 network is the original.
  Their zeta of .006 is what 1,000 noises give when nothing differs. Ours really quantises weights and activations
  (onnxruntime, static, per channel); `int8-twin` computes the same integers in floating point on a GPU, so that its forward passes are
  those of int8, while its seconds are not. How many votes real int8 changes is under *disparity*.
- **fp16, bf16.** The authors round weights and compute in float32. Ours compute in the type they name; `fp16-weights` and
  `bf16-weights` are what the authors measured. Both stand beside the same cell of the paper.
- **Pruning.** The same: the smallest weights of all convolutions and linear layers together. The authors leave masks in place.
- **Cohen's baseline.** Ours has 100 selection votes on every input, charged, as Cohen et al. have it. The authors' has n_p / 100, 1 to 10:
  cheaper, but often wrong about the class. The column *authors' baseline* shows irs against theirs.
- **Budgets of the baseline.** The paper gives it the methods' budgets. Better methods reach with their smallest budget what such a
  baseline reaches with its largest, and no common range is left; ours goes on to 20% of n. Its first votes come from the noises
  of the cache, to which a baseline owes nothing: that saves drawing, and changes no cost.
- **Labels.** The authors' code skips inputs whose cached class is not the label: that saves forward passes which a user, who has no
  labels, would spend. Ours never looks at labels while it certifies.
- **Class of the claim.** The authors' code certifies the class that the changed network votes for; Theorem 3 is about the cached class.
- **irs at gamma.** What is proved for the paper's form is alpha + 2 alpha_zeta where p_A is near 1 ([theory](theory.md)); it is run here as published.
- **Networks and images** are not the authors': other training runs, other images. ACR and accuracies differ for that reason alone.
- **ImageNet.** ResNet-50 is supported by name (`torchvision:`, `timm:`) and from locuslab's checkpoints. No images and no trained
  weights were at hand, so that nothing is claimed here; throughput with untrained weights is in [performance](performance.md).
"""


def page(results: Path) -> str:
    """The whole page."""
    parts = [f"## {name}\n\n{section(name, results, level=0)}{_figures(name, results)}" for name in SECTIONS]
    return "\n".join([INTRODUCTION, *parts]).rstrip() + "\n"


def section(name: str, results: Path, *, level: int = 1) -> str:
    """One study: what it shows, the paper's numbers, ours."""
    heading = f"# {name}\n\n" if level else ""
    return f"{heading}{STUDIES[name].sentence}\n\n{SECTIONS[name](Found(name, results))}"


def _figures(name: str, results: Path) -> str:
    return "".join(
        f"\n![{name}: {figure}](../{results.name}/figures/{figure}.png)\n" for figure in figure_names(name, results)
    )


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1] if len(sys.argv) > 1 else "results")))
