"""Counts of votes to one-sided confidence bounds. Pure: numpy, scipy and numba, no torch.

Functions whose names end in ``_lower`` or ``_upper`` and that are exact (Clopper-Pearson, series, paired, joint) may back a
certificate. Wilson and Agresti-Coull are approximate; they exist for comparison and no certificate uses them.
"""

from recert.bounds.approximate import agresti_coull_lower, agresti_coull_upper, wilson_lower, wilson_upper
from recert.bounds.arguments import SMALLEST_ALPHA, check_alpha
from recert.bounds.binomial import clopper_pearson_lower, clopper_pearson_upper, two_sided_p_value
from recert.bounds.joint import joint_lower
from recert.bounds.paired import paired_losses_lower, paired_lower
from recert.bounds.sample_size import Interval, samples_for_width, smallest_samples_to_certify
from recert.bounds.series import few_flips_lower, series_lower

__all__ = [
    "SMALLEST_ALPHA",
    "Interval",
    "agresti_coull_lower",
    "agresti_coull_upper",
    "check_alpha",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "few_flips_lower",
    "joint_lower",
    "paired_losses_lower",
    "paired_lower",
    "samples_for_width",
    "series_lower",
    "smallest_samples_to_certify",
    "two_sided_p_value",
    "wilson_lower",
    "wilson_upper",
]
