"""Classifiers of torchvision and timm by name. Neither is required: each is imported when it is asked for."""

from pathlib import Path
from typing import Any

from torch import nn

from recert.errors import UnusableModel
from recert.extras import import_extra
from recert.models.loading import LoadedModel
from recert.models.normalization import IMAGENET_MEAN, IMAGENET_STD, NormalizedNetwork
from recert.models.weights_files import load_weights
from recert.models.weights_only import weights_only_loads


def load_library_model(library: str, name: str, weights: Path | None) -> LoadedModel:
    """A classifier that takes images in [0, 1], with its pretrained weights unless a file of weights is given."""
    make = _torchvision if library == "torchvision" else _timm
    with weights_only_loads():
        network, settings, note = make(name, pretrained=weights is None)
    if weights is not None:
        note = load_weights(network, weights)
    model = NormalizedNetwork(network, settings["mean"], settings["std"]).eval()
    return LoadedModel(model, f"{library}:{name}", settings["classes"], settings["input_shape"], note)


def library_network(library: str, name: str) -> nn.Module:
    """The same network with random weights."""
    network, settings, _ = (_torchvision if library == "torchvision" else _timm)(name, pretrained=False)
    return NormalizedNetwork(network, settings["mean"], settings["std"])


def torchvision_network(name: str) -> nn.Module:
    """An architecture of torchvision with random weights."""
    network, _, _ = _torchvision(name, pretrained=False)
    return network


def _torchvision(name: str, pretrained: bool) -> tuple[nn.Module, dict[str, Any], str]:
    models = import_extra("torchvision.models", extra="vision", purpose="a model of torchvision")
    try:
        choices = models.get_model_weights(name)
    except ValueError:
        raise _unknown("torchvision", name, "torchvision.models.list_models()") from None
    best = getattr(choices, "DEFAULT", None)
    network: nn.Module = models.get_model(name, weights=None)
    if pretrained:
        if best is None:
            raise UnusableModel(f"torchvision has no pretrained weights for {name}; write torchvision:{name}@FILE")
        network.load_state_dict(_fetched(best.get_state_dict, "torchvision", name, progress=False, weights_only=True))
    preset: Any = best.transforms() if best is not None else object()
    side = int(getattr(preset, "crop_size", [224])[0])
    settings = {
        "mean": getattr(preset, "mean", IMAGENET_MEAN),
        "std": getattr(preset, "std", IMAGENET_STD),
        "classes": len(best.meta["categories"]) if best is not None else None,
        "input_shape": (3, side, side),
    }
    return network, settings, f"torchvision's {best}" if pretrained else "random weights"


def _timm(name: str, pretrained: bool) -> tuple[nn.Module, dict[str, Any], str]:
    timm = import_extra("timm", extra="vision", purpose="a model of timm")
    if not timm.is_model(name):
        raise _unknown("timm", name, "timm.list_models()")
    network: nn.Module = _fetched(timm.create_model, "timm", name, name, pretrained=pretrained)
    config: Any = network.pretrained_cfg
    settings = {
        "mean": config["mean"],
        "std": config["std"],
        "classes": config["num_classes"],
        "input_shape": tuple(config["input_size"]),
    }
    return network, settings, "timm's pretrained weights" if pretrained else "random weights"


def _fetched(fetch: Any, library: str, name: str, *arguments: Any, **options: Any) -> Any:
    try:
        return fetch(*arguments, **options)
    except Exception as error:  # no network, a broken download, a refused pickle: all have the same remedy
        raise UnusableModel(
            f"could not get the weights of {library}:{name} ({type(error).__name__}: {error}); "
            f"fetch a weights file yourself and write {library}:{name}@FILE"
        ) from None


def _unknown(library: str, name: str, listing: str) -> ValueError:
    return ValueError(f"expected a model of {library}, got {name!r}, which it does not have; {listing} names them")
