"""Which tests are meant for which part of the library. Within a suite, a mutant runs only tests that call its function."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.changes import Change, changes_of

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "src" / "recert"


@dataclass(frozen=True)
class Suite:
    """Files to mutate and tests to run, both as beginnings of their paths (of node ids, for tests)."""

    name: str
    mutated: tuple[str, ...]
    tests: tuple[str, ...]
    compiled: bool = True
    """Whether numba compiles. A mutant of compiled code would take minutes, so there it does not."""

    def has(self, node_id: str) -> bool:
        return node_id.startswith(self.tests) and not node_id.startswith(TOO_SLOW)


TOO_SLOW = (
    # seconds to minutes in pure Python
    "tests/bounds/test_joint.py::test_seeded_coverage_at_sizes_in_use",
    "tests/bounds/test_joint.py::test_laws",
    "tests/bounds/test_joint.py::test_rises_with_the_votes",
    "tests/bounds/test_joint.py::test_reference_values[80000-100000-100-16000-",
    "tests/bounds/test_joint.py::test_reference_values[80000-100000-60-4000-",
    "tests/bounds/test_joint.py::test_reference_values[7000-10000-14-700-",
    "tests/bounds/test_joint.py::test_exact_coverage[8-5-20-",
    "tests/bounds/test_joint.py::test_exact_coverage[12-10-10-",
    "tests/bounds/test_joint.py::test_exact_coverage[20-8-4-",
    "tests/bounds/test_joint.py::test_exact_coverage[25-10-5-",
    "tests/bounds/test_joint.py::test_exact_coverage[10-20-3-",
    "tests/bounds/test_joint.py::test_exact_coverage[30-12-2-",
    "tests/bounds/test_series.py::test_laws",
    "tests/bounds/test_series.py::test_is_above_the_union_bound_of_the_paper",
    "tests/bounds/test_paired.py::test_laws",
    "tests/bounds/test_paired.py::test_seeded_coverage_at_sizes_in_use",
    "tests/bounds/test_joint_search.py::test_an_outcome_whose_probability_has_plateaus",
    "tests/bounds/test_joint.py::test_chance_is_an_upper_bound_and_tight[1000000-",
    "tests/bounds/test_joint.py::test_reference_values[80000-100000-25-4000-",
    "tests/bounds/test_joint.py::test_reference_values[80000-100000-5-800-",
    "tests/bounds/test_joint.py::test_broadcasts_and_gives_floats_for_scalars",
    "tests/bounds/test_joint.py::test_exact_coverage[40-8-0-",
    "tests/bounds/test_exact.py::test_joint_and_paired_miss_at_most_alpha[4-3-4-",
    "tests/bounds/test_exact.py::test_joint_and_paired_miss_at_most_alpha[6-4-2-",
    "tests/bounds/test_exact.py::test_series_misses_at_most_alpha_and_spends_it[12-3-",
    "tests/bounds/test_joint.py::test_is_buehlers_bound_by_brute_force[counts5]",
    "tests/bounds/test_joint.py::test_reference_values[80000-100000-0-800-",
    "tests/bounds/test_paired.py::test_exact_coverage",
    "tests/bounds/test_series.py::test_exact_coverage[12-12-",
    "tests/bounds/test_series.py::test_exact_coverage[30-6-",
    "tests/bounds/test_series.py::test_exact_coverage[20-10-",
    "tests/bounds/test_series.py::test_exact_coverage[6-20-",
    "tests/bounds/test_series.py::test_is_the_bound_from_scratch_when_everything_agrees[1-",
    "tests/bounds/test_series.py::test_is_the_bound_from_scratch_when_everything_agrees[7-",
    "tests/bounds/test_series.py::test_matches_brute_force[7-8-55-60-",
    "tests/bounds/test_series.py::test_matches_brute_force[60-100-",
    "tests/bounds/test_series.py::test_matches_brute_force[270-300-",
    "tests/bounds/test_series.py::test_matches_brute_force[30-40-40-40-",
    "tests/bounds/test_binomial.py::test_margin_covers_the_error_of_the_incomplete_beta_function[1000000]",
    "tests/bounds/test_parts.py::test_chance_of_joint_adds_back_what_it_leaves_out[0.3-",
    "tests/bounds/test_binomial.py::test_never_on_the_wrong_side[500000-",
    "tests/bounds/test_binomial.py::test_never_on_the_wrong_side[949998-",
    "src/recert/bounds/joint.py::recert.bounds.joint.joint_lower",
    # networks, processes and many repetitions
    "tests/test_looks.py::test_trying_again_is_wrong_more_often",
    "tests/test_looks.py::test_planned_looks_hold_together[joint]",
    "tests/test_looks.py::test_planned_looks_hold_together[auto]",
    "tests/test_looks.py::test_what_is_said_of_a_grown_family_holds",
    "tests/bounds/test_joint_search.py::test_no_outcome_is_bounded_below",
    "tests/bounds/test_joint_search.py::test_little_is_lost_by_the_tolerance",
    "tests/cache/test_cache.py::test_two_processes_do_not_write_to_one_store",
    "tests/choosing/test_select.py::test_same_winner_as_exhaustive_certification_on_digits",
    "tests/choosing/test_cli.py::test_candidates_may_be_files",
    "tests/choosing/test_cli.py::test_json_pictures_and_certificates_of_the_winner",
    "tests/choosing/test_costs.py::test_an_int8_network_of_zeros_and_bytes",
    "tests/choosing/test_coverage.py",
    "tests/test_planning.py::test_the_plan_beats_uniform_on_real_votes",
    "tests/test_recertify.py::test_auto_does_without_fresh_votes_and_with_one_class",
    "tests/test_recertify.py::test_all_options_share_a_draw[auto-two-sided",
    "tests/auditing/test_audit.py::test_false_alarms_are_rarer_than_alpha",
    "tests/test_sampling.py::test_peak_memory",
    "tests/test_proxy.py::test_coverage_of_the_whole_procedure[two-sided--0.03]",
    "tests/test_proxy.py::test_coverage_of_the_whole_procedure[one-sided--0.03]",
)

_OUR_WAY = "tests/test_coverage.py::test_recertify_our_way[0.985-0.1--1.0-"

SUITES = (
    Suite("bounds", ("bounds/",), ("src/recert/bounds/", "tests/bounds/"), compiled=False),
    Suite(
        "certificates",
        (
            "certificates/",
            "noise/gaussian.py",
            "noise/laplace.py",
            "noise/quantiles.py",
            "noise/registry.py",
            "noise/rounded_normal.py",
            "noise/splitting.py",
            "noise/uniform.py",
            "certification.py",
        ),
        (
            "tests/test_guarantee.py",
            "tests/noise/test_gaussian.py",
            "tests/noise/test_l1.py",
            "tests/noise/test_grid.py",
            "tests/noise/test_splitting.py",
            "tests/noise/test_families.py",
            "tests/noise/test_stream.py::test_bad_sigma",
            "tests/test_results.py",
            "tests/test_sampling.py",
            "tests/cache/test_cache.py",
            "tests/test_looks.py",
            "tests/test_looks_counted.py",
            "tests/test_recertify.py",
            "tests/test_settings.py",
            "src/recert/noise/",
            "src/recert/certificates/",
            "tests/test_coverage.py::test_certify[",
            "tests/test_coverage.py::test_two_sided_bounds_hold_jointly_without_a_majority",
        ),
    ),
    Suite(
        "planning",
        ("planning/",),
        (
            "tests/test_planning.py",
            "tests/test_plan_for_a_radius.py",
            "tests/test_planned_certify.py",
            "src/recert/planning/",
            "tests/test_guarantee.py",
            "tests/test_recertify.py",
        ),
    ),
    Suite(
        "sequential",
        ("sequential/",),
        ("tests/sequential/test_decisions.py", "tests/sequential/test_levels.py", "src/recert/sequential/"),
    ),
    Suite("smoothed", ("smoothed.py",), ("tests/test_smoothed.py",)),
    Suite(
        "recertification",
        ("recertification/",),
        (
            "tests/test_misuse.py",
            "tests/test_guarantee.py",
            "tests/test_recertify.py",
            "tests/test_ahead.py",
            "tests/test_planning.py",
            "tests/test_looks.py",
            "tests/test_looks_counted.py",
            "tests/test_settings.py",
            "tests/sequential/test_decisions.py",
            "src/recert/recertification/",
            f"{_OUR_WAY}joint-acr",
            f"{_OUR_WAY}paired-uniform",
            f"{_OUR_WAY}series-uniform",
            "tests/test_coverage.py::test_recertify_by_irs[0.8-0.05--1.0-0.05-",
            "tests/test_coverage.py::test_recertify_from_scratch[0.985-0.1--1.0-",
        ),
    ),
    Suite("choosing", ("choosing/",), ("tests/choosing/", "src/recert/choosing/")),
    Suite("auditing", ("auditing/",), ("tests/auditing/", "src/recert/auditing/")),
    Suite("proxy", ("proxy.py",), ("tests/test_proxy.py", "tests/test_guarantee.py")),
    Suite(
        "comparison",
        ("comparison.py",),
        ("tests/test_comparison.py", "tests/test_cli.py::test_compare", "tests/test_looks.py::test_compare_"),
    ),
    Suite(
        "looks",
        ("cache/looks.py",),
        ("tests/test_looks.py", "tests/test_looks_counted.py", "tests/test_guarantee.py", "tests/cache/test_cache.py"),
    ),
)


def changes_in(suite: Suite) -> list[Change]:
    """All mutants of the suite's files."""
    every = (str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py")))
    files = [file for file in every if file.startswith(suite.mutated)]
    return [change for file in files for change in changes_of((PACKAGE / file).read_text(encoding="utf-8"), file)]


def paths_of_tests(suites: Sequence[Suite]) -> list[str]:
    """What pytest is to collect: the files of the suites' tests, as far as they exist."""
    named = dict.fromkeys(test.split("::")[0] for suite in suites for test in suite.tests)
    return [path for path in named if (REPOSITORY / path).exists()]
