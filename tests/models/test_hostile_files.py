"""Files that would run a command if they were unpickled. None may, and each gets an error of ours."""

import io
import os
import pickle
import tarfile

import pytest
import torch
from torch import nn

from recert.errors import RecertError
from recert.models import load_model


class Payload:
    """Touches a file when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


class TouchingModule(nn.Linear):
    """A whole module, pickled, whose unpickling touches a file."""

    def __init__(self, trace):
        super().__init__(2, 2)
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


def weights_with_payload(trace, file):
    torch.save({"fc2.bias": torch.zeros(10), "extra": Payload(trace)}, file)


def payload_alone(trace, file):
    torch.save(Payload(trace), file)


def old_format(trace, file):
    torch.save({"w": Payload(trace)}, file, _use_new_zipfile_serialization=False)


def bare_pickle(trace, file):
    file.write_bytes(pickle.dumps(Payload(trace)))


def locuslab_style(trace, file):
    torch.save({"epoch": 1, "arch": "cifar_resnet20", "state_dict": {}, "optimizer": Payload(trace)}, file)


def whole_module(trace, file):
    torch.save(TouchingModule(trace), file)


def ancient_tar(trace, file):
    with tarfile.open(file, "w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            data = pickle.dumps(Payload(trace))
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


HOSTILE = [weights_with_payload, payload_alone, old_format, bare_pickle, locuslab_style, whole_module, ancient_tar]


@pytest.mark.parametrize("make", HOSTILE)
@pytest.mark.parametrize("spec", ["{}", "digits@{}"])
@pytest.mark.parametrize("suffix", [".pt", ".pth.tar"])
def test_payload_never_runs(tmp_path, make, spec, suffix):
    trace, file = tmp_path / "trace", tmp_path / f"hostile{suffix}"
    make(trace, file)
    with pytest.raises(
        RecertError, match=r"expected a file of tensors only, got .*hostile.*nothing of it was run\. Save"
    ):
        load_model(spec.format(file))
    assert not trace.exists()


def test_the_payloads_are_real(tmp_path):
    """The same files do run when they are unpickled, so the tests above can fail."""
    trace = tmp_path / "trace"
    bare_pickle(trace, tmp_path / "file")
    pickle.loads((tmp_path / "file").read_bytes())
    assert trace.exists()


def test_payload_under_another_suffix(tmp_path):
    for name in ("hostile.safetensors", "hostile.onnx"):
        bare_pickle(tmp_path / "trace", tmp_path / name)
        spec = tmp_path / name if name.endswith("onnx") else f"digits@{tmp_path / name}"
        with pytest.raises(RecertError, match="expected a"):
            load_model(spec)
    assert not (tmp_path / "trace").exists()


def test_environment_cannot_switch_the_protection_off(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    payload_alone(tmp_path / "trace", tmp_path / "hostile.pt")
    with pytest.raises(RecertError, match=r"Python object (posix|nt)\.system"):
        load_model(tmp_path / "hostile.pt")
    assert not (tmp_path / "trace").exists()


def test_honest_whole_module_is_refused_with_its_name(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(RecertError, match=r"the Python object torch\.nn\.modules\.linear\.Linear"):
        load_model(tmp_path / "module.pt")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_named(tmp_path):
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), tmp_path / "script.pt")
    with pytest.raises(RecertError, match="holds a TorchScript program"):
        load_model(tmp_path / "script.pt")


def test_error_does_not_advise_to_switch_the_protection_off(tmp_path):
    payload_alone(tmp_path / "trace", tmp_path / "hostile.pt")
    with pytest.raises(RecertError) as caught:
        load_model(tmp_path / "hostile.pt")
    assert "weights_only" not in str(caught.value)
    assert "\n" not in str(caught.value)
