"""Devices by name, for every command alike."""

import torch


def usable_device(name: str | torch.device) -> torch.device:
    """The device, or a ValueError in words if it is not there."""
    text = str(name)
    if text.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(
            f"expected a device that is there, got {text[:60]!r}, and torch finds no CUDA device; use --device cpu"
        )
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError):
        raise ValueError(f"expected a device that is there, such as cpu or cuda:0, got {text[:60]!r}") from None
    return torch.device(name)
