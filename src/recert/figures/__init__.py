"""Figures for papers: one style for every picture of this project, readable in greyscale. Needs matplotlib when used."""

from recert.figures.style import BASELINE, SERIES, Series, new_figure, paper_style, save, series

__all__ = ["BASELINE", "SERIES", "Series", "new_figure", "paper_style", "save", "series"]
