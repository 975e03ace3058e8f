"""Exported programs run code while they load, so they are loaded only on the user's word."""

import os
import zipfile

import pytest
import torch

from recert.errors import UnusableModel
from recert.models import load_model


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("pt2") / "digits.pt2"
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(load_model("digits").model, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=shapes)
    torch.export.save(program, path)
    return path


def test_refusal_explains_itself(exported):
    with pytest.raises(UnusableModel, match=r"doctored one runs any command.*trust=True \(--trust\).*ONNX"):
        load_model(exported)


def test_trusted_program_answers_as_its_network(exported):
    loaded = load_model(exported, trust=True)
    digits = torch.rand(5, 1, 8, 8)
    with torch.inference_mode():
        assert torch.equal(loaded.model(digits), load_model("digits").model(digits))
    assert not any(module.training for module in loaded.model.modules())
    assert "trusted by you" in loaded.note


class Payload:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


def test_doctored_program_does_not_run_unless_trusted(exported, tmp_path):
    trace, doctored, payload = tmp_path / "trace", tmp_path / "doctored.pt2", tmp_path / "payload.pt"
    torch.save(Payload(trace), payload)
    with zipfile.ZipFile(exported) as good, zipfile.ZipFile(doctored, "w") as bad:
        for entry in good.infolist():
            hostile = "sample_inputs" in entry.filename
            bad.writestr(entry.filename, payload.read_bytes() if hostile else good.read(entry))
    with pytest.raises(UnusableModel, match="cannot run code"):
        load_model(doctored)
    assert not trace.exists()


def test_not_a_program(tmp_path):
    (tmp_path / "bad.pt2").write_bytes(b"junk")
    with pytest.raises(UnusableModel, match=r"expected a program saved by torch\.export\.save"):
        load_model(tmp_path / "bad.pt2", trust=True)
