"""Settings of the process that change how torch computes are recorded beside votes, and no store is continued under others."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import recert
from recert.engines.torch_settings import TorchSettings
from recert.errors import ContextMismatch
from recert.models.digest import numerics_on
from recert.models.process_settings import flushes_denormals
from tests.cache.stores import OPTIONS, inputs, network

CPU = torch.device("cpu")


def call(setter: Callable[[Any], Any], value: Any, before: Any) -> Callable[[], Iterator[None]]:
    def changed() -> Iterator[None]:
        setter(value)
        try:
            yield
        finally:
            setter(before)

    return changed


def attribute(owner: Any, name: str, value: Any) -> Callable[[], Iterator[None]]:
    return call(lambda to: setattr(owner, name, to), value, getattr(owner, name))


def environment(name: str, value: str) -> Callable[[], Iterator[None]]:
    return call(lambda to: os.environ.pop(name) if to is None else os.environ.update({name: to}), value, None)


ONEDNN = torch.backends.mkldnn
SETTINGS: dict[str, tuple[str, str, Callable[[], Iterator[None]]]] = {
    "products, older interface": ("float32_matmul_precision", "medium", call(torch.set_float32_matmul_precision, "medium", "highest")),
    "products, newer interface": ("onednn_matmul", "bf16", attribute(ONEDNN.matmul, "fp32_precision", "bf16")),
    "convolutions": ("onednn_conv", "bf16", attribute(ONEDNN.conv, "fp32_precision", "bf16")),
    "recurrent layers": ("onednn_rnn", "tf32", attribute(ONEDNN.rnn, "fp32_precision", "tf32")),
    "everything at once": ("onednn_conv", "tf32", attribute(torch.backends, "fp32_precision", "tf32")),
    "oneDNN by its environment": ("onednn_fpmath", "bf16", environment("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")),
    "small numbers are zero": ("flush_denormal", "True", call(torch.set_flush_denormal, True, False)),
    "attention": ("attention_without", "flash", call(torch.backends.cuda.enable_flash_sdp, False, True)),
    "layers of transformers": ("attention_fastpath", "False", call(torch.backends.mha.set_fastpath_enabled, False, True)),
}  # fmt: skip


@pytest.mark.parametrize("what", SETTINGS)
def test_what_is_not_as_usual_is_recorded(what: str) -> None:
    name, value, changed = SETTINGS[what]
    usual = numerics_on(CPU, torch.float32, 8)
    with contextmanager(changed)():
        now = numerics_on(CPU, torch.float32, 8)
    assert now.text(name) == value
    assert now.not_seen_in(usual)
    assert usual.not_seen_in(now)
    assert numerics_on(CPU, torch.float32, 8) == usual


def test_what_is_usual_is_not_recorded() -> None:
    """Also where it was said in words: a new record would refuse all stores that exist."""
    program = (
        "import torch; from recert.models.process_settings import unusual_settings as found; cpu = torch.device('cpu')\n"
        "assert found(cpu) == {}\n"
        "torch.set_float32_matmul_precision('medium'); torch.set_float32_matmul_precision('highest'); assert found(cpu) == {}\n"
        "torch.backends.mkldnn.conv.fp32_precision = 'ieee'; assert found(cpu) == {}\n"
        "torch.set_float32_matmul_precision('high'); assert found(cpu) == {'float32_matmul_precision': 'high'}, found(cpu)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("what", ["products, newer interface", "convolutions", "small numbers are zero"])
def test_a_store_is_not_continued_under_another_setting(what: str, tmp_path: Path) -> None:
    name, _, changed = SETTINGS[what]
    recert.certify(network(), inputs(), **OPTIONS, store=tmp_path)
    with contextmanager(changed)():
        with pytest.raises(ContextMismatch, match=name):
            recert.certify(network(), inputs(), **{**OPTIONS, "samples": 400}, store=tmp_path)
        cache = recert.certify(
            network(),
            inputs(),
            **{**OPTIONS, "samples": 400},
            store=tmp_path,
            execution=recert.Execution(allow_numerics=True),
        )
    assert name in cache.manifest.numerics.to_text()


def test_workers_compute_as_the_process_that_starts_them() -> None:
    usual = TorchSettings.of_this_process()
    try:
        ONEDNN.conv.fp32_precision = "bf16"
        torch.set_flush_denormal(True)
        here = TorchSettings.of_this_process()
        usual.apply()
        assert not flushes_denormals()
        assert numerics_on(CPU, torch.float32, 8).text("onednn_conv") is None
        here.apply()
        assert flushes_denormals()
        assert numerics_on(CPU, torch.float32, 8).text("onednn_conv") == "bf16"
    finally:
        usual.apply()
