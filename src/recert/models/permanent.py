"""Weights that are computed anew in every pass: pruning masks, parametrisations, weight and spectral normalisation.

What such a network keeps (the unpruned weights and their mask, say) is not what it computes with. So it is made permanent before
anything in it is counted, exported, timed or changed.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from recert.errors import UnusableModel

KEPT = {BasePruningMethod: ("_orig", "_mask"), WeightNorm: ("_g", "_v"), SpectralNorm: ("_orig", "_u", "_v")}
"""Hooks of torch that compute a tensor before each pass, and the ends of the names of what they compute it from."""


def permanent(model: nn.Module) -> nn.Module:
    """A copy that computes the same with plain weights; the model itself if it computes none. The copy shares all other tensors.

    The values are those of eval mode. A parametrisation of the user's own that gives another value in each pass is not
    the same afterwards.
    """
    if not any(_hooks(module) or is_parametrized(module) for module in model.modules()):
        return model
    try:
        made = copy.deepcopy(model, {id(tensor): tensor for tensor in _tensors(model)})
    except Exception as error:
        raise UnusableModel(
            f"expected a model that can be copied, to make its computed weights permanent, got {type(error).__name__}: {error}; make "
            "them permanent first (torch.nn.utils.prune.remove, torch.nn.utils.parametrize.remove_parametrizations)"
        ) from error
    with torch.no_grad():
        # All values first: two layers may share what they are computed from.
        found = [(module, _computed(module)) for module in made.modules()]
    for module, values in found:
        _fix(module, values)
    return made


def copied(model: nn.Module) -> nn.Module:
    """A copy, also of a network whose hooks keep a computed tensor with its gradients, which torch refuses to copy."""
    left = [each for module in model.modules() for each in vars(module).values() if isinstance(each, Tensor)]
    return copy.deepcopy(model, {id(each): each.detach().clone() for each in left if not each.is_leaf})


def masks(module: nn.Module) -> dict[str, Any]:
    """The pruning masks of torch on a module: the hook that multiplies each tensor with its mask, by the tensor's name.

    The product of a weight with zeros and ones is exact on every machine, so that a mask in place and a mask made permanent are
    one model. Of a class that multiplies in its own way there is nothing here.
    """
    own = BasePruningMethod.__call__, BasePruningMethod.apply_mask
    return {
        name: hook
        for name, hook in _hooks(module)
        if isinstance(hook, BasePruningMethod) and (type(hook).__call__, type(hook).apply_mask) == own and _is_binary(module, name)
    }  # fmt: skip


def masked(module: nn.Module, name: str) -> Tensor:
    """A pruned tensor as the next pass computes with it."""
    with torch.no_grad():
        return masks(module)[name].apply_mask(module).detach()  # type: ignore[no-any-return]


def _is_binary(module: nn.Module, name: str) -> bool:
    mask = module._buffers.get(f"{name}_mask")
    return mask is not None and f"{name}_orig" in module._parameters and bool(((mask == 0) | (mask == 1)).all())


def _hooks(module: nn.Module) -> list[tuple[str, Any]]:
    """Hooks that compute a tensor before each pass, by its name, in the order in which they are called."""
    found = [hook for hook in module._forward_pre_hooks.values() if isinstance(hook, tuple(KEPT))]
    return [(str(getattr(hook, "_tensor_name", None) or getattr(hook, "name", "")), hook) for hook in found]


def _computed(module: nn.Module) -> dict[str, Tensor]:
    """What the hooks and parametrisations of a module compute, by name."""
    hooks = _hooks(module)
    for _, hook in hooks:
        hook(module, ())
    names = [name for name, _ in hooks]
    if is_parametrized(module):
        names += list(module.parametrizations)  # type: ignore[arg-type]
    return {name: getattr(module, name).detach().clone() for name in dict.fromkeys(names)}


def _fix(module: nn.Module, values: dict[str, Tensor]) -> None:
    """Put plain weights in place of what they were computed from. Only the module is changed, none of its tensors or classes."""
    left_over = set()
    for name, hook in _hooks(module):
        left_over |= {f"{name}{end}" for kind, ends in KEPT.items() if isinstance(hook, kind) for end in ends}
    for number in [n for n, hook in module._forward_pre_hooks.items() if isinstance(hook, tuple(KEPT))]:
        del module._forward_pre_hooks[number]
    trained = dict.fromkeys(values, True)
    if is_parametrized(module):
        lists: Any = module._modules.pop("parametrizations")
        trained |= {name: any(True for _ in each.parameters()) for name, each in lists.items()}
        # Of a class that torch made for this module: its members stay, since the model that was copied has the same class.
        module.__class__ = type(module).__bases__[0]
    for name in left_over:
        for held in (module._parameters, module._buffers, module.__dict__):
            held.pop(name, None)
    for name in values.keys() - left_over:
        module.__dict__.pop(name, None)
        if trained[name]:
            setattr(module, name, nn.Parameter(values[name], requires_grad=values[name].is_floating_point()))
        else:
            module.register_buffer(name, values[name])


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    """Everything that a copy shares: weights, and tensors that a pass has left behind, which torch refuses to copy."""
    yield from model.parameters()
    yield from model.buffers()
    for module in model.modules():
        yield from (value for value in vars(module).values() if isinstance(value, Tensor))
