"""Tables of results in Markdown. A cell without a result says so; no number is made up."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from studies.results import Result, read_results

NOT_RUN = "not run"
NETWORK_NAMES = {
    "digits": "digits network", "cifar-resnet20": "ResNet-20", "cifar-resnet110": "ResNet-110", "imagenet-resnet50": "ResNet-50 (ImageNet, the paper's)",
    "tiny-resnet50": "ResNet-50 (Tiny ImageNet, 64 x 64, 200 classes, our weights)", "efficientnet-lite0": "EfficientNet-lite0 (ImageNet, 224 x 224)",
    "efficientnet-lite0-followed": "EfficientNet-lite0, fine-tuned with noise (ImageNet, 224 x 224)",
}  # fmt: skip
SHORT_NAMES = NETWORK_NAMES | {
    "tiny-resnet50": "ResNet-50 (Tiny ImageNet)",
    "efficientnet-lite0": "EfficientNet-lite0",
    "efficientnet-lite0-followed": "EfficientNet-lite0, fine-tuned",
}
"""As there is room for in figures."""
PAPERS_OWN = "imagenet-resnet50"
"""A network of the paper's that is not run here: ImageNet's training images are not to be had."""
BESIDE = dict.fromkeys(("tiny-resnet50", "efficientnet-lite0", "efficientnet-lite0-followed"), PAPERS_OWN)
"""The paper's network that one of ours stands beside, where it is another one."""
IN_PAPER = {"int8-twin": "int8", "fp16-weights": "fp16", "bf16-weights": "bf16"}
"""The paper's column that one of ours stands beside, where the names differ."""

CHANGE_NAMES = {
    "int8-twin": "int8 (twin)", "int8": "int8 (onnxruntime, CPU)", "prune:0.05": "pruned by 5%", "prune:0.1": "pruned by 10%",
    "prune:0.2": "pruned by 20%", "fp16-weights": "weights in fp16", "bf16-weights": "weights in bf16",
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """The results of one study, by their cells."""

    study: str
    folder: Path

    @cached_property
    def results(self) -> list[Result]:
        return read_results(self.folder / self.study)

    def get(self, network: str, sigma: str, approximation: str, samples: int | None = None) -> Result | None:
        """The result of a cell; the first there is if n is not said."""
        for result in self.results:
            s = result["settings"]
            same = (s.get("network"), str(s.get("sigma")), s.get("approximation")) == (network, sigma, approximation)
            if same and samples in (None, s["samples"]):
                return result
        return None

    def all(self, key: str) -> list[Any]:
        """Values that a setting has among the results, each once, in order."""
        return list(dict.fromkeys(result["settings"].get(key) for result in self.results))


def paper(study: str) -> dict[str, Any]:
    """What the paper reports, and in which table."""
    reported: dict[str, Any] = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))[study]
    return reported


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value: float | None, form: str, missing: str = NOT_RUN) -> str:
    """A number as text.

    >>> number(1.234, ".2f"), number(None, ".2f")
    ('1.23', 'not run')
    """
    return missing if value is None else format(value, form)


def reported(cells: dict[str, Any], *keys: str, form: str = "g") -> str:
    """What the paper has in a cell, or a dash."""
    value: Any = cells
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return "—" if value is None else format(value, form)


def in_paper(network: str) -> str:
    """The paper's network that stands beside one of ours: mostly the same.

    >>> in_paper("cifar-resnet20"), in_paper("tiny-resnet50")
    ('cifar-resnet20', 'imagenet-resnet50')
    """
    return BESIDE.get(network, network)


def describe_numerics(numerics: dict[str, str]) -> str:
    """Numerics in a few words.

    >>> describe_numerics({"device": "cuda", "dtype": "float32", "tf32_convolutions": "True", "compiled": "True"})
    'cuda, float32 with TF32, compiled'
    """
    dtype = "onnxruntime" if "onnxruntime" in numerics else numerics.get("dtype", "?")
    if numerics.get("tf32_convolutions") == "True" and dtype == "float32":
        dtype += " with TF32"
    words = [numerics.get("device", "?"), dtype, "compiled" if numerics.get("compiled") == "True" else ""]
    return ", ".join(word for word in words if word)


def cells_of(found: Found, networks: Sequence[str], changes: Sequence[str]) -> list[tuple[str, str, str]]:
    """(network, sigma, change) in the order of the paper: its own cells, then what was run beside them."""
    sigmas = {"imagenet-resnet50": ("0.5", "1.0", "2.0")}
    wanted = [(n, s, c) for n in networks for s in sigmas.get(n, ("0.25", "0.5", "1.0")) for c in changes]
    ran = [
        (r["settings"]["network"], str(r["settings"]["sigma"]), r["settings"]["approximation"]) for r in found.results
    ]
    return list(dict.fromkeys([*wanted, *ran]))
