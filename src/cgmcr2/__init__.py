"""Find the groups in unlabelled images with graph Cut-guided Maximal Coding Rate Reduction (CgMCR²)."""

__version__ = "0.1.0"
