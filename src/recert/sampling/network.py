"""A model as a function from a noisy batch to votes. A model that cannot be used is refused with a reason."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from recert.errors import UnusableModel
from recert.models.digest import numerics_on
from recert.models.exported_program import with_a_mode
from recert.models.inference import PreparedModel
from recert.models.numerics import NO_PADDING, PACKAGES, PADDING, Numerics
from recert.models.onnx_model import OnnxModel
from recert.models.trusted import is_torchs, packages_of
from recert.sampling.remote import Remote, Requests
from recert.votes import Votes, nobody, vote_dtype

Model = nn.Module | Callable[[Tensor], Any]


class Network:
    """Calls the model on float32 batches of one shape and reads its answer as votes."""

    def __init__(self, model: Model, device: str | torch.device | None = None, classes: int | None = None) -> None:
        self.model = model
        self.device, self.dtype = _placement(model, device)
        self.channels_last = _likes_channels_last(model)
        """The memory format of batches of images: an attempt, unless the user chose it."""
        self._classes = classes
        self.requests = _requests(model, self.device)
        """How a function is asked; None for a network."""
        if isinstance(model, nn.Module):
            _check_eval_mode(model)

    @property
    def classes(self) -> int:
        if self._classes is None:
            raise UnusableModel(
                "a model that returns labels does not tell how many classes there are; pass classes=..."
            )
        return self._classes

    @property
    def knows_classes(self) -> bool:
        """Whether it was told how many classes there are, or has answered with logits."""
        return self._classes is not None

    @property
    def may_be_timed(self) -> bool:
        """Whether calls cost nothing but time: a function may ask a service that counts them."""
        return self.device.type == "cuda" or (self.device.type == "cpu" and isinstance(self.model, nn.Module))

    def numerics(self, batch_size: int) -> Numerics:
        """Everything beside the weights that can change the last bit of a logit."""
        with self.model.torch_flags() if isinstance(self.model, PreparedModel) else nullcontext():
            of_device = numerics_on(self.device, self.dtype, batch_size)
        of_model = {"memory_format": "channels-last" if self.channels_last else "contiguous"}
        if isinstance(self.model, nn.Module) and any(isinstance(module, OnnxModel) for module in self.model.modules()):
            of_model["onnxruntime"] = version("onnxruntime")
        modules = self.model.modules() if isinstance(self.model, nn.Module) else ()
        if packages := packages_of({type(module) for module in modules}):
            of_model[PACKAGES] = ", ".join(packages)
        of_model["compiled"] = str(isinstance(self.model, PreparedModel) and self.model.inference.compiled)
        if self.requests is not None:  # its batches have the rows that are needed, up to the batch size
            of_model[PADDING] = NO_PADDING
        return of_device.joined(Numerics.from_text(of_model))

    def empty_batch(self, rows: int, shape: tuple[int, ...]) -> Tensor:
        """Memory for a batch in the type, format and device that the network takes."""
        layout = torch.channels_last if self.channels_last and len(shape) == 3 else torch.contiguous_format
        return torch.empty((rows, *shape), dtype=self.dtype, device=self.device, memory_format=layout)

    def answer(self, batch: Tensor) -> Tensor:
        """The model's raw answer, checked: logits (batch x classes) or labels (batch)."""
        _check_modes()
        with torch.inference_mode(), self.modes():
            ask = self.model if self.requests is None else self.requests.ask
            answer: Any = ask(batch.to(self.dtype))
        answer = getattr(answer, "logits", answer)  # what language and vision libraries wrap their output in
        if isinstance(answer, np.ndarray):
            answer = torch.from_numpy(answer)
        return self._checked(answer, len(batch))

    def modes(self) -> AbstractContextManager[None]:
        """The modes of torch that a model runs in, whatever surrounds the call: autocast would compute in another type."""
        return torch.autocast(self.device.type, enabled=False)

    def winners(self, batch: Tensor) -> Tensor:
        """The class that wins each row, on the model's device; -1 (an invalid vote) for a row whose logits are not all finite."""
        return self.classes_that_win(self.answer(batch))

    def classes_that_win(self, answer: Tensor) -> Tensor:
        """The same of an answer."""
        if answer.ndim == 1:
            # Out of range stays out of range: a plain cast would make class 1 of 2**32 + 1. `votes` refuses it.
            return answer.to(torch.int64).clamp(-2, 2**31 - 1).to(torch.int32)
        # argmax would give some class even for NaN. Such a vote supports no class, so that it must not count for one.
        with torch.inference_mode():
            return torch.where(torch.isfinite(answer).all(dim=1), answer.argmax(dim=1), -1).to(torch.int32)

    def votes(self, winners: NDArray[np.int32]) -> Votes:
        """Winning classes as votes; -1 becomes the invalid vote, `nobody`."""
        outside = (winners < -1) | (winners >= self.classes)
        if outside.any():
            raise UnusableModel(
                f"expected labels from 0 to {self.classes - 1} (or -1 for nobody), got {winners[outside][0]}; "
                "check classes=..."
            )
        dtype = vote_dtype(self.classes)
        return np.where(winners < 0, nobody(dtype), winners).astype(dtype)

    def _checked(self, answer: Any, batch_size: int) -> Tensor:
        if not isinstance(answer, Tensor):
            raise UnusableModel(
                f"expected the model to return logits (batch x classes) or labels (batch), got {type(answer).__name__}; "
                "wrap it in a function that returns one tensor"
            )
        whole = not (answer.is_floating_point() or answer.is_complex())
        logits = answer.ndim == 2 and answer.shape[1] >= 2
        if len(answer.shape) == 0 or answer.shape[0] != batch_size or not (logits or (answer.ndim == 1 and whole)):
            raise UnusableModel(
                f"expected logits of shape ({batch_size}, classes) or {batch_size} integer labels, "
                f"got {answer.dtype} of shape {tuple(answer.shape)}; check the last layer"
            )
        if logits:
            # The first answer, of the probe, fixes the number of classes; from then on it must not change.
            if self._classes is None:
                self._classes = answer.shape[1]
            elif answer.shape[1] != self._classes:
                raise UnusableModel(f"expected logits of {self._classes} classes, got {answer.shape[1]}")
        return answer


def _requests(model: Model, device: torch.device) -> Requests | None:
    """A function on the CPU may ask a service that counts rows. One that is given another device computes there, as a network does."""
    if isinstance(model, nn.Module) or device.type != "cpu":
        return None
    return Requests(model if isinstance(model, Remote) else Remote(model, in_flight=1))


def _check_modes() -> None:
    """Refuse modes around the call that replace what torch's functions do: they are no part of the model's identity."""
    modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())  # type: ignore[no-untyped-call]
    for kind in map(type, modes):
        if not is_torchs(kind):
            raise UnusableModel(
                f"expected no mode of torch around the call, got {kind.__name__}, which may replace what the model computes; use it "
                "inside the model, or leave the block first"
            )


def _placement(model: Model, device: str | torch.device | None) -> tuple[torch.device, torch.dtype]:
    wanted = None if device is None else torch.device(device)
    if not isinstance(model, nn.Module):
        return wanted or torch.device("cpu"), torch.float32
    # Buffers too: batch norm keeps its statistics in them, and they must be where the weights are.
    tensors = [*model.parameters(), *model.buffers()]
    devices = sorted({str(t.device) for t in tensors})
    dtypes = sorted({str(t.dtype) for t in tensors if t.is_floating_point()})
    if len(devices) > 1:
        raise UnusableModel(
            f"expected all weights on one device, got {', '.join(devices)}; move them with model.to(...)"
        )
    if len(dtypes) > 1:
        raise UnusableModel(
            f"expected all weights in one floating-point type, got {', '.join(dtypes)}; convert them with model.to(dtype), "
            "or pass a function that casts for itself, with identity=..."
        )
    placed = tensors[0].device if tensors else wanted or torch.device("cpu")
    # "cuda" is any CUDA device, "cuda:1" is that one. The user's model is never moved: other code may hold it.
    if wanted is not None and (placed.type != wanted.type or wanted.index not in (None, placed.index)):
        raise UnusableModel(
            f"expected the model on {wanted}, got it on {placed}; move it with model.to({str(wanted)!r})"
        )
    dtype = next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)
    return placed, dtype


def _likes_channels_last(model: Model) -> bool:
    if isinstance(model, PreparedModel):
        return model.inference.channels_last
    if not isinstance(model, nn.Module):
        return False
    return hasattr(model, "likes_channels_last") or any(isinstance(module, nn.Conv2d) for module in model.modules())


def _check_eval_mode(model: nn.Module) -> None:
    training = next((name or type(model).__name__ for name, module in with_a_mode(model) if module.training), None)
    if training is not None:
        raise UnusableModel(
            f"the model is in training mode ({training}): dropout and batch statistics would make votes random; "
            "call model.eval() first"
        )
