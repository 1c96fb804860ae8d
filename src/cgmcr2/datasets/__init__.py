"""The paper's nine data sets, from their official files: images as a catalog, labels, train and test, class names."""

from cgmcr2.datasets.dataset import Dataset
from cgmcr2.datasets.download import download_dataset, fetch
from cgmcr2.datasets.facts import DatasetInfo, dataset_info, list_datasets
from cgmcr2.datasets.load import load_dataset
from cgmcr2.datasets.source import embed_dataset, is_dataset, keep_labels, open_images

__all__ = [
    "Dataset",
    "DatasetInfo",
    "dataset_info",
    "download_dataset",
    "embed_dataset",
    "fetch",
    "is_dataset",
    "keep_labels",
    "list_datasets",
    "load_dataset",
    "open_images",
]
