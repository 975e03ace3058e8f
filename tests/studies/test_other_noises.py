"""Studies at their small sizes under other noises than plain Gaussian: which votes are drawn, and what the pages say."""

import json
from pathlib import Path

import pytest

import recert
from recert.data import load_data
from studies import STUDIES
from studies.request import Cell
from tests.studies.test_command_line import call

NOISES = ["laplace:0.35", "uniform:0.87", "splitting:0.87", "gaussian:0.5:grid=1/16"]
SMALL = ["--networks", "digits", "--count", "3", "--samples", "200", "--approximations", "prune:0.1", "--no-figures"]


def run(study: str, noises: str, where: Path) -> list[Path]:
    """The files of results of a study, of networks that were trained for a moment under the noises."""
    data = load_data("digits", split="train", count=200)
    for spec in noises.split(","):
        recert.train("digits", data, recert.parse_noise(spec), epochs=1, out=where / "networks")
    places = ["--weights", where / "networks", "--store", where / "votes", "--out", where / "results"]
    code, _, err = call(study, *SMALL, "--noises", noises, *map(str, places))
    assert code == 0, err
    return sorted((where / "results" / study).glob("*.json"))


@pytest.mark.parametrize("noise", NOISES)
def test_votes_are_drawn_under_the_noise_and_results_name_it(noise: str, tmp_path: Path) -> None:
    (file,) = run("disparity", noise, tmp_path)
    result = json.loads(file.read_text())
    assert result["settings"]["sigma"] == result["original"]["noise"] == noise
    stores = [recert.Cache.manifest_at(path) for path in (tmp_path / "votes").iterdir()]
    assert {str(manifest.noise.spec) for manifest in stores if manifest} == {noise}
    assert noise in (tmp_path / "results" / "disparity.md").read_text()


@pytest.mark.filterwarnings("ignore:fresh votes alone")
def test_radii_that_a_noise_cannot_show_are_not_asked_for(tmp_path: Path) -> None:
    (file,) = run("at-radius", "uniform:0.4", tmp_path)
    assert list(json.loads(file.read_text())["radii"]) == ["0.25"]
    assert "uniform:0.4" in (tmp_path / "results" / "at-radius.md").read_text()


def test_cells_of_several_noises() -> None:
    """Each has a name of its own; that of plain Gaussian noise is what it was."""
    names = [Cell("digits", sigma, "int8", 100, 5).name for sigma in (0.5, 1.0, *NOISES)]
    assert names[:2] == ["digits-0.5-int8-n100", "digits-1.0-int8-n100"]
    assert names[-1] == "digits-gaussian-0.5-grid-1-16-int8-n100"
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--noises", "cauchy:1"], "known families: gaussian, laplace"),
        (["--noises", "laplace:0.5", "--sigmas", "0.5"], "expected --sigmas or --noises, got both"),
    ],
)
def test_wrong_noises_are_answered_in_words(options: list[str], said: str) -> None:
    code, _, err = call(next(iter(STUDIES)), *options)
    assert code in (1, 2)
    assert said in " ".join(err.split())
