"""Of the walk through a model: its modules, with their attributes, weights, hooks and graphs."""

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from recert.models.classes import counters, names_in_class, slots
from recert.models.inference import PreparedModel
from recert.models.permanent import masked, masks
from recert.models.scripted import script_constants, script_graph
from recert.models.trusted import is_ours, is_torchs
from recert.models.walk_code import put_backend

if TYPE_CHECKING:
    from recert.models.walk import Walk

UNUSED_ATTRIBUTES = {
    "training", "_made_by", "_calibrated_on", "_is_torch_compile", "_compiled_call_impl", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks",
    "_is_full_backward_hook", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
}  # fmt: skip
"""Of every module: hashed elsewhere (weights, children), or without influence on `forward`, unless code mentions them."""
OF_GRAPHS = {
    "_forward_pre_hooks", "_forward_hooks", "_actual_script_module", "_c", "_concrete_type", "_code", "_graph", "_lineno_map", "_tracer_cls", "_tracer_extras", "_create_node_hooks", "_erase_node_hooks", "_replace_hooks", "_deepcopy_hooks", "_prologue_start", "_name", "_initializing", "_in_spec", "_out_spec", "meta", "shape_env", "forward", "__dir__",
    "__getitem__", "__iter__", "__len__", "__contains__",
}  # fmt: skip
"""What torch itself puts on modules of graphs and of TorchScript."""
READS_ALL_TENSORS = (
    "parameters", "named_parameters", "_parameters", "buffers", "named_buffers", "_buffers", "state_dict", "__dict__", "vars", "getattr",
    "__getattribute__", "_forward_pre_hooks",
)  # fmt: skip
"""Names by which code reaches tensors without saying theirs."""


def attributes_of(module: nn.Module) -> list[tuple[str, Any]]:
    """Attributes of a module that may decide votes, by name: not its weights, layers and hooks."""
    ours = getattr(module, "not_identity", ()) if is_ours(type(module)) else ()
    left_out = {*UNUSED_ATTRIBUTES, "_forward_pre_hooks", "_forward_hooks", *ours, *masks(module)}
    if is_torchs(type(module)):
        left_out.add("extra_repr")  # torchao gives layers another text
    return [
        (name, value) for name, value in sorted(vars(module).items(), key=lambda item: item[0]) if name not in left_out
    ]


def unwrapped(model: Any) -> Any:
    """The network inside torch.compile's wrapper, which computes the same."""
    while _is_compiled_module(model):
        model = model._modules["_orig_mod"]
    return model


def _is_compiled_module(model: Any) -> bool:
    """Whether it is what torch.compile makes of a network. A class of the user's may have the same name."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")  # which takes long to import, and is there if it was used
    return dynamo is not None and type(model) is dynamo.OptimizedModule


def put_wrappers(walk: "Walk", model: nn.Module, path: str) -> None:
    """Of wrappers that compute the same as the network inside: what somebody has put on them."""
    while _is_compiled_module(model) or isinstance(model, PreparedModel):
        for hooks, with_keywords in (
            (model._forward_pre_hooks, model._forward_pre_hooks_with_kwargs),
            (model._forward_hooks, model._forward_hooks_with_kwargs),
        ):
            if hooks:
                walk.text("on a wrapper")
                _hooks(walk, hooks, with_keywords, path)
        if isinstance(model, PreparedModel):
            return
        put_backend(walk, model, path)
        model = model._modules["_orig_mod"]  # type: ignore[assignment]


def put_module(walk: "Walk", module: nn.Module, path: str) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        put_script(walk, module, path)
        return
    walk.value(type(module), path)
    if isinstance(module, torch.fx.GraphModule):
        put_graph(walk, module, path)
    else:
        _attributes(walk, module, path)
    tensors = _held(walk, module)
    walk.text(f"buffers {list(tensors)}")  # in the order in which code may go through them
    if module._buffers and not is_torchs(type(module)):
        walk.for_forward += [(name, list(module._buffers)) for name in READS_ALL_TENSORS]
    if id(module) not in walk.registered:  # in a plain list, say: its values are not among the model's weights
        walk.text(f"training {module.training}")
        walk.items([tensors[name] for name in sorted(tensors)], path)
    for name in sorted(tensors):
        if (tensor := tensors[name]) is not None:
            walk.about_tensor(tensor, f"{path}.{name}".lstrip("."))
            walk.about_memory(tensor, path)
            walk.about_wrapper(tensor, f"{path}.{name}".lstrip("."))
    for name, child in module._modules.items():
        walk.text(f"child {name}")
        walk.value(child, f"{path}.{name}".lstrip("."))
    pruning = [id(hook) for hook in masks(module).values()]
    before = {number: hook for number, hook in module._forward_pre_hooks.items() if id(hook) not in pruning}
    _hooks(walk, before, module._forward_pre_hooks_with_kwargs, path)
    _hooks(walk, module._forward_hooks, module._forward_hooks_with_kwargs, path)


def _held(walk: "Walk", module: nn.Module) -> dict[str, Tensor | None]:
    """Weights and buffers by name, pruned ones as they are computed with: whether the mask is still in place decides no vote."""
    held = {**module._parameters, **module._buffers}
    for name in masks(module):
        apart = [(f"{name}{end}", held.pop(f"{name}{end}")) for end in ("_orig", "_mask")]
        held[name] = masked(module, name)
        # Unless code reads the one or the other itself, by its name, or whatever there is.
        walk.under_masks += [(word, value) for own, value in apart for word in (own, *READS_ALL_TENSORS)]
    return held


def _hooks(walk: "Walk", hooks: Mapping[int, Any], with_keywords: Mapping[int, bool], path: str) -> None:
    walk.items(((hook, number in with_keywords) for number, hook in hooks.items()), f"{path}'s hooks")


def _attributes(walk: "Walk", module: nn.Module, path: str) -> None:
    compiled = vars(module).get("_compiled_call_impl")
    if compiled is not None and not _is_compiled(compiled):  # something else is called in place of the module
        _named(walk, compiled, f"{path}._compiled_call_impl".lstrip("."), lenient=False)
    elif compiled is not None:
        put_backend(walk, compiled, path)
    for name in (name for kind in type(module).__mro__ if not is_torchs(kind) for name in slots(kind)):
        if hasattr(module, name):
            walk.text(f"slot {name}")
            walk.value(getattr(module, name), f"{path}.{name}".lstrip("."))
    walk.attached += [(name, vars(module)[name]) for name in ("_made_by", "_is_torch_compile") if name in vars(module)]
    own = {name for name, _ in attributes_of(module)}
    walk.order_of(name for name in vars(module) if name in own)
    uncertain = counters(type(module))
    for name, value in attributes_of(module):
        if name in uncertain and type(value) in (int, float):
            walk.counters.append((name, value))
            continue
        walk.text(f"attribute {name}")
        _named(walk, value, f"{path}.{name}".lstrip("."), lenient=_is_torchs_attribute(type(module), name))


def _named(walk: "Walk", value: Any, path: str, *, lenient: bool) -> None:
    """An attribute. What torch's own modules have of torch and cannot be hashed is not the user's: its type is enough."""
    before = len(walk.unknown)
    walk.value(value, path)
    if lenient:
        del walk.unknown[before:]


def put_script(walk: "Walk", module: torch.jit.ScriptModule, path: str) -> None:
    """A traced or scripted module: its graph, and the constants in it."""
    if not isinstance(forward := vars(module).get("forward"), torch._C.ScriptMethod | None):  # instead of the graph's
        walk.value(forward, f"{path}.forward".lstrip("."))
    walk.text(script_graph(module))
    for name, constant in script_constants(module):
        walk.text(f"constant {name}")
        walk.value(constant, f"{path}.{name}".lstrip("."))
    if not is_torchs(type(module)):
        walk.value(type(module), path)
    if module._forward_pre_hooks:
        _hooks(walk, module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs, path)
    if module._forward_hooks:
        walk.text("after")
        _hooks(walk, module._forward_hooks, module._forward_hooks_with_kwargs, path)
    _asides(walk, module, path)


def _asides(walk: "Walk", module: nn.Module, path: str) -> None:
    """Attributes of a module that is known by its graph: somebody gave it these, and they count where code mentions them."""
    made = (torch._C.ScriptMethod, torch._C.ScriptModule, torch.jit.ScriptModule, torch.fx.Graph)
    walk.asides += [
        (name, value, f"{path}.{name}".lstrip("."))
        for name, value in sorted(vars(module).items())
        if name not in UNUSED_ATTRIBUTES | OF_GRAPHS and not isinstance(value, made)
    ]


def put_graph(walk: "Walk", module: torch.fx.GraphModule, path: str) -> None:
    """A module of torch.fx or torch.export: the code of its graph, what it calls, and its constants."""
    walk.text(module.code)
    for node in module.graph.nodes:
        if callable(node.target):
            walk.value(node.target, f"{path}.{node.name}".lstrip("."))
        if node.op == "get_attr":
            walk.value(functools.reduce(getattr, node.target.split("."), module), f"{path}.{node.target}")
    for name, value in sorted(vars(module).items()):
        if isinstance(value, Tensor | np.ndarray | nn.Module) or name == "forward":
            walk.text(f"constant {name}")
            walk.value(value, f"{path}.{name}".lstrip("."))
    _asides(walk, module, path)


def _is_torchs_attribute(kind: type, name: str) -> bool:
    """Whether torch's own code uses an attribute of a module of torch's. A `forward` that was put there is the user's."""
    if not is_torchs(kind) or (
        name == "forward" and kind.__name__ != "GuardsFn"
    ):  # which checks shapes, and answers nothing
        return False
    return any(name in names_in_class(each) for each in kind.__mro__)


def _is_compiled(function: Any) -> bool:
    """Whether it is what `module.compile()` makes of a module's own call."""
    return getattr(getattr(function, "_torchdynamo_orig_callable", None), "__func__", None) is nn.Module._call_impl
