"""From a spec string to a network in eval mode. torch is imported when a network is really loaded."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recert.models.cards import ModelCard, card_of, card_path
from recert.models.registry import ENTRIES, build_model, model_entry
from recert.models.specs import ModelSpec, parse_spec


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A network ready to be certified, and what is known about it. `note` says in a line where it came from.

    `model` is an nn.Module, or a function from a batch to logits or labels where a factory of the user's makes one.
    """

    model: Any
    name: str
    classes: int | None
    input_shape: tuple[int, ...] | None
    note: str


def load_model(spec: str | os.PathLike[str], *, trust: bool = False) -> LoadedModel:
    """The network that a spec string names, in eval mode on the CPU; `SPEC_FORMS` lists what a spec can be.

    No file runs code while it is loaded, except a .pt2 and a TorchScript file, which are refused unless `trust` is set. A
    factory is the user's own code and does run, by design; one that is named by the card of a file, and not by you, needs `trust`.
    """
    parsed = parse_spec(os.fspath(spec))
    if parsed.kind == "registered":
        return _registered(parsed)
    if parsed.kind == "library":
        from recert.models.libraries import load_library_model

        return load_library_model(parsed.name, parsed.argument or "", parsed.weights)
    if parsed.kind == "factory":
        return _own(parsed)
    return _file(Path(parsed.name), trust)


def _registered(spec: ModelSpec) -> LoadedModel:
    entry = model_entry(spec.name)
    path = spec.weights or entry.weights(spec.argument)
    from recert.models.weights_files import load_weights

    network = build_model(entry.name)
    note = load_weights(network, path)
    if spec.weights is None:
        note = _card_note(path)
    name = entry.name if spec.weights is not None else path.stem
    return LoadedModel(network.eval(), name, entry.classes, entry.input_shape, note)


def _own(spec: ModelSpec) -> LoadedModel:
    from recert.models.exported_program import in_eval_mode
    from recert.models.factories import call_factory
    from recert.models.weights_files import load_weights

    network = call_factory(spec.name, spec.argument or "")
    if not hasattr(network, "state_dict"):
        if spec.weights:
            raise ValueError(f"expected a network for the weights {spec.weights}, got a function; leave them out")
        note = f"a function, as {spec.name}:{spec.argument} made it"
        return LoadedModel(network, f"{spec.name}:{spec.argument}", None, None, note)
    note = load_weights(network, spec.weights) if spec.weights else f"as {spec.name}:{spec.argument} made it"
    return LoadedModel(in_eval_mode(network), f"{spec.name}:{spec.argument}", None, None, note)


def _file(path: Path, trust: bool) -> LoadedModel:
    if not path.is_file():
        raise ValueError(f"expected a model file, got {str(path)!r}, which does not exist; check the path")
    suffix = path.suffix.lower()
    if suffix in (".onnx", ".safetensors") and (card := card_of(path)) is not None:
        return _saved(path, card, trust)
    if suffix == ".onnx":
        from recert.models.onnx_model import read_onnx

        graph = read_onnx(path)
        note = f"{path}, run by onnxruntime on the CPU"
        return LoadedModel(graph.eval(), path.stem, graph.classes, graph.input_shape, note)
    if suffix == ".pt2":
        from recert.models.exported_program import read_exported

        return LoadedModel(read_exported(path, trust=trust), path.stem, None, None, f"{path}, trusted by you")
    if suffix == ".safetensors":
        raise ValueError(
            f"expected a network, got {path}, which holds weights alone; say which network they belong to: "
            f"NAME@{path} or package.module:factory@{path}. (A model that recert has saved has a card beside it, {card_path(path).name}.)"
        )
    from recert.models.scripted import is_script_file, read_script

    if is_script_file(path):
        return LoadedModel(read_script(path, trust=trust), path.stem, None, None, f"{path}, trusted by you")
    from recert.models.locuslab import load_checkpoint

    return load_checkpoint(path)


def _saved(path: Path, card: ModelCard, trust: bool) -> LoadedModel:
    from recert.models.saved import saved_model

    model, known = saved_model(path, card, trust=trust), ENTRIES.get(card.architecture or "")
    classes, shape = (getattr(known or model, name, None) for name in ("classes", "input_shape"))
    what = card.approximation or card.architecture or "a graph"
    return LoadedModel(model, path.stem, classes, shape, f"{path}, {what}, as it was saved")


def _card_note(weights: Path) -> str:
    """What the card beside shipped weights says about them."""
    card = json.loads(weights.with_suffix(".json").read_text())
    accuracy = card["noisy_test_accuracy"]
    return f"shipped weights, trained with {card['noise']}, test accuracy under that noise {accuracy:.3f}"
