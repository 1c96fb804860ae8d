"""Search the images of a run by text, by an image, or by one of its rows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from cgmcr2.clustering import Clustering
from cgmcr2.encoders import TextEncoder
from cgmcr2.features.search import embed_file, most_similar
from cgmcr2.words import TextEmbeddings, Vocabulary, embed_vocabulary, load_text_embeddings
from cgmcr2.words.naming import Float32, Int64

from .edits import Edits
from .folder import RunFolder, StrPath
from .names import READERS, load_reader, run_features


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """Rows of the run, most similar first, and their cosine similarities to the query."""

    rows: Int64
    similarities: Float32


def search_run(
    run: StrPath | RunFolder,
    query: str | None = None,
    *,
    image: StrPath | None = None,
    row: int | str | None = None,
    text: StrPath | TextEmbeddings | None = None,
    count: int = 20,
) -> SearchResult:
    """The images of a run that are most similar to a query; exact, in blocks of bounded memory.

    Excluded images are left out.

    Parameters
    ----------
    run : run folder
    query : text; the run's encoder must read text, or ``text`` must have the word
    image : image file
    row : image of the run, by row or file name
    text : words with embeddings in the space of the features, or a file of them
    count : number of images
    """
    given = [value for value in (query, image, row) if value is not None]
    if len(given) != 1:
        raise ValueError(f"A search needs one query, but {len(given)} were given: a text, an image file or a row.")
    folder = run if isinstance(run, RunFolder) else RunFolder(run)
    clustering = folder.clustering
    features = run_features(folder, clustering)
    if query is not None:
        direction = embed_query(query, query_reader(folder, text))
    elif image is not None:
        direction = _image_query(folder, Path(image))
    else:
        index = _row_number(clustering, row)
        direction = np.asarray(features[index : index + 1][0], dtype=np.float32)
    if len(direction) != features.shape[1]:
        raise ValueError(
            f"The query has {len(direction)} features, but the images of {folder.path} have {features.shape[1]}; text "
            "and images must be embedded by the same model."
        )
    excluded = np.flatnonzero(clustering.labels == (-1 if clustering.excluded is None else clustering.excluded))
    rows, similarities = most_similar(features, direction, count + len(excluded))
    kept = np.flatnonzero(~np.isin(rows, excluded))[:count]
    return SearchResult(rows[kept], similarities[kept])


def results_to_cluster(run: StrPath | RunFolder, result: SearchResult, name: str) -> int:
    """Move the images of a search to the cluster ``name``, a new one if there is none, as one edit.

    Locked images stay where they are. Returns the number of images that were moved.
    """
    with Edits(run) as edits:
        rows = result.rows[~edits.clustering.locked[result.rows]]
        if not len(rows):
            raise ValueError("All images of the search are locked; unlock them before moving them.")
        if name.strip() in edits.clustering.names:
            edits.move(rows, name.strip())
        else:
            edits.new(rows, name)
        return len(rows)


def query_reader(folder: RunFolder, text: StrPath | TextEmbeddings | None = None) -> TextEmbeddings | TextEncoder:
    """What embeds the texts of searches: given words with embeddings, or the run's encoder, which must read text."""
    if text is not None:
        return text if isinstance(text, TextEmbeddings) else load_text_embeddings(text)
    encoder: TextEncoder = load_reader(
        folder.info.encoder_name,
        f"search by image or row, give embeddings of words with --text-embeddings, or cluster with {READERS}",
    )
    return encoder


def embed_query(query: str, reader: TextEmbeddings | TextEncoder) -> Float32:
    """The embedding (D,) of a text."""
    query = query.strip()
    if not query:
        raise ValueError("The text of the search is empty; describe the images to find.")
    if isinstance(reader, TextEmbeddings):
        return np.asarray(reader.select([query]).embeddings[0])
    return np.asarray(embed_vocabulary(Vocabulary(((query,),)), reader).embeddings[0])


def _image_query(folder: RunFolder, image: Path) -> Float32:
    if folder.info.encoder_name is None:
        raise ValueError(f"{folder.path} was fitted on features, so an image cannot be compared with them; give --row.")
    return embed_file(image.read_bytes(), folder.info.encoder_name)


def _row_number(clustering: Clustering, row: int | str | None) -> int:
    if isinstance(row, str) and row in clustering.ids:
        return clustering.ids.index(row)
    if isinstance(row, str) and row.isdecimal():
        row = int(row)
    if not isinstance(row, int) or not 0 <= row < len(clustering):
        raise ValueError(
            f"The run has no image {row!r}; give a path as in labels.csv or a row in 0 ... {len(clustering) - 1}."
        )
    return row
