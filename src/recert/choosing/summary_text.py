"""What `select` found as lines of text: certified values are claims, predicted ones are the race's guesses."""

from recert.choosing.result import Chosen

WIDEST, NARROWEST = 40, 10


def text_picture(chosen: Chosen, width: int = 80) -> str:
    """One line per candidate, in order of cost: certified (#) or predicted (o) metric on a scale with the target (|).

    Lines are no longer than `width`, unless names leave no room for the scale.
    """
    values = [chosen.base, chosen.target, *(entry.value for entry in chosen.entries)]
    low, high = min(values), max(values)
    # All values may be equal: then every mark is at the left end.
    span = (high - low) or 1.0
    edge = {entry.name for entry in chosen.pareto}
    names = max(len(entry.name) for entry in chosen.entries)
    # Beside the scale: a cost of 12 characters, a mark, a value of 5, and blanks between them.
    scale = max(NARROWEST, min(WIDEST, width - names - 22))
    lines = [
        f"{chosen.metric} from {low:.3f} to {high:.3f}; | target, # certified, o predicted (no claim), * on the Pareto edge"
    ]
    for entry in chosen.entries:
        cells = ["."] * scale
        cells[round((chosen.target - low) / span * (scale - 1))] = "|"
        cells[round((entry.value - low) / span * (scale - 1))] = "o" if entry.certified is None else "#"
        mark = "*" if entry.name in edge else " "
        lines.append(f"{entry.name:{names}} {entry.cost:12,.6g} {mark} {''.join(cells)} {entry.value:.3f}")
    return "\n".join(lines)
