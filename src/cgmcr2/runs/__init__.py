"""A run from its source to its folder: from features (``folder``) and from images (``images``)."""

from .choosing import choose_clusters
from .folder import Evaluation, Run, fit_features, open_run
from .images import cluster_images, predict_images

__all__ = ["Evaluation", "Run", "choose_clusters", "cluster_images", "fit_features", "open_run", "predict_images"]
