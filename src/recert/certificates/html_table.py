"""What notebooks show of certificates and caches: a small table. Every text in it is escaped, since names and specs come from files."""

import html
import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recert.certificates.certificates import Certificates


def html_table(title: str, rows: Mapping[str, object], remark: str = "") -> str:
    """A table of names and values, with a remark below."""
    lines = "".join(
        f'<tr><th style="text-align: left">{html.escape(name)}</th><td style="text-align: left">{html.escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    below = f"<p>{html.escape(remark)}</p>" if remark else ""
    return (
        f"<table><thead><tr><th colspan=2>{html.escape(title)}</th></tr></thead><tbody>{lines}</tbody></table>{below}"
    )


def result_rows(result: "Certificates") -> dict[str, str]:
    """What certificates say about their inputs, without labels."""
    outcomes = Counter(str(outcome) for outcome in result.outcome)
    radius = float(result.radius.mean()) if len(result) else 0.0
    return {
        "outcomes": ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common()) or "none",
        # Rounded down: what is shown is never more than what is claimed.
        "mean radius": f"{math.floor(radius * 10_000) / 10_000:.4f} (0 where it abstains; right or wrong)",
        "forward passes per input": f"{result.mean_forward_passes:,.0f}" if len(result) else "0",
    }


def certificates_as_html(result: "Certificates") -> str:
    settings = result.settings
    about = {
        "inputs": f"{len(result):,}",
        "method": f"{settings.method}, {settings.certificate}",
        "noise": f"{settings.noise}, seed {settings.seed}",
        "n": f"{settings.samples:,}",
        "alpha": f"{settings.alpha:g}",
    }
    return html_table("Certificates", {**about, **result_rows(result)}, settings.guarantee)
