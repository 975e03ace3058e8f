"""One step of gradient descent. On a GPU it is recorded once and replayed: launching its kernels takes longer than running them."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from recert.training.losses import Loss

_STEPS_BEFORE_RECORDING = 3  # what is made on first use, such as momentum, must exist by then


class Step:
    """Descends on one batch after another; sums up the loss and the right answers along the way."""

    one_shape = False
    """Whether all batches are to have the same shape."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, loss: Loss) -> None:
        self.network, self.optimizer, self.loss = network, optimizer, loss
        self.totals = torch.zeros(2, device=device)  # read once an epoch, since every read waits for the device

    def take(self, images: Tensor, labels: Tensor, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self._descend(images, labels)

    def _descend(self, images: Tensor, labels: Tensor) -> None:
        with _half_precision(images.device):
            logits = self.network(images)
            loss = self.loss(logits, labels)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        first = logits.detach()[: len(labels)]  # of each input's copies
        self.totals += torch.stack([loss.detach() * len(labels), (first.argmax(1) == labels).sum()])


class RecordedStep(Step):
    """The same as a CUDA graph for batches of the usual size; the last batch of an epoch may be smaller and is not replayed."""

    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, loss: Loss) -> None:
        super().__init__(network, optimizer, device, loss)
        self._taken = 0
        self._usual_shape = torch.Size()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._images, self._labels = torch.empty(0), torch.empty(0)

    def take(self, images: Tensor, labels: Tensor, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"].fill_(rate)
        if self._taken == 0:
            self._usual_shape = images.shape
        self._taken += 1
        if self._taken <= _STEPS_BEFORE_RECORDING or images.shape != self._usual_shape:
            self._descend_on_own_stream(images, labels)
            return
        if self._graph is None:
            self._graph = self._recorded(images, labels)
        self._images.copy_(images)
        self._labels.copy_(labels)
        self._graph.replay()

    def _descend_on_own_stream(self, images: Tensor, labels: Tensor) -> None:
        """On a stream of its own: a CUDA graph cannot be recorded on the default one, and the steps before it must be there too."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._descend(images, labels)
        torch.cuda.current_stream().wait_stream(self._stream)

    def _recorded(self, images: Tensor, labels: Tensor) -> torch.cuda.CUDAGraph:
        """Recording computes nothing: the batch gives shapes alone."""
        self._images, self._labels = images.clone(), labels.clone()
        self.optimizer.zero_grad()  # so that the graph holds gradients of its own
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            self._descend(self._images, self._labels)
        return graph


def make_step(
    network: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, loss: Loss, *, recorded: bool
) -> Step:
    """`recorded` is for networks that are known to do the same in every step; what a user's does cannot be known."""
    return (RecordedStep if recorded and device.type == "cuda" else Step)(network, optimizer, device, loss)


def _half_precision(device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 products on a GPU; the weights themselves stay float32."""
    return torch.autocast("cuda", dtype=torch.bfloat16) if device.type == "cuda" else nullcontext()
