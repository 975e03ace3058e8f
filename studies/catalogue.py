"""Which studies there are, what each shows, and what it runs by default. No torch here: the command line lists them."""

from dataclasses import dataclass, replace

QUANTISATIONS = ("fp16", "bf16", "int8-twin")
PRUNINGS = ("prune:0.05", "prune:0.1", "prune:0.2")
WEIGHTS_ONLY = ("fp16-weights", "bf16-weights")
"""What the authors' code did under the names fp16 and bf16: weights are rounded, everything is computed in float32."""
APPROXIMATIONS = (*QUANTISATIONS, *PRUNINGS, *WEIGHTS_ONLY)
NETWORKS = ("cifar-resnet20", "cifar-resnet110")
SIGMAS = (0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Grid:
    """Cells of a study: all combinations, each on the first `count` images. No network: the first whose data is here."""

    networks: tuple[str, ...] = ()
    sigmas: tuple[float | str, ...] = (0.5,)
    """Of Gaussian noise; or the specs of other noises, such as laplace:0.35."""
    approximations: tuple[str, ...] = ("bf16-weights", "int8-twin", "prune:0.1")
    samples: tuple[int, ...] = (2_000,)
    count: int = 10


@dataclass(frozen=True)
class Study:
    """A study by name. `module` computes a cell, and is imported when it is run."""

    name: str
    sentence: str
    paper: str
    module: str
    full: Grid
    small: Grid = Grid()


_SMALL, _FULL = Grid(), Grid(NETWORKS, SIGMAS, APPROXIMATIONS, (10_000,), 500)
_ORIGINAL = ("original",)

STUDIES = {
    study.name: study
    for study in (
        Study(
            "disparity", "How often a changed network votes differently from the original on the same noise, and the bound on it.",
            "Table 1 and the table of zeta in the appendix", "disparity", _FULL,
        ),
        Study(
            "speedup", "How many times cheaper than certifying from scratch each method is, at equal average certified radius.",
            "Tables of quantisation and pruning speed-ups", "costs", _FULL,
        ),
        Study(
            "headline", "Average certified radius against cost for int8 with a large cache: the paper's main figure.",
            "Figure of certification time against ACR", "costs",
            Grid(("cifar-resnet110",), (1.0,), ("int8-twin",), (100_000,), 100),
            replace(_SMALL, approximations=("int8-twin",)),
        ),
        Study(
            "at-radius", "How many images are certified at a radius, and with how many passes: decided one by one, by plan, and by others' rules.",
            "none: a question that the paper does not ask", "at_radius", _FULL,
        ),
        Study(
            "gamma", "Average certified radius of the paper's method for each threshold gamma, and how many inputs lie above it.",
            "Tables of gamma", "gamma", replace(_FULL, approximations=("int8-twin",)), replace(_SMALL, approximations=("int8-twin",)),
        ),
        Study(
            "gamma-as-published", "The table of gamma as the authors' code makes it: sigma .5, 100 images, the mean over ten n_p.",
            "Table of gamma", "gamma", Grid(NETWORKS, (0.5,), ("int8-twin",), (10_000,), 100), replace(_SMALL, approximations=("int8-twin",)),
        ),
        Study(
            "samples", "How the speed-up changes with the number of votes in the cache.",
            "Table of n", "costs",
            Grid(("cifar-resnet20",), SIGMAS, QUANTISATIONS, (10_000, 100_000), 100),
            Grid(approximations=("prune:0.1",), samples=(1_000, 4_000)),
        ),
        Study(
            "large-np", "What happens when re-certification may spend up to 80% of what the cache holds.",
            "Figure of larger n_p", "costs",
            Grid(("cifar-resnet20",), (1.0,), ("int8-twin",), (10_000,), 500),
            replace(_SMALL, approximations=("prune:0.1",), samples=(1_000,)),
        ),
        Study(
            "binomial", "Samples that three intervals need for a given width, against the probability.",
            "Figures of samples against p", "binomial", Grid(("none",), (), (), (), 0), Grid(("none",), (), (), (), 0),
        ),
        Study(
            "distribution", "How the lower bounds on the original's class are distributed over the inputs.",
            "Figures of the distribution of p_A", "distribution",
            replace(_FULL, approximations=_ORIGINAL), replace(_SMALL, approximations=_ORIGINAL),
        ),
        Study(
            "accuracy", "Accuracy of the networks, without noise and smoothed.",
            "Tables of standard and smoothed accuracy", "accuracy",
            replace(_FULL, approximations=(*_ORIGINAL, *APPROXIMATIONS)),
            replace(_SMALL, approximations=(*_ORIGINAL, *_SMALL.approximations)),
        ),
        Study(
            "soundness", "Re-certified bounds against 100,000 independent votes of the changed network: how often they are too high.",
            "none: an independent check", "soundness",
            Grid(("cifar-resnet20",), (0.5,), ("int8-twin", "prune:0.2"), (10_000,), 100),
            Grid(approximations=("prune:0.1",)),
        ),
        Study(
            "coverage", "A hundred caches of the same images from disjoint noises: how often re-certified bounds are too high.",
            "none: an independent check", "coverage",
            Grid(("cifar-resnet20",), (1.0,), QUANTISATIONS, (1_000,), 100),
            Grid(approximations=("prune:0.1",), samples=(200,)),
        ),
    )
}  # fmt: skip


def study(name: str) -> Study:
    """The study of this name, or a ValueError that lists those there are."""
    if name not in STUDIES:
        raise ValueError(f"expected one of the studies {', '.join(STUDIES)}, got {name!r}")
    return STUDIES[name]
