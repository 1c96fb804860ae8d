"""Words: names of clusters against the nearest word, and groups by wish against zero-shot and clustering without words.

    python benchmarks/words.py names -o DIR            # Imagenette, Pets and Caltech-101 clustered by auto, three seeds
    python benchmarks/words.py names -o DIR --tune     # classes of 4-shot ImageNet, on which constants were chosen
    python benchmarks/words.py wishes                  # ten class names of Pets and of Caltech-101 are given
    python benchmarks/words.py others                  # ten class names of Caltech-101, and all its images
    python benchmarks/words.py search                  # exact search among 1,000,000 x 512 features

CLIP ViT-B/32 features and text embeddings of the folder ``../shared/data``: 2,068 nouns of LVIS, Open Images and
Objects365, and the 1,000 class names of ImageNet. ``auto`` is fitted on all rows with the true number of classes; its
labels are kept in DIR. A cluster counts if the vocabulary has the name of its majority class. A name is right if it is
the name of that class or a synonym in its line of the vocabulary. "Nearest" is the word of largest cosine similarity to
the mean of the unit rows of the cluster.
"""

from __future__ import annotations

import argparse
import re
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.formats import markdown_table
from cgmcr2.features.search import most_similar
from cgmcr2.words import (
    TextEmbeddings,
    Vocabulary,
    Wish,
    load_text_embeddings,
    suggest_names,
    wished_memberships,
)
from cgmcr2.words.wish import DEFAULT as WISH
from cgmcr2.words.wish import divide_other

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES = {
    "imagenette": "imagenette-clip-vit-b32",
    "pets": "pets-clip-vit-b32",
    "caltech": "caltech101-clip-vit-b32",
    "imagenet": "imagenet1k-4shot-clip-vit-b32",
}
# In the order of the labels; breeds under the name that ImageNet gives them, if it has them.
# fmt: off
PETS = [
    "Abyssinian", "American bulldog", "American pit bull terrier", "basset", "beagle", "Bengal", "Birman", "Bombay",
    "boxer", "British shorthair", "Chihuahua", "Egyptian cat", "cocker spaniel", "English setter",
    "German short-haired pointer", "Great Pyrenees", "Havanese", "Japanese spaniel", "keeshond", "Leonberg",
    "Maine coon", "miniature pinscher", "Newfoundland", "Persian cat", "Pomeranian", "pug", "ragdoll",
    "Russian blue", "Saint Bernard", "Samoyed", "Scotch terrier", "shiba inu", "Siamese cat", "sphynx",
    "Staffordshire bullterrier", "soft-coated wheaten terrier", "Yorkshire terrier",
]
# fmt: on
CALTECH = {  # names that no rule turns into a word of the vocabulary
    "faces": "human face",
    "motorbikes": "motorcycle",
    "car side": "car",
    "cougar body": "cougar",
    "cougar face": "cougar",
    "crocodile head": "crocodile",
    "flamingo head": "flamingo",
    "headphone": "headphones",
    "binocular": "binoculars",
    "rhino": "rhinoceros",
    "sea horse": "seahorse",
    "panda": "giant panda",
    "watch": "wristwatch",
}
Array = npt.NDArray[Any]


def load(name: str) -> tuple[Array, Array, list[str]]:
    """Unit rows, labels and class names of a set."""
    with np.load(SHARED / f"{FILES[name]}.npz") as file:
        X, y = unit_rows(file["features"].astype(np.float32)), file["labels"].astype(np.int64)
        classes = PETS if name == "pets" else [str(c) for c in file["classes"]]
    return X, y, [CALTECH.get(c, c) for c in classes] if name == "caltech" else classes


def load_text(name: str) -> TextEmbeddings:
    """The text embeddings ``nouns``, ``imagenet``, or ``both``: those of ImageNet and the nouns that it has not."""
    if name != "both":
        file = "nouns-clip-vit-b32" if name == "nouns" else "imagenet1k-names-clip-vit-b32"
        return load_text_embeddings(SHARED / f"{file}.npz")
    first, second = load_text("imagenet"), load_text("nouns")
    words = {word.casefold() for entry in first.vocabulary.synonyms for word in entry}
    new = [i for i, entry in enumerate(second.vocabulary.synonyms) if not words & {word.casefold() for word in entry}]
    second = second.subset(new)
    vocabulary = Vocabulary(first.vocabulary.synonyms + second.vocabulary.synonyms)
    return TextEmbeddings(vocabulary, np.concatenate([first.embeddings, second.embeddings]))


def right_words(classes: list[str], vocabulary: Vocabulary) -> list[set[str]]:
    """The words of the vocabulary that name each class; may be empty.

    These are the entries that have its name or its singular, apart from additions in parentheses, and the entries that
    share a synonym with one of them: the label sets name some things twice, such as "cell phone" and "mobile phone".
    """
    entries = [{re.sub(r" \(.*\)", "", word).casefold() for word in entry} for entry in vocabulary.synonyms]
    result = []
    for name in classes:
        forms = {name.casefold(), name.casefold().removesuffix("s")}
        synonyms = forms.union(*(entry for entry in entries if forms & entry))
        result.append({vocabulary.names[i] for i, entry in enumerate(entries) if synonyms & entry})
    return result


def auto_labels(name: str, X: Array, k: int, seed: int, folder: Path) -> Array:
    """The clusters of ``auto`` on all rows, from DIR if they are there."""
    path = folder / f"{name}-{seed}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, CgMCR2(k, random_state=seed).fit(X).labels_)
    return np.asarray(np.load(path))


def nearest_words(X: Array, labels: Array, text: TextEmbeddings) -> tuple[list[list[str]], list[str]]:
    """The five words nearest to the centroid of each cluster, and distinct words of largest total similarity."""
    C = unit_rows(np.stack([X[labels == c].mean(axis=0) for c in np.unique(labels)]))
    similarity = C @ text.embeddings.T
    order = np.argsort(-similarity, axis=1, kind="stable")[:, :5]
    words = text.vocabulary.names
    _, distinct = linear_sum_assignment(similarity, maximize=True)
    return [[words[i] for i in row] for row in order], [words[i] for i in distinct]


def first_right(names: list[str | None], right: list[set[str]]) -> float:
    """Percentage of the clusters with a right word in the vocabulary whose name is right, apart from a number."""
    return 100 * float(
        np.mean([re.sub(r" \(\d+\)$", "", n or "") in r for n, r in zip(names, right, strict=True) if r])
    )


def five_right(words: list[list[str]], right: list[set[str]]) -> float:
    """Percentage of these clusters one of whose five words is right."""
    return 100 * float(np.mean([bool(r & set(w)) for w, r in zip(words, right, strict=True) if r]))


def compare_names(X: Array, labels: Array, right: list[set[str]], text: TextEmbeddings) -> list[float]:
    """First and five right of the nearest word, its distinct version, and ``suggest_names``; counts of clusters."""
    nearest, distinct = nearest_words(X, labels, text)
    suggestions = suggest_names(X, labels, text)
    names = [suggestion.name for suggestion in suggestions]
    words = [[word for word, _ in suggestion.words] for suggestion in suggestions]
    return [
        first_right([best[0] for best in nearest], right),
        first_right(list(distinct), right),
        first_right(names, right),
        five_right(nearest, right),
        five_right(words, right),
        sum(map(bool, right)),
        sum(name is None for name in names),
    ]


def names(folder: Path, seeds: int, tune: bool) -> None:
    """Print the table of the names."""
    rows = []
    for name in ["imagenet"] if tune else ["imagenette", "pets", "caltech"]:
        X, y, classes = load(name)
        for vocabulary in ("nouns", "imagenet", "both"):
            text = load_text(vocabulary)
            right = right_words(classes, text.vocabulary)
            runs = []
            for seed in range(seeds):
                if tune:
                    runs += [compare_names(*_random_classes(X, y, right, k, seed), text) for k in (10, 40, 100)]
                    continue
                labels = auto_labels(name, X, len(classes), seed, folder)
                majority = [right[np.bincount(y[labels == c]).argmax()] for c in np.unique(labels)]
                if any(majority):
                    runs.append(compare_names(X, labels, majority, text))
            if runs:
                rows.append([name, vocabulary, *(f"{value:.1f}" for value in np.mean(runs, axis=0))])
    header = [
        "set",
        "words",
        "nearest",
        "nearest, distinct",
        "names",
        "nearest, five",
        "names, five",
        "counted",
        "unnamed",
    ]
    print(markdown_table(header, rows, align="ll" + "r" * 7))


def _random_classes(
    X: Array, y: Array, right: list[set[str]], k: int, seed: int
) -> tuple[Array, Array, list[set[str]]]:
    """k random classes as clusters, with 15 % of the rows in random clusters."""
    rng = np.random.default_rng((seed, k))
    chosen = rng.choice(len(right), k, replace=False)
    rows = np.flatnonzero(np.isin(y, chosen))
    position = {c: i for i, c in enumerate(chosen.tolist())}
    labels = np.array([position[c] for c in y[rows].tolist()])
    moved = rng.random(len(labels)) < 0.15
    labels[moved] = rng.integers(0, k, moved.sum())
    return X[rows], labels, [right[chosen[c]] for c in np.unique(labels)]


def wishes(draws: int) -> None:
    """Print the table of the groups by wish: ten random classes whose names the vocabulary has."""
    rows = []
    for name, vocabulary in (("pets", "imagenet"), ("caltech", "nouns")):
        X, y, classes = load(name)
        text = load_text(vocabulary)
        right = right_words(classes, text.vocabulary)
        runs = []
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            chosen = np.sort(rng.choice([c for c, words in enumerate(right) if words], 10, replace=False))
            words = [classes[c] if classes[c] in right[c] else min(right[c]) for c in chosen]
            members = np.flatnonzero(np.isin(y, chosen))
            runs.append(
                _wish(X[members], np.searchsorted(chosen, y[members]), Wish(tuple(words), text.select(words)), draw)
            )
            print(name, draw, [round(value, 1) for value in runs[-1]], flush=True)
        rows.append([name, *(f"{value:.1f}" for value in np.mean(runs, axis=0))])
    header = ["set", "zero-shot", "auto without words", "memberships", "groups by wish"]
    print(markdown_table(header, rows, align="l" + "r" * 4))


def _wish(X: Array, y: Array, wish: Wish, seed: int) -> list[float]:
    """ACC of zero-shot, ``auto`` (best match of clusters), the memberships before training, and the trained network."""
    zero_shot = (X @ wish.text.embeddings.T).argmax(axis=1)
    auto = CgMCR2(len(wish.names), random_state=seed).fit(X).labels_
    memberships = wished_memberships(X, wish, seed=seed)
    settings = {"consensus_weight": WISH.weight * len(wish.names)}  # as cgmcr2 fit --names
    labels = CgMCR2(len(wish.names), random_state=seed, settings=settings).fit_source(X, memberships=memberships).labels
    means = [float(np.mean(predicted == y)) for predicted in (zero_shot, memberships.argmax(axis=1), labels)]
    return [100 * value for value in (means[0], score_labels(y, auto).acc, *means[1:])]


def others(draws: int) -> None:
    """Print how many rows of Caltech-101 are right if ten names and "other" are given, and the clusters of -k auto."""
    X, y, classes = load("caltech")
    text = load_text("nouns")
    right = right_words(classes, text.vocabulary)
    for draw in range(draws):
        chosen = np.sort(
            np.random.default_rng(draw).choice([c for c, words in enumerate(right) if words], 10, replace=False)
        )
        words = [classes[c] if classes[c] in right[c] else min(right[c]) for c in chosen]
        wish = Wish((*words, "other"), text.select(words), text)
        expected = np.array([int(np.searchsorted(chosen, c)) if c in chosen else 10 for c in y])
        memberships = wished_memberships(X, wish)
        predicted = memberships.argmax(axis=1)
        divided = divide_other(memberships, X, 10)
        scores = score_labels(y, divided.argmax(axis=1))
        named = expected < 10
        values = [
            np.mean(predicted == expected),
            np.mean((predicted == expected)[named]),
            np.mean(predicted[~named] == 10),
        ]
        print(
            f"caltech, draw {draw}: all {values[0]:.3f}, rows of the names {values[1]:.3f}, "
            f"other rows {values[2]:.3f}; with -k auto {divided.shape[1] - 10} further clusters, "
            f"ACC {scores.acc:.3f}, NMI {scores.nmi:.3f}",
            flush=True,
        )


def search(n: int = 1_000_000, D: int = 512, repeats: int = 5) -> None:
    """Time exact search in a memory map of n x D float16 features."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f2", "fortran_order": False, "shape": (n, D)})
            for start in range(0, n, 10_000):
                file.write(rng.standard_normal((min(10_000, n - start), D), np.float32).astype("<f2").tobytes())
        features = np.load(path, mmap_mode="r")
        times = []
        for _ in range(repeats):
            start_time = time.perf_counter()
            most_similar(features, rng.standard_normal(D).astype(np.float32), 100)
            times.append(time.perf_counter() - start_time)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{n:,} x {D}: {min(times):.2f} s a query (best of {repeats}), peak memory {memory:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("names", "wishes", "others", "search"))
    parser.add_argument("-o", "--output", type=Path, default=Path("words"), help="folder of the labels of auto")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of auto, draws of classes")
    parser.add_argument("--tune", action="store_true", help="names of classes of 4-shot ImageNet")
    arguments = parser.parse_args()
    if arguments.what == "names":
        names(arguments.output, arguments.seeds, arguments.tune)
    elif arguments.what == "wishes":
        wishes(arguments.seeds)
    elif arguments.what == "others":
        others(arguments.seeds)
    else:
        search()


if __name__ == "__main__":
    main()
