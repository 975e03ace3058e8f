"""Data to certify on, by name: digits, CIFAR-10, arrays, image folders."""

from recert.data.dataset import Dataset, Source, UnusableData
from recert.data.loading import DATA_FORMS, data_source, load_data

__all__ = ["DATA_FORMS", "Dataset", "Source", "UnusableData", "data_source", "load_data"]
