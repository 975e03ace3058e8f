"""The guarantee is about the smoothed network, not the bare one: what docs/what-is-certified.md says was measured."""

import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import recert
from recert import Gaussian
from recert.data import load_data

PAGE = (Path(__file__).parent.parent / "docs" / "what-is-certified.md").read_text()


def attacked(model: nn.Module, images: Tensor, classes: Tensor, radii: Tensor) -> tuple[Tensor, Tensor]:
    """Images within these l2 distances to which the bare network gives another class, and for which it was found."""
    lengths = radii.reshape(-1, 1, 1, 1)
    shift, best, found = torch.zeros_like(images), images.clone(), torch.zeros(len(images), dtype=torch.bool)
    for _ in range(100):
        shift = shift.detach().requires_grad_()
        loss = nn.functional.cross_entropy(model(images + shift), classes, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, shift)
        with torch.no_grad():
            shift = shift + 0.1 * lengths * gradient / norms(gradient)
            shift = shift * (lengths / norms(shift)).clamp(max=1)
            changed = (model(images + shift).argmax(1) != classes) & ~found
            best[changed], found = (images + shift)[changed], found | changed
    return best, found


def norms(of: Tensor) -> Tensor:
    return of.flatten(1).norm(dim=1).clamp_min(1e-12).reshape(-1, 1, 1, 1)


def test_inside_the_radius_the_bare_network_may_change_its_class_and_the_smoothed_one_does_not() -> None:
    model, data = recert.load_model("digits").model.eval(), load_data("digits", count=200)
    result = recert.certify(model, data.inputs, noise=Gaussian(0.5), samples=2_000, alpha=0.001).certificates
    certified = result.certified
    images, classes = torch.from_numpy(data.inputs[certified]), torch.from_numpy(result.prediction[certified])
    radii = torch.from_numpy(0.99 * result.radius[certified]).float()
    with torch.no_grad():
        assert bool((model(images).argmax(1) == classes).all())

    best, found = attacked(model, images, classes, radii)

    distances = (best - images).flatten(1).norm(dim=1)
    assert bool((distances <= torch.from_numpy(result.radius[certified])).all())
    answers = recert.Smoothed(model, Gaussian(0.5), samples=2_000, seed=11)(best[found])
    np.testing.assert_array_equal(answers, classes[found])
    said = re.search(r"of (\d+) test images (\d+) are certified.*\n.*changes f's class for (\d+) of them", PAGE)
    assert said is not None
    assert tuple(map(int, said.groups())) == (len(data.inputs), certified.sum(), found.sum())
    assert found.any()
