"""The networks of ImageNet's classes on the page of results: what each is, beside what the paper reports of its ResNet-50."""

from pathlib import Path

from studies.as_published import LEGEND, measured_rows
from studies.by_sigma import rows_and_default
from studies.cost_sections import COHEN, speedup, speedup_text
from studies.tables import (
    BESIDE,
    CHANGE_NAMES,
    IN_PAPER,
    NETWORK_NAMES,
    PAPERS_OWN,
    SHORT_NAMES,
    Found,
    paper,
    reported,
    table,
)

WHAT = {
    "tiny-resnet50": """torchvision's ResNet-50, trained here with noise on **Tiny ImageNet**: 200 of ImageNet's classes, 64 x 64 pixels, our weights. ImageNet's own training
images cannot be had here. In 64 x 64 pixels the same sigma hides more than in 224 x 224, so that a row of ours is about a harder problem than the paper's of that sigma.""",
    "efficientnet-lite0": """EfficientNet-lite0 on **ImageNet's** validation images, 224 x 224 pixels and 1,000 classes. Others trained the weights, without
noise, and published them as a package. The paper's network is a ResNet-50 that was trained with noise.""",
    "efficientnet-lite0-followed": """The same network on the same images, fine-tuned with noise on other validation images, without their labels: it learned to answer under noise
what it answers without it (`python -m studies.imagenet_networks follow`).""",
}
TITLE = "## And for ImageNet's classes?"
CHANGES = ("fp16", "bf16", "int8-twin", "prune:0.05", "prune:0.1", "prune:0.2")


def imagenet(results: Path) -> str:
    """The section, of those networks that there are results of; nothing without any."""
    found = Found("speedup", results)
    networks = [network for network in BESIDE if network in found.all("network")]
    if not networks:
        return ""
    papers = (
        f"The paper's method for its ResNet-50 on ImageNet (224 x 224, 1,000 classes), as published:\n\n{_papers()}"
    )
    return "\n".join(
        [f"{TITLE}\n", *(_network(found, each) for each in networks), _folded("The paper's own cells", papers)]
    )


def _papers() -> str:
    """What the paper has, in one table."""
    cells = paper("speedup")["cells"][PAPERS_OWN]
    rows = [
        [
            CHANGE_NAMES.get(change, change),
            *(reported(cells, sigma, IN_PAPER.get(change, change), form=".2f") for sigma in cells),
        ]
        for change in CHANGES
    ]
    headers = ("change", *(f"sigma {sigma}" for sigma in cells))
    return table(headers, rows)


def _network(found: Found, network: str) -> str:
    sigmas = sorted(
        {result["settings"]["sigma"] for result in found.results if result["settings"]["network"] == network}
    )
    tables = "\n".join(f"Sigma {sigma}:\n\n{rows_and_default(found, network, str(sigma))}" for sigma in sigmas)
    parts = [
        f"### {NETWORK_NAMES[network]}\n",
        f"{WHAT[network]}\n",
        _accuracies(found, network),
        _large(found, network),
    ]
    folded = _folded(f"{SHORT_NAMES[network]}: all changes, beside the paper's cells of the same sigma", tables)
    seconds = "\n".join(f"Sigma {sigma}:\n\n{measured_rows(found, network, str(sigma))}" for sigma in sigmas)
    measured = _folded(f"{SHORT_NAMES[network]}: by the measure of the authors, and in seconds", f"{LEGEND}\n{seconds}")
    return "\n".join(part for part in (*parts, folded, measured) if part)


def _folded(heading: str, text: str) -> str:
    return f'<details markdown="1">\n<summary>{heading}</summary>\n\n{text}\n</details>\n'


def _accuracies(found: Found, network: str) -> str:
    """How good the original is, smoothed, and which weights it has."""
    said = []
    for result in Found("accuracy", found.folder).results:
        s = result["settings"]
        if (s["network"], s["approximation"]) == (network, "original"):
            note = result["changed"]["description"]
            said.append(
                f"- Sigma {s['sigma']}: smoothed accuracy {result['smoothed']:.1%}, without noise {result['standard']:.1%} ({s['images']} images{note and f'; {note}'})."
            )
    return "\n".join(said) + "\n" if said else ""


def _large(found: Found, network: str) -> str:
    """The paper's headline, as far as it was run for this network."""
    result = Found("headline", found.folder).get(network, "1.0", "int8-twin")
    if result is None:
        return ""
    published = paper("headline")["cells"][PAPERS_OWN]["speedup"]
    irs, auto = (speedup_text(result, f"{method} one-sided", COHEN) for method in ("irs", "auto"))
    default = speedup(result, "auto two-sided", COHEN)
    more = f", with two-sided certificates {default:.2f}" if default else ""
    return (
        f"With 100,000 cached votes, int8 and sigma 1.0, the paper's other headline: published {published}, irs {irs}, recert {auto}{more} "
        f"({result['settings']['images']} images).\n"
    )
