"""What text adds to clustering: TAC with one change at a time, and text counterparts as a second feature space.

    python benchmarks/text_guidance.py changes --sets pets imagenette   # TAC: nouns, neighbours, steps, rate, heads
    python benchmarks/text_guidance.py counterparts                     # k-means and auto on images, counterparts, both

CLIP ViT-B/32 features of ``../shared/data``; split 0 is fitted and split 1 predicted. The vocabularies are those of
``words.py``: ``nouns``, ``imagenet`` (class names) and ``both``; ``classes`` are only those words of ``both`` that name
a class of the set, so it uses the labels. A text counterpart is the mean of the nouns that TAC selects, weighted by
their similarity to the image.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn

from cgmcr2 import CgMCR2
from cgmcr2._arrays import unit_rows
from cgmcr2.baselines import TAC, tac
from cgmcr2.evaluation import score_labels
from cgmcr2.experiments.formats import markdown_table
from words import FILES, SHARED, load, load_text, right_words

SETS = ("imagenette", "dtd", "pets", "caltech")
STEPS = (20, 50, 100, 160, 300, 500, 1000, 2000)
CHANGES: dict[str, dict[str, Any]] = {  # name: vocabulary and settings of TAC, or what is replaced
    "default": {},
    "12 centres": {"n_centers": 12},
    "300 centres": {"n_centers": 300},
    "1 noun per centre": {"nouns_per_center": 1},
    "20 nouns per centre": {"nouns_per_center": 20},
    "all nouns": {"selection": "all"},
    "tau 0.02": {"tau": 0.02},
    "50 neighbours": {"neighbours": 50},
    "learning rate 1e-4": {"lr": 1e-4},
    "batches of 4096": {"batch_size": 4096},
    "temperature 5": {"temperature": 5.0},
    "torch's initialisation": {"init": "torch"},
    "ImageNet's names": {"text": "imagenet"},
    "both vocabularies": {"text": "both"},
    "classes only": {"text": "classes"},
}
Array = npt.NDArray[Any]


def read(name: str) -> tuple[Array, Array, Array]:
    """Unit rows, labels and split of a set."""
    with np.load(SHARED / f"{(FILES | {'dtd': 'dtd-clip-vit-b32'})[name]}.npz") as file:
        return unit_rows(file["features"].astype(np.float32)), file["labels"].astype(np.int64), file["split"]


def embeddings(text: str, name: str) -> Array:
    """The embeddings of a vocabulary."""
    if text != "classes":
        return load_text(text).embeddings
    words = load_text("both")
    right = set[str]().union(*right_words(load(name)[2], words.vocabulary))
    return words.embeddings[[word in right for word in words.vocabulary.names]]


class TracedTAC(TAC):
    """TAC that scores the rows ``unseen`` after some steps and trains for ``max_steps``."""

    def _run_training(self, network: nn.Module, loss: Any, n: int, **options: Any) -> list[float]:
        X, y = self.unseen
        step, self.trace = 0, dict[int, float]()

        def score() -> None:
            nonlocal step
            step += 1
            if step in STEPS:
                network.eval()
                with torch.no_grad():
                    self.trace[step] = 100 * score_labels(y, network(X).argmax(1).numpy()).acc
                network.train()

        return super()._run_training(network, loss, n, **options | {"after_step": score})


class TorchHeads(tac.ImageAndTextHeads):
    """The heads with torch's initialisation."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        for head in (self.image, self.text):
            for layer in head:
                if isinstance(layer, nn.Linear):
                    layer.reset_parameters()


def traced(name: str, seed: int, steps: int, change: dict[str, Any]) -> dict[int, float]:
    """ACC on unseen rows after some steps."""
    X, y, split = read(name)
    settings = {key: value for key, value in change.items() if key not in ("text", "selection", "neighbours", "init")}
    text = embeddings(change.get("text", "nouns"), name)
    model = TracedTAC(
        int(y.max()) + 1,
        text=text,
        epochs=10**6,
        max_steps=steps,
        tolerance=None,
        random_state=seed,
        **settings,
    )
    model.unseen = torch.from_numpy(X[split == 1]), y[split == 1]
    replaced: dict[str, Any] = {}
    if change.get("selection") == "all":
        replaced["choose_nouns"] = lambda centers, text, count: torch.arange(len(text))
    if "neighbours" in change:
        replaced["n_positives"] = lambda n, k, m: change["neighbours"]
    if change.get("init") == "torch":
        replaced["ImageAndTextHeads"] = TorchHeads
    with mock.patch.multiple(tac, **replaced) if replaced else mock.patch.dict({}, {}):
        model.fit(X[split == 0])
    return model.trace


def changes(sets: list[str], names: list[str], seeds: int, steps: int) -> None:
    """Print ACC by the number of steps, for one change of TAC at a time."""
    shown = [step for step in STEPS if step <= steps]
    rows = []
    for name in sets:
        for change in names:
            runs = [traced(name, seed, steps, CHANGES[change]) for seed in range(seeds)]
            rows.append([name, change, *(f"{np.mean([run[step] for run in runs]):.1f}" for step in shown)])
            print(*rows[-1], flush=True)
    print(markdown_table(["set", "change", *map(str, shown)], rows, align="ll" + "r" * len(shown)))


def counterparts(sets: list[str], vocabularies: list[str], seeds: int) -> None:
    """Print ACC of k-means and ``auto`` on the images, on their text counterparts, and on both side by side."""
    rows = []
    for name in sets:
        X, y, split = read(name)
        k = int(y.max()) + 1
        fitted, unseen = X[split == 0], X[split == 1]
        for vocabulary in vocabularies:
            text = torch.from_numpy(unit_rows(embeddings(vocabulary, name)))
            runs = []
            for seed in range(seeds):
                centers = torch.from_numpy(TAC(k)._centers(fitted, seed))
                nouns = text[tac.choose_nouns(centers, text, TAC(k).nouns_per_center)]
                T, U = (_counterparts(part, nouns) for part in (fitted, unseen))
                pairs = (fitted, unseen), (T, U), (np.hstack([fitted, T]), np.hstack([unseen, U]))
                predicted = [KMeans(k, n_init=10, random_state=seed).fit(A).predict(B) for A, B in pairs]
                predicted.append(CgMCR2(k, random_state=seed).fit(fitted).predict(unseen))
                predicted.append(CgMCR2(k, random_state=seed).fit([fitted, T]).predict([unseen, U]))
                runs.append([100 * score_labels(y[split == 1], labels).acc for labels in predicted])
            rows.append([name, vocabulary, *(f"{value:.1f}" for value in np.mean(runs, axis=0))])
            print(*rows[-1], flush=True)
    header = ["set", "words", "k-means: images", "text", "both", "auto: images", "both"]
    print(markdown_table(header, rows, align="ll" + "r" * 5))


def _counterparts(X: Array, nouns: Tensor) -> Array:
    return tac.text_counterparts(torch.from_numpy(X), nouns, TAC.tau).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("changes", "counterparts"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=list(CHANGES))
    parser.add_argument("--text", nargs="+", choices=("nouns", "imagenet", "both"), default=["nouns", "both"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=160)
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if arguments.what == "changes":
            changes(arguments.sets, arguments.changes, arguments.seeds, arguments.steps)
        else:
            counterparts(arguments.sets, arguments.text, arguments.seeds)


if __name__ == "__main__":
    main()
