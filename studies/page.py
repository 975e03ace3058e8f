"""The page of results, from the JSON files of the studies: python -m studies.page [RESULTS] > docs/results.md"""

import sys
from pathlib import Path

from studies import cost_sections, other_sections
from studies.catalogue import STUDIES
from studies.figures import names as figure_names
from studies.summary import in_short
from studies.tables import Found

SECTIONS = {
    "speedup": cost_sections.speedups, "headline": cost_sections.headline, "samples": cost_sections.samples,
    "large-np": cost_sections.large_np, "disparity": other_sections.disparity, "gamma": other_sections.gamma,
    "distribution": other_sections.distribution, "accuracy": other_sections.accuracy, "binomial": other_sections.binomial,
    "soundness": other_sections.soundness, "coverage": other_sections.coverage,
}  # fmt: skip

INTRODUCTION = """# Results: the paper's tables beside ours

This page is made from the JSON files under `results/` by `python -m studies.page > docs/results.md`; a test checks that it
is. A cell that was not run says so. Every study runs again with `python -m studies NAME --full`; without `--full` it takes a few
minutes on a CPU.

*Settings.* Up to 500 CIFAR-10 test images, every twentieth (a smaller number of images takes the first of these). Cache: n votes
that bound and 500 that choose, alpha = .001. Re-certification and baselines: alpha = .002 in total, as in the paper. Seed 0. Costs
are forward passes on the changed network, charged as if every run stood alone, and seconds: passes times what a pass took in the
fastest second of drawing. Other processes were at work on that machine: compiled networks (see *numerics*) are nearly as fast as alone,
others take up to half as long again (ResNet-110 in fp16, alone: 10.4 µs). Networks: ours, trained with Gaussian noise;
ResNet-20 ships with the package.

*Since then.* Inputs that are re-certified first, one in eight, are now planned for a few flips; in these tables they were planned for none,
and bounded by series where joint would have been better. On the 100 images of ResNet-20 at sigma 1 whose votes are all known this changes the
speed-up of auto by less than 1% for n = 10,000, and for n = 100,000 from 7.06 to 8.01 (int8) and from 11.32 to 11.43 (bf16).
Since then auto may order outcomes by flips where few are expected ([theory](theory.md)): not in these tables; fp16 and bf16 gain 3 to 16%.
"""

DIFFERENCES = """## Where ours differ, and why

- **int8.** The authors' code calls `quantize_dynamic` for convolutions, which torch leaves as they are: what its int8 runs changed is the
  device, a CPU instead of a GPU. Of their nine zetas for int8 seven are .006; .0069 is what 1,000 noises give when nothing differs. Ours
  really quantises weights and activations (onnxruntime, static, per channel); `int8-twin` computes the same integers in floating point on a GPU, so
  that its forward passes are those of int8, while its seconds are not. How many votes real int8 changes is under *disparity*.
- **fp16, bf16.** The paper speaks of inference in these types; the authors' code rounds weights and computes in float32. Ours compute in the
  type they name; `fp16-weights` and `bf16-weights` are what the authors measured. Both stand beside the same cell of the paper.
- **Pruning.** The same: the smallest weights of all convolutions and linear layers together. The authors leave masks in place.
- **Cohen's baseline.** Ours has 100 selection votes on every input, charged, as Cohen et al. have it. The authors' code has n_p / 100, 1
  to 10 for n = 10,000: cheaper, but often wrong about the class. The column *authors' baseline* shows irs against theirs.
- **Budgets of the baseline.** The paper gives it the methods' budgets. Better methods reach with their smallest budget what such a
  baseline reaches with its largest, and no common range is left; ours goes on to 20% of n. Its first votes come from the noises
  of the cache, to which a baseline owes nothing: that saves drawing, and changes no cost.
- **Labels.** The authors' code skips inputs whose cached class is not the label: that saves forward passes which a user, who has no
  labels, would spend. Ours never looks at labels while it certifies.
- **Class of the claim.** The authors' code certifies the class that the changed network votes for; Theorems 2 and 4 are about the cached class.
- **irs at gamma.** The paper claims an error of alpha + alpha_zeta. Its choice of the branch looks at the votes that bound p_A, so that alpha +
  2 alpha_zeta is what is proved where p_A is near 1 ([theory](theory.md)); it is run here as published.
- **Networks and images** are not the authors': other training runs, other images. ACR and accuracies differ for that reason alone.
- **ImageNet.** ResNet-50 is supported by name (`torchvision:`, `timm:`) and from locuslab's checkpoints. No images and no trained
  weights were at hand, so that nothing is claimed here; throughput with untrained weights is in [performance](performance.md).
"""


def page(results: Path) -> str:
    """The whole page."""
    parts = [f"## {name}\n\n{section(name, results, level=0)}{_figures(name, results)}" for name in SECTIONS]
    return "\n".join([INTRODUCTION, in_short(results), DIFFERENCES, *parts]).rstrip() + "\n"


def section(name: str, results: Path, *, level: int = 1) -> str:
    """One study: what it shows, the paper's numbers, ours."""
    heading = f"# {name}\n\n" if level else ""
    return f"{heading}{STUDIES[name].sentence}\n\n{SECTIONS[name](Found(name, results))}"


def _figures(name: str, results: Path) -> str:
    return "".join(
        f"\n![{name}: {figure}](../{results.name}/figures/{figure}.svg)\n" for figure in figure_names(name, results)
    )


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1] if len(sys.argv) > 1 else "results")))
