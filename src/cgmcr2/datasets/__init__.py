"""The paper's nine data sets, read from their official files."""

from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.download import download_dataset, fetch
from cgmcr2.datasets.info import DatasetInfo, dataset_info, list_datasets
from cgmcr2.datasets.load import load_dataset
from cgmcr2.datasets.open import embed_dataset, is_dataset, open_images, save_labels

__all__ = [
    "Dataset",
    "DatasetInfo",
    "dataset_info",
    "download_dataset",
    "embed_dataset",
    "fetch",
    "is_dataset",
    "list_datasets",
    "load_dataset",
    "open_images",
    "save_labels",
]
