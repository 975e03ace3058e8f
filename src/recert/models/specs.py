"""Spec strings: what `--model` takes. Pure text; nothing is loaded here."""

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from recert.models.registry import ENTRIES

LIBRARIES = ("torchvision", "timm")
CHECKPOINTS = (".pt", ".pth", ".tar", ".bin", ".ckpt")
FILES = (".onnx", ".pt2", ".safetensors", *CHECKPOINTS)

SPEC_FORMS = (
    ("NAME[:SIGMA]", "a network that comes with recert, trained with that noise: digits, digits:0.25"),
    ("NAME@FILE", "the same network with weights of your own: digits@runs/digits.safetensors"),
    ("torchvision:NAME[@FILE]", "a classifier of torchvision, pretrained unless weights are given"),
    ("timm:NAME[@FILE]", "a classifier of timm, pretrained unless weights are given"),
    (
        "PACKAGE.MODULE:FACTORY[@FILE]",
        "a network of your own, with .safetensors or weights-only .pt weights; it is code, and is run by design",
    ),
    ("FILE.safetensors", "a network that recert compress or --save has written, with its card FILE.safetensors.json"),
    ("FILE.onnx", "an ONNX graph, run by onnxruntime on the CPU"),
    ("FILE.pth.tar", "a checkpoint of locuslab/smoothing (cifar_resnet20, cifar_resnet110, resnet50)"),
    ("FILE.pt2", "an exported program; loading it can run code from the file, so it has to be trusted"),
    ("FILE.pt", "a TorchScript program (torch.jit.save), which has to be trusted for the same reason"),
)
"""Every form a spec can take and what it means, for help texts and tables."""

Kind = Literal["registered", "library", "factory", "file"]


@dataclass(frozen=True)
class ModelSpec:
    """A spec taken apart: `name` is a registered name, a library, a module or a path, `argument` what follows its colon."""

    text: str
    kind: Kind
    name: str
    argument: str | None = None
    weights: Path | None = None


def parse_spec(text: str) -> ModelSpec:
    """Take a spec string apart, or say which forms there are.

    >>> parse_spec("digits:0.25")
    ModelSpec(text='digits:0.25', kind='registered', name='digits', argument='0.25', weights=None)
    >>> parse_spec("nets.small:build@w.safetensors").kind
    'factory'
    """
    if _is_file(text):
        return ModelSpec(text, "file", text)
    head, at, weights = text.partition("@")
    if at and not weights:
        raise ValueError(f"expected weights after '@', got {text!r}; write for example {head}@weights.safetensors")
    name, colon, argument = head.partition(":")
    if colon and not argument:
        raise ValueError(f"expected something after ':', got {text!r}; write for example digits:0.25")
    kind = _kind(text, name, argument)
    if kind == "registered" and argument and weights:
        raise ValueError(
            f"expected either shipped weights ({name}:SIGMA) or your own ({name}@FILE), got both in {text!r}"
        )
    return ModelSpec(text, kind, name, argument or None, Path(weights) if weights else None)


def _is_file(text: str) -> bool:
    if text in ENTRIES:
        return False  # a file of that name in the current directory does not hide a network of ours
    bare = "@" not in text and not re.match(r"[\w.]+:\w", text)
    return Path(text).is_file() or (bare and Path(text).suffix.lower() in FILES)


def _kind(text: str, name: str, argument: str) -> Kind:
    if name in ENTRIES:
        return "registered"
    if name in LIBRARIES and argument:
        return "library"
    if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name) and argument.isidentifier():
        return "factory"
    close = difflib.get_close_matches(name, ENTRIES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "if it is a file, check its path and suffix"
    forms = ", ".join(form for form, _ in SPEC_FORMS)
    raise ValueError(f"expected a model ({', '.join(ENTRIES)}) or one of {forms}, got {text!r}; {hint}")
