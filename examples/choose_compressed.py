"""The cheapest of several compressed networks that is certified nearly as well: python examples/choose_compressed.py"""

import recert
from recert.approximations import approximate
from recert.choosing.summary_text import text_picture
from recert.data import load_data
from recert.models import load_model

model, data = load_model("digits").model, load_data("digits", count=40)
cache = recert.certify(model, data.inputs, noise=recert.Gaussian(0.5), samples=1_000, selection_samples=100)

# Any models of yours do as well: {"name": module, ...}. Fixed before, and never tuned on the cached noise.
specs = ["bf16", "prune:0.3", "prune:0.6", "prune:0.8", "prune:0.95"]
candidates = {spec: approximate(model, spec, example_input=data.inputs[:2]).model for spec in specs}

chosen = recert.select(candidates, data.inputs, cache, data.labels, metric="accuracy:0.25", tolerance=0.1, cost="bytes")
print(text_picture(chosen))
print(f"winner: {chosen.winner}")
print(chosen.guarantee)
print(f"{chosen.passes / chosen.exhaustive_passes:.1%} of the passes of certifying every candidate from scratch")
