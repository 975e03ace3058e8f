"""The page of results and all tables as CSV, from the JSON files of the studies: python -m studies.page [RESULTS]"""

import sys
from pathlib import Path

from studies.as_published import as_published
from studies.by_sigma import by_sigma
from studies.catalogue import STUDIES
from studies.cost_sections import LEGEND
from studies.csv_tables import write_csv_files
from studies.folded import folded
from studies.imagenet_section import imagenet
from studies.sections import SECTIONS
from studies.summary import in_short
from studies.tables import Found

INTRODUCTION = """# Results: the paper's tables beside ours

What re-certification saves on CIFAR-10 with ResNet-20 and ResNet-110, beside what *Incremental Randomized Smoothing Certification* (ICLR 2024) reports. The
page and its tables as CSV files are made from the JSON files under `results/` by `python -m studies.page`.
"""

SETTINGS = f"""## How was it measured?

- **Images**: up to 500 CIFAR-10 test images, every twentieth. A smaller number takes the first of these.
- **Cache**: n votes that bound and 500 that choose the class, alpha = 0.001, seed 0.
- **Re-certification and baselines**: alpha = 0.002 in total, as in the paper.
- **Cost**: forward passes on the changed network, as if every run stood alone. *Speed-up* is the mean over the range of ACR that both reach.
- **Seconds** (in the CSV files): passes times what a pass took in the fastest second. Other processes were at work on that machine. Compiled networks are nearly
  as fast as alone; others take up to half as long again (ResNet-110 in fp16, alone: 10.4 µs).
- **Networks**: ours, trained with Gaussian noise. ResNet-20 comes with the package.
- **Again**: `python -m studies NAME --full` runs a study at this size, and without `--full` in a few minutes on a CPU. `python -m studies` lists them.
  `bash studies/on_gpu.sh PART` draws the votes of a whole network on a GPU, from which the tables are made on any machine.

In the CSV files: {LEGEND[0].lower()}{LEGEND[1:]}
The numbers are older than two improvements of `auto`. Inputs that are re-certified first are now planned for a few flips instead of none. On 100 images of
ResNet-20 at sigma 1 that changes the speed-up by less than 1% for n = 10,000, and for n = 100,000 from 7.06 to 8.01 (int8) and from 11.32 to 11.43 (bf16).
And `auto` may order outcomes by flips where few are expected ([theory](theory.md)): fp16 and bf16 gain another 3 to 16%.
"""

DIFFERENCES = """## Where do ours differ, and why?

- **int8.** The authors' code calls `quantize_dynamic` for convolutions, and torch leaves convolutions as they are. What its int8 runs changed is the device: a CPU
  instead of a GPU. Ours really quantises weights and activations (onnxruntime, static, per channel). `int8-twin` computes the same integers in floating
  point on a GPU: its forward passes are those of int8, its seconds are not.
- **fp16, bf16.** The paper speaks of inference in these types. The authors' code rounds the weights and computes in float32. Ours compute in the type they
  name; *weights in fp16* and *weights in bf16* are what the authors measured. Both stand beside the same number of the paper.
- **Pruning.** The same: the smallest weights of all convolutions and linear layers together.
- **Cohen's baseline.** Ours has 100 selection votes on every input, and pays for them, as Cohen et al. have it. The authors' code has 1 to 10 for
  n = 10,000: cheaper, and often wrong about the class. A column of the CSV file compares irs with theirs.
- **Budgets of the baseline.** The paper gives it the budgets of the methods. Better methods reach with their smallest budget what such a baseline reaches with
  its largest, so that no common range of ACR is left. Ours goes on to 20% of n.
- **zeta.** The authors' mean counts 0 for inputs that are classified wrongly, so that theirs is smaller than a mean over the others, and a published .006
  does not show how many votes differ. Ours counts every input.
- **Labels.** The authors' code skips inputs whose cached class is not the label. That saves forward passes that a user, who has no labels, would spend. Ours
  never looks at labels while it certifies.
- **Class of the claim.** The authors' code certifies the class that the changed network votes for. Theorems 2 and 4 are about the cached class.
- **irs at gamma.** The paper claims an error of alpha + alpha_zeta. Where p_A is near 1, alpha + 2 alpha_zeta is what is proved, since the choice of the branch looks at
  the votes that bound p_A ([theory](theory.md)). It is run here as published.
- **Networks and images** are not the authors': other training runs, other images. ACR and accuracies differ for that reason alone.
{imagenet}
"""
IMAGENET_MISSING = """- **ImageNet.** Nothing is claimed. Two networks of its classes can be studied by name (`studies/imagenet_networks.py` has the commands) and have not been
  run: ResNet-50 on Tiny ImageNet, trained here, and EfficientNet-lite0 with weights that others trained. ResNet-50 for all of ImageNet is
  supported by name (`torchvision:`, `timm:`) and from locuslab's checkpoints; throughput with untrained weights is in [performance](performance.md).
"""
IMAGENET_RUN = """- **ImageNet.** Ours are two other networks, named [above](#and-for-imagenets-classes) for what they are: no row of theirs is the paper's experiment done again."""


def page(results: Path) -> str:
    """The whole page."""
    with_imagenet = imagenet(results)
    parts = [
        INTRODUCTION,
        in_short(results),
        by_sigma(results),
        as_published(results),
        *([with_imagenet] if with_imagenet else []),
        DIFFERENCES.replace("{imagenet}", IMAGENET_RUN if with_imagenet else IMAGENET_MISSING.rstrip()),
        SETTINGS,
        folded(results),
    ]
    return "\n".join(parts).rstrip() + "\n"


def section(name: str, results: Path) -> str:
    """One study: what it shows, the paper's numbers, ours."""
    return f"# {name}\n\n{STUDIES[name].sentence}\n\n{SECTIONS[name](Found(name, results))}"


def main(results: Path) -> None:
    written = results.parent / "docs" / "results.md"
    written.write_text(page(results), encoding="utf-8")
    for path in (written, *write_csv_files(results)):
        print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
