"""Features on disk: where they come from (``sources``), how they are kept (``FeatureStore``) and made (``extract``)."""

from cgmcr2.features.extract import extract
from cgmcr2.features.store import FeatureStore

__all__ = ["FeatureStore", "extract"]
