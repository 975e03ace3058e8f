"""Digest of what a model does beside its weights: by value, so that two models with one digest vote alike.

Code is hashed without comments, layout and docstrings, and with everything that it refers to: closures, defaults, globals, helper
functions, class attributes. Attributes are hashed by value, whatever their names. What cannot be hashed is named, and a
model with such an attribute needs a name from its user before its votes are stored.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from recert.errors import UnusableModel
from recert.models.permanent import masks
from recert.models.tensors import layers
from recert.models.walk import Walk
from recert.models.walk_modules import attributes_of, put_graph, put_script, put_wrappers


def structure_digest(
    model: nn.Module, name: str | None = None, around: Iterable[nn.Module] = ()
) -> tuple[str, list[str]]:
    """Digest of a model's structure, and the attributes that it could not look into. `around` are wrappers that compute the same."""
    walk = Walk({id(module) for _, module in layers(model)})
    walk.text(f"name {name or ''}")
    try:
        for wrapper in around:
            put_wrappers(walk, wrapper, "")
        walk.value(model, "")
    except RecursionError:
        raise UnusableModel(
            "expected a model whose attributes can be looked through, got one in which something is nested too deeply (a long chain of "
            "objects, say); keep it flat, or pass a function, with identity=..."
        ) from None
    for hooks in ("_global_forward_pre_hooks", "_global_forward_hooks"):  # of all modules in this process
        walk.value(list(getattr(nn.modules.module, hooks, {}).values()), hooks)
    walk.finish()
    return f"2-{walk.digest.hexdigest()}", walk.unknown


def part_digests(model: nn.Module) -> dict[str, str]:
    """Short digests of what a model does, layer by layer: of its class's code, each attribute, and its hooks."""
    modules = {id(module): (number, module) for number, module in enumerate(model.modules())}
    classes: dict[type, str] = {}
    found: dict[str, str] = {}

    def digest(put: Any) -> str:
        walk = Walk(set(modules), of_a_part=True)
        walk.seen = dict(modules)  # other layers have entries of their own
        put(walk)
        walk.finish()
        return walk.digest.hexdigest()[:12]

    for path, module in model.named_modules():
        named = f"{path}." if path else ""
        if isinstance(module, torch.jit.ScriptModule | torch.fx.GraphModule):
            look = put_script if isinstance(module, torch.jit.ScriptModule) else put_graph
            found[f"{named}graph"] = digest(lambda walk, m=module, look=look: look(walk, m, ""))
            continue
        kind = type(module)
        classes[kind] = classes.get(kind) or digest(lambda walk, kind=kind: walk.value(kind, ""))
        found[f"{named}class"] = f"{kind.__name__} {classes[kind]}"
        for name, value in attributes_of(module):
            found[f"{named}{name}"] = digest(lambda walk, value=value: walk.value(value, ""))
        hooks = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
        if unusual := [hook for hook in hooks if not any(hook is each for each in masks(module).values())]:
            found[f"{named}hooks"] = digest(lambda walk, unusual=unusual: walk.value(unusual, ""))
        if module._modules:
            found[f"{named}layers"] = digest(lambda walk, module=module: walk.value(list(module._modules), ""))
    return found
