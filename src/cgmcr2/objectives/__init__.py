"""The paper's objective: coding rates R and Rc, affinities, and the normalized cut. Needs torch only.

Embeddings are ``Z (n, d)``, one sample per row, as PyTorch batches are; the paper writes the transpose ``Z (d, N)``.
"""

from cgmcr2.objectives.affinity import Edges, cosine, cosine_topk, degrees, doubly_stochastic, gaussian
from cgmcr2.objectives.cgmcr2 import CgMCR2Objective, Terms
from cgmcr2.objectives.cluster_coding_rate import cluster_coding_rate
from cgmcr2.objectives.coding_rate import coding_rate
from cgmcr2.objectives.normalized_cut import CutTerms, cut_penalty, cut_terms, normalized_cut
from cgmcr2.objectives.released import ReleasedObjective

__all__ = [
    "CgMCR2Objective",
    "CutTerms",
    "Edges",
    "ReleasedObjective",
    "Terms",
    "cluster_coding_rate",
    "coding_rate",
    "cosine",
    "cosine_topk",
    "cut_penalty",
    "cut_terms",
    "degrees",
    "doubly_stochastic",
    "gaussian",
    "normalized_cut",
]
