"""The studies that reproduce the paper's tables on real networks. Nothing heavy is imported here."""

from studies.catalogue import STUDIES, Grid, Study, study

__all__ = ["STUDIES", "Grid", "Study", "study"]
