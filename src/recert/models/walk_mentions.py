"""Of the walk through a model: what counts only because some code that was seen mentions it, which is known at the end."""

import types
from typing import TYPE_CHECKING

from recert.models.replaced import COMPUTING, replaced
from recert.models.walk_code import MADE_BY_PYTHON

if TYPE_CHECKING:
    from recert.models.walk import Walk


def put_mentioned(walk: "Walk") -> None:
    """Values of the user's modules, asides, functions in the place of others, and at last counters and what `forward` reads."""
    values: set[tuple[int, str]] = set()
    asides: set[int] = set()
    replacing: set[int] = set()
    # What is found may mention other names: until there is nothing new.
    while _of_modules(walk, values) or _asides(walk, asides) or _replaced(walk, replacing):
        pass
    _read_by_forward(walk)
    _attached(walk)


def _of_modules(walk: "Walk", done: set[tuple[int, str]]) -> bool:
    """Values of the user's own modules; whether there was any that was new, as of all these functions."""
    wanted = [
        (i, name)
        for i, module in enumerate(walk.modules_met)
        for name in _wanted_of(walk, module)
        if (i, name) not in done
    ]
    for i, name in wanted:
        walk.text(f"of module {i} {name}")
        walk.value(vars(walk.modules_met[i])[name], f"{walk.modules_met[i].__name__}.{name}")
    done.update(wanted)
    return bool(wanted)


def _wanted_of(walk: "Walk", module: types.ModuleType) -> list[str]:
    """Names in a module of the user's own that code may take from it."""
    names = {name for name in vars(module) if name not in MADE_BY_PYTHON}
    if not walk.by_computed_names:
        names &= {*walk.mentioned, "__getattr__"}  # which answers for names that are not there
    return sorted(names)


def _asides(walk: "Walk", done: set[int]) -> bool:
    """What lies beside a model's attributes."""
    new = [i for i, (name, _, _) in enumerate(walk.asides) if name in walk.mentioned and i not in done]
    for i in new:
        name, value, path = walk.asides[i]
        walk.text(f"aside {name}")
        walk.value(value, path)
    done.update(new)
    return bool(new)


def _replaced(walk: "Walk", done: set[int]) -> bool:
    """Functions of the user's that were put in the place of torch's or another package's."""
    found = False
    if walk.of_a_part:  # the walk through the whole looks
        return found
    for owner, name, function in replaced(walk.packages_met):
        if (owner in COMPUTING or name in walk.read | walk.mentioned) and id(function) not in done:
            walk.text(f"replaced {owner}.{name}")
            walk.value(function, f"{owner}.{name}")
            done.add(id(function))
            found = True
    return found


def _read_by_forward(walk: "Walk") -> None:
    for place, (name, value) in enumerate(list(walk.for_forward)):
        if name in walk.read_to_vote:
            walk.text(f"{place} {name} in forward")
            walk.value(value, name)


def _attached(walk: "Walk") -> None:
    """Attributes of tensors, what is under masks, and counters that something reads."""
    for name, value in walk.class_counters:
        if (name in walk.read or _is_read(walk, name)) and value:
            walk.text(f"class counter {name} {value!r}")
    of_code = walk.mentioned
    for values, names in ((walk.counters, walk.read), (walk.attached, of_code), (walk.under_masks, of_code)):
        for place, (name, value) in enumerate(list(values)):
            if name in names or (values is walk.counters and _is_read(walk, name)):
                walk.text(f"{place} {name}")
                walk.value(value, name)


def _is_read(walk: "Walk", counter: str) -> bool:
    return walk.reads_all or any(counter.startswith(each) for each in walk.beginnings)
