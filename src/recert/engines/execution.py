"""How and where a model is run, as one value."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from recert.engines.compiling import worth_compiling
from recert.models.inference import PreparedModel, prepare
from recert.models.numerics import Numerics
from recert.models.onnx_export import to_onnxruntime
from recert.sampling import ShowProgress
from recert.sampling.network import Model

RUNTIMES = ("torch", "onnxruntime")
AUTO = "auto"


@dataclass(frozen=True)
class Execution:
    """Choices that cost or save seconds and may change the last bits of logits. Numerics are recorded with the votes.

    `precision`, `compile` and `channels_last` are those of `recert.prepare`, for a model that is not prepared yet; `compile="auto"`
    compiles where that is expected to save more seconds than it takes, and continues a store as it was begun. `runtime`
    "onnxruntime" computes in float32 on the CPU. A batch size that is not given is the one that the cache was made with on such a
    machine, or else the fastest; of a function it is the most rows of a call, 64 if not given. `engine` "ray" draws on a cluster with `workers`, at `ray_address` ("auto": the one on this machine; started
    here if not given). `allow_numerics` accepts votes that were drawn with other numerics beside those in a store, and
    workers that compute differently. `same_model` states that the model is the one that a store is about although their digests
    differ: `certify` continues the store, if the votes that it draws again are the same, and says so in every guarantee; `audit`
    replays its votes. `progress` is shown of work that takes more than a few seconds, in a terminal or a notebook;
    True shows it everywhere, False never, and a function is called with a `recert.Progress` now and then.
    """

    device: str | torch.device | None = None
    precision: str | None = None
    compile: bool | str = False
    channels_last: bool = True
    runtime: str = "torch"
    batch_size: int | None = None
    engine: str = "local"
    workers: int | None = None
    ray_address: str | None = None
    allow_numerics: bool = False
    same_model: bool = False
    progress: ShowProgress = None

    def __post_init__(self) -> None:
        if self.device is not None:
            try:
                torch.device(self.device)
            except (RuntimeError, TypeError):
                raise ValueError(f"expected a device such as cpu, cuda or cuda:1, got {self.device!r}") from None
        for name in ("batch_size", "workers"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int | np.integer)):
                raise ValueError(f"expected {name} as a whole number, got {number!r}")
        if self.progress is not None and not isinstance(self.progress, bool) and not callable(self.progress):
            raise ValueError(f"expected progress as True, False, None or a function, got {self.progress!r}")
        if self.runtime not in RUNTIMES:
            raise ValueError(f"expected runtime to be one of {', '.join(RUNTIMES)}, got {self.runtime!r}")
        if not isinstance(self.compile, bool) and self.compile != AUTO:
            raise ValueError(f"expected compile to be True, False or {AUTO!r}, got {self.compile!r}")
        if self.runtime == "onnxruntime" and (self.precision not in (None, "fp32") or self.compile):
            raise ValueError(
                "expected no compile and no precision but fp32 with runtime onnxruntime, which decides these; leave them out"
            )
        if self.engine == "local" and (self.workers is not None or self.ray_address is not None):
            raise ValueError("expected engine ray with workers or a ray address, got local; add it, or leave them out")

    def prepared(self, model: Model, inputs: Any, passes: int | None = None) -> Model:
        """The model as it is to be run; as it is if nothing was chosen. `passes`: about so many are to come of an input."""
        if self.runtime == "onnxruntime":
            if not isinstance(model, torch.nn.Module):
                raise ValueError(f"expected a torch module with runtime onnxruntime, got {type(model).__name__}")
            return to_onnxruntime(model, inputs[:2])
        if self.precision is None and self.channels_last and not self.compile:
            return model
        if self.compile == AUTO and self.precision is None and not _may_be_compiled(model):
            return model
        if not isinstance(model, torch.nn.Module):
            raise ValueError(f"expected a torch module with a precision or compile, got {type(model).__name__}")
        made = prepare(model, precision=self.precision, channels_last=self.channels_last)
        if not self.compile or not worth_compiling(made, inputs, passes, self.batch_size, asked=self.compile is True):
            unchanged = self.precision is None and self.channels_last
            return model if unchanged else made
        return made.to_compile()

    def as_before(self, recorded: Numerics | None) -> "Execution":
        """With `compile="auto"` decided as in the store that is continued: other numerics would be refused."""
        known = None if recorded is None or self.compile != AUTO else recorded.values.get("compiled")
        return self if not known else replace(self, compile=known[0] == "True")

    def with_batch_size(self, usual: int | None) -> "Execution":
        """With this batch size unless one was chosen."""
        return self if self.batch_size is not None else replace(self, batch_size=usual)


def _may_be_compiled(model: Model) -> bool:
    return isinstance(model, torch.nn.Module) and not isinstance(model, PreparedModel) and not hasattr(model, "session")


def chosen_execution(execution: Execution | None, **keywords: Any) -> Execution:
    """An execution with the plain keywords of a verb (device, batch_size, progress), each of which may be given once."""
    execution = Execution() if execution is None else execution
    if not isinstance(execution, Execution):
        raise ValueError(
            f"expected execution as a recert.Execution, got {execution!r}; for example Execution(device='cuda')"
        )
    given = {name: value for name, value in keywords.items() if value is not None}
    for name in given:
        if getattr(execution, name) is not None:
            raise ValueError(f"expected {name} once, got it as a keyword and in execution; leave one of them out")
    return replace(execution, **given)
