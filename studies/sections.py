"""The section of each study: what `python -m studies NAME` writes beside its results, and what the tables in CSV are made of."""

from studies import cost_sections, other_sections, radius_section

SECTIONS = {
    "speedup": cost_sections.speedups, "headline": cost_sections.headline, "samples": cost_sections.samples,
    "large-np": cost_sections.large_np, "disparity": other_sections.disparity, "gamma": other_sections.gamma,
    "gamma-as-published": other_sections.gamma_as_published,
    "distribution": other_sections.distribution, "accuracy": other_sections.accuracy, "binomial": other_sections.binomial,
    "soundness": other_sections.soundness, "coverage": other_sections.coverage, "at-radius": radius_section.at_radius,
}  # fmt: skip
