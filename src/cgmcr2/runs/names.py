"""Suggest names for the clusters of a run, keep them in ``names.json``, and apply them as one edit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cgmcr2._files import read_json, write_json
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.io import default_name
from cgmcr2.encoders import load_encoder, reads_text
from cgmcr2.encoders.base import Encoder
from cgmcr2.images import Catalog, iter_decoded
from cgmcr2.words import (
    Suggestion,
    TextEmbeddings,
    Vocabulary,
    default_vocabulary,
    embed_vocabulary,
    load_text_embeddings,
    name_groups,
    suggest_names,
)
from cgmcr2.words.naming import Float32, Int64

from .edits import Edits
from .folder import RunFolder, StrPath

FILE_NAME = "names.json"
TEXT_CACHE = ".text"  # folder of text embeddings in the run folder; may be deleted at any time
FORMAT = 1
READERS = "an encoder that reads text, such as clip-vit-b-32 (see cgmcr2 encoders)"
READER_IMAGES = 25  # representatives of each cluster that a second encoder embeds


@dataclasses.dataclass
class Group:
    """A group of clusters that the hierarchy merges, and its best words."""

    clusters: list[int]
    words: list[tuple[str, float]]


@dataclasses.dataclass
class Names:
    """The contents of ``names.json``: suggestions for the clusters of a run."""

    state: str  # of the edits that the suggestions are for, see ``Edits.state``
    reader: str  # encoder or file that embedded the words
    words: int  # size of the vocabulary
    clusters: list[Suggestion]
    groups: list[Group]
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write ``names.json``."""
        write_json(folder / FILE_NAME, dataclasses.asdict(self))


def read_names(run: StrPath | RunFolder) -> Names | None:
    """The suggestions in a run folder; None if there are none."""
    path = (run.path if isinstance(run, RunFolder) else Path(run)) / FILE_NAME
    return read_json(path, Names, format=FORMAT, advice="repeat cgmcr2 name") if path.is_file() else None


def suggested_words(edits: Edits) -> dict[int, list[str]]:
    """The suggested words of each cluster, best first, for people to choose from; empty if there are none."""
    try:
        names = read_names(edits.run)
    except (OSError, ValueError):  # they are only a help
        return {}
    if names is None or names.state not in {edits.state, *(edit.state for edit in edits.log)}:  # of an earlier fit
        return {}
    return {entry.cluster: [word for word, _ in entry.words] for entry in names.clusters}


def suggest_run_names(
    run: StrPath | RunFolder,
    *,
    vocabulary: Vocabulary | None = None,
    text: StrPath | TextEmbeddings | None = None,
    reader: str | None = None,
    images: StrPath | None = None,
    rename_all: bool = False,
) -> Names:
    """Suggest a name for each cluster of a run, as edited, and write ``names.json``; nothing is renamed.

    Parameters
    ----------
    run : run folder
    vocabulary : the words; default: about 2,200 common visual nouns
    text : words with embeddings in the space of the features, or a file of them; instead of a vocabulary
    reader : encoder that reads text; default: the run's encoder. Another one looks at 25 representative images of each
        cluster.
    images : location of the images, if they were moved
    rename_all : also suggest names for clusters that someone has named
    """
    with Edits(run, read_only=True) as edits:
        folder, clustering, state = edits.run, edits.clustering, edits.state
    included = [cluster for cluster in clustering.clusters if cluster != clustering.excluded]
    free = clusters_to_name(clustering, rename_all=rename_all)
    labels = np.where(np.isin(clustering.labels, included), clustering.labels, -1)
    if text is not None:
        name = "text embeddings" if isinstance(text, TextEmbeddings) else str(text)
        words = text if isinstance(text, TextEmbeddings) else load_text_embeddings(text)
        features = run_features(folder, clustering)
    else:
        name = reader or folder.info.encoder_name or ""
        encoder = load_reader(
            name or None, f"give {READERS} with --reader, or embeddings of words with --text-embeddings"
        )
        words = embed_vocabulary(vocabulary or default_vocabulary(), encoder, cache=folder.path / TEXT_CACHE)
        if encoder.fingerprint == folder.info.encoder:
            features = run_features(folder, clustering)
        else:
            features, labels = _embed_representatives(folder, clustering, included, encoder, images)
    taken = [name for cluster, name in enumerate(clustering.names) if cluster not in free]  # also of empty clusters
    suggestions = suggest_names(features, labels, words, clusters=free, taken=taken)
    merges = _merges(clustering)
    groups = [Group(*pair) for pair in zip(merges, name_groups(features, labels, words, merges), strict=True)]
    names = Names(state, name, len(words.vocabulary), suggestions, groups)
    names.write(folder.path)
    return names


def apply_names(run: StrPath | RunFolder, names: Names) -> Clustering:
    """Rename the clusters as suggested, as one edit that one undo takes back."""
    with Edits(run) as edits:
        if edits.state != names.state:
            raise ValueError("The clusters were edited after these names were suggested; suggest names again.")
        renames = rename_edits(edits.clustering, {s.cluster: s.name for s in names.clusters if s.name is not None})
        return edits.batch(renames) if renames else edits.clustering


def rename_edits(clustering: Clustering, names: dict[int, str]) -> list[tuple[str, dict[str, Any]]]:
    """The edits that give clusters these names, also if clusters exchange their names.

    >>> rename_edits(Clustering(["a", "b"], [0, 1], names=["cat", "dog"]), {0: "dog", 1: "cat"})[0]
    ('rename', {'cluster': 0, 'name': 'cat (renamed 0)'})
    """
    names = {cluster: name for cluster, name in names.items() if clustering.names[cluster] != name}
    new_names = set(names.values())
    blocking = [cluster for cluster in names if clustering.names[cluster] in new_names]
    temporary = [(cluster, f"{clustering.names[cluster]} (renamed {cluster})") for cluster in blocking]
    return [("rename", {"cluster": cluster, "name": name}) for cluster, name in (*temporary, *names.items())]


def clusters_to_name(clustering: Clustering, *, rename_all: bool = False) -> list[int]:
    """The clusters without a name that someone gave them, or all that are not excluded."""
    included = [cluster for cluster in clustering.clusters if cluster != clustering.excluded]
    return [cluster for cluster in included if rename_all or has_default_name(clustering, cluster)]


def image_catalog(folder: RunFolder, images: StrPath | None) -> Catalog:
    """The images of a run; raise ``ValueError`` if it was fitted on features and they are not given."""
    if images is None and folder.info.encoder_name is None:
        raise ValueError(
            f"{folder.path} was fitted on features, so its images are not known; give them with --images, or "
            "embeddings of words with --text-embeddings."
        )
    return folder.catalog(images)


def has_default_name(clustering: Clustering, cluster: int) -> bool:
    """Whether a cluster is called "Cluster 3", and not by a name that someone gave it."""
    return clustering.names[cluster] == default_name(cluster)


def load_reader(name: str | None, advice: str) -> Any:
    """Load an encoder that reads text; errors end in ``advice``."""
    if name is None:
        raise ValueError(f"The run was fitted on features of an unknown model, so words cannot be embedded; {advice}.")
    encoder = load_encoder(name)
    if not reads_text(encoder):
        raise ValueError(f"The encoder {name} does not read text; {advice}.")
    return encoder


def run_features(folder: RunFolder, clustering: Clustering) -> Any:
    """The features (n, D) of the images of a run."""
    features = folder.features(clustering.ids)
    if features is None:
        raise FileNotFoundError(
            f"The features of {folder.path} are no longer at {folder.info.source}; put the file back."
        )
    return features


def _embed_representatives(
    folder: RunFolder, clustering: Clustering, clusters: Sequence[int], encoder: Encoder, images: StrPath | None
) -> tuple[Float32, Int64]:
    """Features (m, D) by ``encoder`` of up to 25 representative images of each cluster, and their clusters (m,)."""
    catalog = image_catalog(folder, images)
    position = {id: index for index, id in enumerate(catalog.ids)}
    label = {
        position[clustering.ids[row]]: cluster
        for cluster in clusters
        for row in clustering.representatives(cluster, READER_IMAGES)
        if clustering.ids[row] in position
    }
    inputs, labels = [], []
    for index, result in iter_decoded(catalog, encoder.preprocess, indices=sorted(label), size=encoder.image_size):
        if not isinstance(result, str):
            inputs.append(result)
            labels.append(label[index])
    if not inputs:
        raise ValueError(f"None of the images of {folder.path} can be read; give their location with --images.")
    return encoder.encode(np.stack(inputs)), np.array(labels)


def _merges(clustering: Clustering) -> list[list[int]]:
    """The clusters of each inner node of the hierarchy below the root."""
    if clustering.embedding is None:
        return []
    tree = clustering.included().hierarchy()
    nodes = [[cluster] for cluster in tree.clusters]
    for a, b in tree.linkage[:, :2].astype(int).tolist():
        nodes.append(sorted(nodes[a] + nodes[b]))
    return nodes[len(tree.clusters) : -1]
