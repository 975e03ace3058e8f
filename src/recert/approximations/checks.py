"""What every approximation has to show: that it changed the model, and that rows of a batch do not influence each other."""

from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models.digest import identify
from recert.sampling.network import Network
from recert.sampling.probe import probe


def check_changed(original: nn.Module, made: nn.Module, example: Tensor | None, spec: str) -> str:
    """Say what differs between two models, or refuse: an approximation that changed nothing certifies nothing new."""
    before, after = identify(original), identify(made)
    if before == after:
        raise UnusableModel(
            f"{spec} changed nothing: the weights and modules are the same as before; "
            "check that it applies to this model's layers, or make it stronger"
        )
    evidence = "weights" if before.weights != after.weights else "modules"
    if example is None:
        return f"{evidence}; outputs not compared, no example input"
    old, new = (_answer(model, example) for model in (original, made))
    if old.shape == new.shape and old.is_floating_point() and bool((old == new).all()):
        raise UnusableModel(
            f"{spec} changed the {evidence} but not a bit of the outputs on {len(example)} example inputs; "
            "check that the changed part is used, or make the approximation stronger"
        )
    if old.shape != new.shape:
        return f"{evidence} and the shape of the output, from {tuple(old.shape)} to {tuple(new.shape)}"
    return f"{evidence} and outputs, by up to {float((old - new).abs().max()):.3g} on {len(example)} example inputs"


def check_rows_independent(made: nn.Module, example: Tensor | None, spec: str) -> str:
    """Refuse a model whose output for a row depends on the other rows of its batch, or that answers twice differently."""
    if example is None:
        return "looked at before sampling, no example input here"
    network = Network(made)
    try:
        probe(network, example.to(network.device))
    except UnusableModel as error:
        raise UnusableModel(f"{spec} makes a model that cannot be certified: {error}") from error
    return f"no influence on {len(example) // 2} example inputs"


def _answer(model: nn.Module, example: Tensor) -> Tensor:
    network = Network(model)
    answer = network.answer(example.to(network.device)).cpu()
    return answer.double() if answer.is_floating_point() else answer
