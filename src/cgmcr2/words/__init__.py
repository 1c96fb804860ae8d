"""Words in the space of the image features: names for clusters, and clusters that start from names."""

from cgmcr2.words.naming import NamingConfig, Suggestion, name_groups, suggest_names
from cgmcr2.words.text import TextEmbeddings, embed_vocabulary, load_text_embeddings
from cgmcr2.words.vocabulary import Vocabulary, default_vocabulary, read_vocabulary
from cgmcr2.words.wish import Wish, wished_memberships

__all__ = [
    "NamingConfig",
    "Suggestion",
    "TextEmbeddings",
    "Vocabulary",
    "Wish",
    "default_vocabulary",
    "embed_vocabulary",
    "load_text_embeddings",
    "name_groups",
    "read_vocabulary",
    "suggest_names",
    "wished_memberships",
]
