"""Every figure of this project, in one style that is readable in greyscale. Matplotlib is imported when one is drawn."""

from recert.figures.style import BASELINE, ORIGINAL, RECERT, SERIES, Series, new_figure, paper_style, save, series

__all__ = ["BASELINE", "ORIGINAL", "RECERT", "SERIES", "Series", "new_figure", "paper_style", "save", "series"]
