"""Programs of torch.export (.pt2). Loading one can run code from the file, so it is refused unless the user trusts it."""

from pathlib import Path

import torch
from torch import nn

from recert.errors import UnusableModel


def read_exported(path: Path, *, trust: bool) -> nn.Module:
    """The module of a .pt2 file; refused unless trusted."""
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
    for part in module.modules():
        part.training = False  # the mode was fixed when it was exported, and .eval() is not implemented on it
    return module
