"""Data to certify on, by name: digits, CIFAR-10, arrays, image folders."""

from recert.data.dataset import Dataset, UnusableData
from recert.data.loading import DATA_FORMS, load_data

__all__ = ["DATA_FORMS", "Dataset", "UnusableData", "load_data"]
