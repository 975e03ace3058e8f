"""Programs of torch.export: files (.pt2), the objects that `torch.export.export` returns, and the modules made from them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from recert.errors import UnusableModel


def read_exported(path: Path, *, trust: bool) -> nn.Module:
    """The module of a .pt2 file; refused unless trusted, since loading one can run code from the file."""
    if not trust:
        raise UnusableModel(
            f"expected a file that cannot run code, got {path}: torch.export.load unpickles parts of a .pt2, and a doctored "
            "one runs any command. If you made it, or trust who did, pass trust=True (--trust); otherwise ask for ONNX, "
            "or for safetensors and the architecture"
        )
    try:
        module: nn.Module = torch.export.load(path).module()
    except Exception as error:  # many layers, no common class
        raise UnusableModel(
            f"expected a program saved by torch.export.save, got {path}, which does not load ({type(error).__name__}); "
            "export it again with this version of torch"
        ) from None
    return in_eval_mode(module)


def as_module(model: Any) -> Any:
    """The module of an exported program, which cannot be called itself; anything else as it is."""
    return model.module() if isinstance(model, torch.export.ExportedProgram) else model


def in_eval_mode(model: nn.Module) -> nn.Module:
    """The network in eval mode. Of an exported part the mode was fixed when it was exported, and its `.eval()` raises."""
    if not any(map(is_exported, model.modules())):
        return model.eval()
    for part in model.modules():
        part.training = False
    return model


def with_a_mode(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a network, by name, that compute otherwise in training mode: all but those of exported programs.

    A program that was exported in training mode draws its own randomness or mixes rows, which the sampler's probe finds.
    """
    fixed = {id(inner) for part in model.modules() if is_exported(part) for inner in part.modules()}
    return ((name, part) for name, part in model.named_modules() if id(part) not in fixed and hasattr(part, "training"))


def is_exported(module: nn.Module) -> bool:
    """Whether a module was made from a program of torch.export, which puts an `eval` that raises on it."""
    marked = "eval" in vars(module) or "inline_constraints" in getattr(module, "meta", ())
    return marked and isinstance(module, torch.fx.GraphModule)
