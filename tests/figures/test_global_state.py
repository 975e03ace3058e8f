"""Figures leave a user's matplotlib as it was: backend, settings, open figures."""

import subprocess
import sys
from pathlib import Path

import pytest

USER = {
    "who chose a backend": "matplotlib.use('svg'); matplotlib.rcParams.update({'lines.linewidth': 9, 'svg.fonttype': 'none'})",
    "who chose nothing": "",
    "with a figure open": "matplotlib.use('pdf'); import matplotlib.pyplot as plt; plt.style.use('ggplot'); plt.figure(7)",
}
PROGRAM = """
import sys, tempfile, matplotlib, numpy as np
{user}
def state():
    settings = {{name: dict.__getitem__(matplotlib.rcParams, name) for name in matplotlib.rcParams}}
    plt = sys.modules.get('matplotlib.pyplot')
    return settings, matplotlib.get_backend(auto_select=False), plt and plt.get_fignums()
before = state()
from recert.figures.choice import draw_choice
from recert.report.figures import write_figures
from recert.report.page import render_page
from tests.choosing.test_result import CHOSEN
from tests.report.conftest import make_result
make = make_result.__wrapped__()
results = [make('a'), make('b', method='auto')]
with tempfile.TemporaryDirectory() as folder:
    render_page(results, [0.5])
    assert state() == before, 'the page'
    assert len(write_figures(results, folder)) == 21
    assert state() == before, 'figures'
    for form in ('png', 'svg', 'pdf'):
        draw_choice(CHOSEN, folder + '/choice.' + form)
    assert state() == before, 'what select found'
"""


@pytest.mark.parametrize("user", USER)
def test_nothing_of_a_user_is_changed(user: str) -> None:
    program = [sys.executable, "-c", PROGRAM.format(user=USER[user])]
    run = subprocess.run(program, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert run.returncode == 0, run.stderr
