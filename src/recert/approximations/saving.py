"""A model into a file that `load_model` reads, and its card. Tensors or a graph, never a pickle."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from recert.approximations.onnx_kernels import OnnxKernels
from recert.approximations.twin.module import Twin
from recert.errors import UnusableModel
from recert.models.cards import GRAPH, INT8, INT8_TWIN, WEIGHTS, ModelCard, card_path
from recert.models.digest import identify
from recert.models.identity import ModelIdentity
from recert.models.inference import PreparedModel
from recert.models.onnx_export import to_onnxruntime
from recert.models.onnx_model import OnnxModel
from recert.models.registry import available_models, build_model
from recert.models.saved import architecture as built
from recert.models.saved import fill_exactly, graph_model, named_tensors, orders
from recert.sampling.inputs import checked_inputs
from recert.storage import write_whole
from recert.version import __version__

ENDINGS = (".safetensors", ".onnx")


def save_model(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    architecture: str | None = None,
    approximation: str | None = None,
    description: str = "",
    facts: Mapping[str, str] | None = None,
    example_input: Any = None,
) -> ModelCard:
    """Write a model to `path` (.safetensors or .onnx) and its card to `path`.json; `load_model(path)` gives the same identity.

    `.onnx` is for models that are an ONNX graph (int8, int8-twin, runtime "onnxruntime"): the very bytes that were run. Another
    network is exported with `example_input` (a batch), and is then another model, which onnxruntime computes: certify that file. `.safetensors`
    is for torch networks: all parameters and buffers, in their own types. `architecture` says what they belong to: a name of `recert models`,
    "torchvision:NAME", "timm:NAME" or "package.module:factory"; found by itself for networks that come with recert. It is
    built, filled and compared with the model, and refused if it is not the same.
    """
    where = Path(path)
    if where.suffix not in ENDINGS:
        raise ValueError(f"expected a file ending in {' or '.join(ENDINGS)} to save a model in, got {where.name!r}")
    if not isinstance(model, nn.Module) or isinstance(model, PreparedModel):
        raise ValueError(f"expected a torch module that is not prepared yet, got {type(model).__name__}")
    if where.suffix == ".onnx":
        kind, content, identity = _graph(model, example_input)
        extra: dict[str, Any] = {}
    else:
        kind, (content, identity, extra) = WEIGHTS, _weights(model, architecture)
    card = ModelCard(
        kind=kind, sha256=hashlib.sha256(content).hexdigest(), weights=identity.weights, structure=identity.structure,
        approximation=approximation, description=description, facts=dict(facts or {}),
        versions={"recert": __version__, "torch": torch.__version__.partition("+")[0]}, **extra,
    )  # fmt: skip
    where.parent.mkdir(parents=True, exist_ok=True)
    write_whole(where, content)
    write_whole(card_path(where), card.to_json())
    return card


def _graph(model: nn.Module, example_input: Any) -> tuple[str, bytes, ModelIdentity]:
    """The kind of a graph, its bytes, and the identity of what computes it."""
    if isinstance(model, Twin):
        kind, content = INT8_TWIN, model.file.cpu().numpy().tobytes()
    elif isinstance(model, OnnxModel):
        kind, content = INT8 if isinstance(model, OnnxKernels) else GRAPH, model.data.cpu().numpy().tobytes()
    else:
        kind, content = GRAPH, _exported(model, example_input)
        return kind, content, identify(graph_model(kind, content))
    made = identify(graph_model(kind, content))
    _check_same(identify(model), made, "a graph in a class of its own", "pass the graph's own model")
    return kind, content, made


def _exported(model: nn.Module, example_input: Any) -> bytes:
    types = {str(t.dtype).removeprefix("torch.") for t in named_tensors(model).values() if t.is_floating_point()}
    if types - {"float32"}:
        raise ValueError(
            f"expected a network in float32 to export, got one in {', '.join(sorted(types))}, which onnxruntime would not compute "
            "in float32 as it was; save it as .safetensors"
        )
    if example_input is None:
        raise ValueError(
            "expected example_input, a batch, to export a torch network, got none; or save it as .safetensors"
        )
    return to_onnxruntime(model, np.asarray(checked_inputs(example_input)[:2])).data.numpy().tobytes()


def _weights(model: nn.Module, architecture: str | None) -> tuple[bytes, ModelIdentity, dict[str, Any]]:
    """The bytes of a .safetensors file, the identity of what it loads as, and what the card says of it."""
    if isinstance(model, Twin | OnnxModel):
        raise ValueError(f"expected a file ending in .onnx for {type(model).__name__}, which is an ONNX graph")
    identity = identify(model)
    if identity.nameless is not None:
        raise UnusableModel(
            f"expected a model that can be distinguished from others, got one of which not: {identity.nameless}"
        )
    spec = _found(model) if architecture is None else architecture
    stored, shared = _each_once(named_tensors(model))
    narrow = {name: _narrowed(tensor) for name, tensor in stored.items()}
    computed_in = {
        name: str(stored[name].dtype).removeprefix("torch.")
        for name, tensor in narrow.items()
        if tensor.dtype != stored[name].dtype
    }
    about: dict[str, Any] = {"architecture": spec, "shared": shared, "computed_in": computed_in}
    try:
        content = safetensors.torch.save(narrow)
    except (ValueError, RuntimeError, KeyError) as error:
        raise UnusableModel(
            f"expected dense tensors, got some that safetensors does not hold ({error}); save the model as .onnx"
        ) from None
    # Named by whoever saves, and not by a file: their own code may run.
    again, own = built(spec, trust=True, source="the model"), orders(model)
    usual = orders(again)
    about["order"] = {path: names for path, names in own.items() if usual.get(path, names) != names}
    card = ModelCard(WEIGHTS, "", "", "", **about)
    fill_exactly(again, safetensors.torch.load(content), card, "the model")
    _check_same(identity, identify(again.eval()), spec, "name the architecture that makes it, or save it as .onnx")
    return content, identity, about


def _found(model: nn.Module) -> str:
    """The network of ours that a model is, by its class; which of them it is exactly is checked when it is filled."""
    for entry in available_models():
        network = build_model(entry.name)
        if type(network) is type(model) and named_tensors(network).keys() == named_tensors(model).keys():
            return entry.name
    raise ValueError(
        f"expected architecture=... to save a {type(model).__name__}, got none; name what makes it, such as 'package.module:factory' "
        "(a function without arguments) or 'torchvision:resnet50'"
    )


def _check_same(saved: ModelIdentity, loaded: ModelIdentity, what: str, remedy: str) -> None:
    if saved == loaded:
        return
    part = "weights" if saved.weights != loaded.weights else "structure"
    raise UnusableModel(f"expected {what} to be the model when it is loaded again, got another {part}; {remedy}")


def _each_once(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors under their first names, and the first names of the others."""
    first: dict[int, str] = {}
    shared = {name: first.setdefault(id(tensor), name) for name, tensor in tensors.items()}
    stored = {
        name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items() if shared[name] == name
    }
    return stored, {name: other for name, other in shared.items() if name != other}


def _narrowed(tensor: Tensor) -> Tensor:
    """In a type of half the size if that holds every bit of it: weights that were rounded are stored as what they are."""
    if tensor.dtype != torch.float32:
        return tensor
    for dtype in (torch.float16, torch.bfloat16):
        narrow = tensor.to(dtype)
        if torch.equal(narrow.to(torch.float32).view(torch.int32), tensor.view(torch.int32)):
            return narrow
    return tensor
