"""Features on disk: extract them from images (``extract``), store them (``FeatureStore``), read them (``sources``)."""

from cgmcr2.features.extract import extract
from cgmcr2.features.store import FeatureStore

__all__ = ["FeatureStore", "extract"]
