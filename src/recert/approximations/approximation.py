"""`approximate`: a cheaper model, what was done to it, and the evidence that something was."""

import copy
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from recert.approximations.calibration import Calibration
from recert.approximations.checks import check_changed, check_rows_independent
from recert.approximations.context import Context
from recert.approximations.registry import Parsed, needs_calibration, parse, steps
from recert.errors import UnusableModel
from recert.models.calibrated import note_calibration
from recert.models.exported_program import as_module, in_eval_mode
from recert.models.permanent import copied, permanent
from recert.sampling.inputs import checked_inputs

if TYPE_CHECKING:
    from recert.models.cards import ModelCard

EXAMPLE_ROWS = 8


@dataclass(frozen=True, eq=False)
class Approximation:
    """A cheaper model (new, in eval mode), the spec that made it, one line about it, and what was measured."""

    model: nn.Module
    spec: str
    description: str
    facts: dict[str, str]

    def save(
        self, path: str | os.PathLike[str], *, architecture: str | None = None, example_input: Any = None
    ) -> "ModelCard":
        """Write the model and its card, as `save_model` does: .onnx for int8 and int8-twin, else .safetensors."""
        from recert.approximations.saving import save_model

        return save_model(
            self.model, path, architecture=architecture, approximation=self.spec, description=self.description, facts=self.facts,
            example_input=example_input,
        )  # fmt: skip


def approximate(
    model: nn.Module, spec: str, *, calibration: Calibration | None = None, example_input: Any = None
) -> Approximation:
    """Make a cheaper model by its spec (`int8`, `prune:0.1`, ...; see `available_approximations`), or step by step (`prune:0.3+int8`).
    A step may be limited to layers by name, `prune:0.5[layer3.*]`, or leave some out, `int8[!conv1,!fc]`.

    The given model stays as it is. Refused with UnusableModel: a result that is the same as the model, and one whose
    output for a row depends on the other rows of its batch. Both are looked at on `example_input` (a batch), or else on
    calibration inputs. With neither, only the weights are compared, and the sampler checks the rows before it draws.

    `int8` and `int8-twin` need `calibration`; `needs_calibration(spec)` says it of any spec.
    """
    made = _made(model, spec, calibration, example_input)
    if calibration is not None and needs_calibration(spec):
        note_calibration(made.model, calibration.digests)
    return made


def _made(model: nn.Module, spec: str, calibration: Calibration | None, example_input: Any) -> Approximation:
    """All steps, one after the other."""
    *before, last = [parse(step) for step in steps(spec)]
    model = as_module(model)
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"expected a torch.nn.Module, got {type(model).__name__}; only its weights can be approximated"
        )
    example = _example(example_input, calibration)
    if not before:
        return _one_step(model, last, calibration, example)
    earlier = _made(model, "+".join(step.spec for step in before), calibration, example_input)
    made = _one_step(earlier.model, last, calibration, example)
    facts = {**earlier.facts, **made.facts}
    return Approximation(made.model, spec, f"{earlier.description}; then {made.description}", facts)


def _one_step(model: nn.Module, step: Parsed, calibration: Calibration | None, example: Tensor | None) -> Approximation:
    spec = step.spec
    context = Context(spec, calibration, example, step.kind.description, layers=step.layers)
    original = in_eval_mode(_copied(permanent(model)))
    made = step.kind.load()(copy.deepcopy(original), step.argument, context)
    if not isinstance(made, nn.Module):
        raise UnusableModel(f"expected {spec} to return a torch.nn.Module, got {type(made).__name__}")
    in_eval_mode(made)
    if step.layers is not None:
        context.description += f"; limited to layers by {step.layers}"
    facts = {**context.facts, "bytes": f"{_bytes(made)} (was {_bytes(original)})"}
    facts["batch_mates"] = check_rows_independent(made, example, spec)
    facts["changed"] = check_changed(original, made, example, spec)
    return Approximation(made, spec, context.description, facts)


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copied(model)
    except Exception as error:
        raise UnusableModel(
            f"expected a model that can be copied, got {type(error).__name__}: {error}; keep no tensors with gradients in it"
        ) from error


def _example(given: Any, calibration: Calibration | None) -> Tensor | None:
    """A few rows to try the models on; at least two, so that a row's output can depend on another row."""
    if given is not None:
        rows = checked_inputs(given)[:EXAMPLE_ROWS]
    elif calibration is not None:
        rows = calibration.noisy(0, EXAMPLE_ROWS)
    else:
        return None
    example = torch.from_numpy(rows)
    return example if len(example) > 1 else example.repeat(2, *[1] * (example.ndim - 1))


def _bytes(model: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
