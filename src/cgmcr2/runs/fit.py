"""Fit a model into a run folder: from features, or from images."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cgmcr2._checksums import FILE_NAME as CHECKSUMS
from cgmcr2._checksums import record_checksums
from cgmcr2._random import seed_from
from cgmcr2.clustering import Clustering
from cgmcr2.clustering.io import FILES as CLUSTERING_FILES
from cgmcr2.clustering.io import default_name
from cgmcr2.consensus.choose_k import Choice, ChoiceRequest, choose_k, write_choice
from cgmcr2.datasets import open_images, save_labels
from cgmcr2.distributed import Group, process_group
from cgmcr2.encoders import absolute_name
from cgmcr2.estimator import CgMCR2
from cgmcr2.evaluation import Protocol
from cgmcr2.features import FeatureStore
from cgmcr2.features.duplicates import Int64, distinct_rows
from cgmcr2.features.sources import (
    FeatureSource,
    Subset,
    absolute_paths,
    check_finite,
    is_features,
    load_feature_file,
)
from cgmcr2.images import Catalog
from cgmcr2.images.catalog import check_exists
from cgmcr2.images.storage import absolute_source
from cgmcr2.inference import Inference
from cgmcr2.words import Wish

from .folder import RunFolder, StrPath
from .info import FittedOn, RunInfo
from .inputs import embed_images, image_groups, select_part
from .names import load_reader
from .wishes import READER_ADVICE, cluster_names, follow_clusters, prepare_wish, start_clusters, wish_maker

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class RunResult:
    """What a fit produced; the command line prints from it."""

    folder: RunFolder
    choice: Choice | None = None  # how the number of clusters was chosen; None if it was given
    catalog: Catalog | None = None  # for runs on images
    errors: int = 0  # images that could not be read
    model: CgMCR2 | None = None  # None if the run was already finished

    @property
    def clustering(self) -> Clustering:
        """The clusters, read from the folder when needed."""
        return self.folder.clustering


def fit_features(
    model: CgMCR2,
    features: StrPath,
    folder: StrPath,
    *,
    part: str = "train",
    names: Sequence[str] = (),
    text: StrPath | None = None,
    tensorboard: bool = False,
) -> RunResult:
    """Fit ``model`` on (a part of) a feature file into a run folder; an interrupted run is resumed.

    With ``names``, the clusters start from these words, whose embeddings are in the file ``text``. The name "auto"
    stands for further clusters of the images that no name describes.

    The processes that ``torchrun`` started train together. Only the first one reads and writes the folder.
    """
    file = load_feature_file(features)
    source, ids, name = select_part(file, part)
    run = RunFolder(folder)
    make_wish = wish_maker(names, text, run, None)
    prepare_wish(model, names)

    def request() -> RunInfo:
        return RunInfo(
            source=absolute_paths(features),
            fitted_on=FittedOn(name, source.shape[0], source.shape[1]),
            encoder=file.fingerprint,
            features=check_finite(source),
            parameters=_parameters(model),
            names=list(names) or None,
        )

    with process_group() as group, _locked(run, group):
        return _fit(
            model, source, ids, run, group.on_first(request), group, make_wish=make_wish, tensorboard=tensorboard
        )


def fit_images(
    model: CgMCR2,
    source: StrPath,
    folder: StrPath,
    *,
    data: StrPath | None = None,
    download: bool = False,
    encoder: str = "bundled",
    names: Sequence[str] = (),
    text: StrPath | None = None,
    refit: bool = False,
    progress: bool = False,
) -> RunResult:
    """Embed images and fit ``model`` on them into a run folder; an interrupted run is resumed.

    ``source`` is a folder, list or archive of images, or the name of a data set whose files are in ``data``
    (``download`` fetches missing ones). Of a data set, the training images are clustered; its labels are kept with the
    features, for evaluation only. With ``refit``, the run in the folder is replaced if images, parameters or the format
    of models have changed: only new images are embedded, and clusters that match an earlier one keep its name. With
    ``names``, the clusters start from these words, and the encoder must read text, or their embeddings must be in the
    file ``text``.

    The processes that ``torchrun`` started train together; the first one does everything else. All must see the folder.
    """
    run, encoder = RunFolder(folder), absolute_name(encoder)
    catalog: Catalog | None = None  # in the first process only
    make_wish = wish_maker(names, text, run, encoder)
    prepare_wish(model, names)

    def embed() -> str | None:
        nonlocal catalog
        catalog, dataset = open_images(source, data, download=download, exclude=[run.path])
        model.resolve_settings(max(2, len(catalog)), 1)  # reject invalid settings before the images are embedded
        if names and text is None:
            load_reader(encoder, READER_ADVICE)  # reject an encoder that does not read
        store = embed_images(catalog, encoder, run.store, run.errors, progress)
        if dataset:
            save_labels(store, dataset)
        return dataset.name if dataset else None

    with process_group() as group, _locked(run, group):
        dataset_name = group.on_first(embed)
        store = FeatureStore.open(run.store)
        features: FeatureSource = store
        ids: Sequence[str] = store.ids
        part = "all images"
        if dataset_name:
            features, ids, part = select_part(load_feature_file(store.path), "train")

        def request() -> RunInfo:
            return RunInfo(
                source=dataset_name or absolute_source(source),
                fitted_on=FittedOn(part, features.shape[0], store.shape[1]),
                encoder=store.fingerprint,
                parameters=_parameters(model),
                features=check_finite(features),
                encoder_name=encoder,
                images=store.content_fingerprint,
                data=str(Path(data or "").resolve()) if dataset_name else None,
                names=list(names) or None,
            )

        result = _fit(
            model,
            features,
            ids,
            run,
            group.on_first(request),
            group,
            make_wish=make_wish,
            catalog=catalog,
            refit=refit,
        )
    result.catalog, result.errors = catalog, len(store.errors)
    return result


def _locked(run: RunFolder, group: Group) -> contextlib.AbstractContextManager[None]:
    """The lock of the run folder, which the first process holds for all."""
    return run.lock() if group.rank == 0 else contextlib.nullcontext()


def choose_clusters(
    source: StrPath,
    folder: StrPath | None = None,
    *,
    most: int | None = None,
    encoder: str = "bundled",
    part: str = "train",
    seed: int = 0,
    progress: bool = False,
) -> Choice:
    """Choose the number of clusters of a feature file or of images; with a ``folder``, write ``choice.json`` there."""
    check_exists(source)
    if folder is None and not is_features(source):
        raise ValueError(f"{source} holds images, and their features must be stored; give a folder with -o.")
    run = None if folder is None else RunFolder(folder)
    with run.lock() if run else contextlib.nullcontext():
        features: FeatureSource
        if run is None or is_features(source):
            features = select_part(load_feature_file(source), part)[0]
        else:
            catalog = Catalog.from_source(source, exclude=[run.path])
            store = embed_images(catalog, encoder, run.store, run.errors, progress)
            groups = image_groups(run.path, store, store.ids, catalog, check_finite(store), progress=progress)
            features = Subset(store, distinct_rows(groups))
        request = ChoiceRequest(check_finite(features), seed, most)
        choice = choose_k(features, most=most, seed=seed, progress=progress)
        if run is not None:
            write_choice(run.path, choice, request)
            if (run.path / CHECKSUMS).exists():  # the folder of a finished run
                record_checksums(run.path, ["choice.json"])
    return choice


def _fit(
    model: CgMCR2,
    source: FeatureSource,
    ids: Sequence[str],
    run: RunFolder,
    request: RunInfo,
    group: Group,
    *,
    make_wish: Callable[[], Wish] | None = None,
    catalog: Catalog | None = None,
    refit: bool = False,
    tensorboard: bool = False,
) -> RunResult:
    """Fit ``model`` on ``source``, whose rows are called ``ids``, unless the folder holds the finished run.

    With the ``catalog`` of the images, near-duplicates are searched for, and each group of them counts once.
    """
    plan = group.on_first(lambda: _prepare(model, source, ids, run, request, catalog, refit=refit))
    if isinstance(plan, _Finished):
        return RunResult(run, plan.choice)
    memberships, requested = None, model.get_params()
    if make_wish is not None:
        seed = seed_from(model.random_state)
        distinct = np.arange(source.shape[0]) if plan.groups is None else distinct_rows(plan.groups)
        memberships = group.on_first(lambda: start_clusters(source, make_wish(), distinct, seed))
        follow_clusters(model, memberships.shape[1])
    try:
        inference = model.fit_source(
            source, groups=plan.groups, memberships=memberships, folder=plan.folder, tensorboard=tensorboard
        )
        group.on_first(lambda: _write(model, source, ids, run, request, plan, inference))
    finally:
        model.set_params(**requested)  # so that the same model can resume or repeat the run
    return RunResult(run, model.choice_, model=model)


@dataclasses.dataclass
class _Finished:
    """The folder already holds the run."""

    choice: Choice | None


@dataclasses.dataclass
class _Plan:
    """How to train."""

    folder: Path  # for checkpoints and metrics
    groups: Int64 | None  # of near-duplicates
    replaces_results: bool  # whether the folder holds results of an earlier run


def _prepare(
    model: CgMCR2,
    source: FeatureSource,
    ids: Sequence[str],
    run: RunFolder,
    request: RunInfo,
    catalog: Catalog | None,
    *,
    refit: bool,
) -> _Plan | _Finished:
    """Check the folder and the parameters, write ``run.json``, and find near-duplicates."""
    replaces = refit and run.run_json.exists() and (run.is_outdated() or bool(run.info.differences(request)))
    replaces_results = replaces and run.info.finished
    if replaces_results:
        run.verify(*CLUSTERING_FILES)  # names of clusters are taken from them after training
    if not replaces and run.holds_finished(request):
        run.remove_checkpoints()
        return _Finished(Choice.from_dict(run.info.choice) if run.info.choice else None)
    if len(ids) < 2:
        noun = "image" if request.encoder_name else "row"
        raise ValueError(f"One {noun} cannot be clustered; give at least 2.")
    model.resolve_settings(*source.shape)  # reject invalid input before anything is written
    if not replaces_results:
        if replaces:  # an unfinished run
            run.remove_checkpoints()
        run.write_info(request)
    training_folder = run.prepare_refit(request) if replaces_results else run.path
    groups = None
    if catalog is not None:
        digest = request.features or ""
        groups = image_groups(training_folder, source, ids, catalog, digest, progress=model.verbose)
    return _Plan(training_folder, groups, replaces_results)


def _write(
    model: CgMCR2,
    source: FeatureSource,
    ids: Sequence[str],
    run: RunFolder,
    request: RunInfo,
    plan: _Plan,
    inference: Inference,
) -> None:
    """Write the results of a fitted ``model`` and remove its checkpoints."""
    clustering = fitted_clustering(ids, inference, model.n_clusters_, plan.groups)
    if request.names:
        clustering = clustering.with_names(cluster_names(request.names, model.n_clusters_))
    elif plan.replaces_results:
        clustering = clustering.with_names(matching_names(run.clustering.included(), clustering))
        if run.clustering != run.fitted:
            logger.warning("Names are kept, but other edits applied to the earlier clusters; repeat them if you want.")
    part, n = request.fitted_on.part, source.shape[0]
    info = dataclasses.replace(
        request,
        settings=dataclasses.asdict(model.settings_),
        protocol=f"labels.csv: {Protocol(part, n, part, n)}",
        stability=round(model.calibration_.stability, 4),
        choice=dataclasses.asdict(model.choice_) if model.choice_ else None,
        finished=True,
    )
    run.write_results(model, clustering, info, plan.folder)
    run.remove_checkpoints()


def fitted_clustering(ids: Sequence[str], inference: Inference, k: int, groups: Int64 | None) -> Clustering:
    """The k clusters of the fitted rows ``ids``, with default names."""
    names = [default_name(cluster) for cluster in range(k)]
    return Clustering(ids, **inference._asdict(), names=names, groups=groups)


def matching_names(earlier: Clustering, clustering: Clustering) -> list[str]:
    """Names for ``clustering``: a cluster that matches an earlier one keeps the name that someone gave it.

    Two clusters match if each shares more images with the other than with any other cluster.

    >>> old = Clustering(["a", "b", "c"], [0, 0, 1], names=["cats", "dogs"])
    >>> matching_names(old, Clustering(["a", "b", "c", "d"], [1, 1, 0, 2]))
    ['dogs', 'cats', 'Cluster 2']
    """
    row = {id: i for i, id in enumerate(earlier.ids)}
    shared = np.zeros((earlier.n_clusters, clustering.n_clusters), dtype=np.int64)
    for id, label in zip(clustering.ids, clustering.labels.tolist(), strict=True):
        if id in row:
            shared[earlier.labels[row[id]], label] += 1
    names = {}
    for cluster in range(clustering.n_clusters):
        best = int(shared[:, cluster].argmax())
        mutual = shared[best, cluster] > 0 and int(shared[best].argmax()) == cluster
        if mutual and earlier.names[best] != default_name(best):
            names[cluster] = earlier.names[best]
    given = set(names.values())
    for cluster in range(clustering.n_clusters):
        name = default_name(cluster)
        names.setdefault(cluster, f"{name} (new)" if name in given else name)
    return [names[cluster] for cluster in range(clustering.n_clusters)]


def _parameters(model: CgMCR2) -> dict[str, Any]:
    """The parameters that determine the result, as JSON has them."""
    parameters = {name: value for name, value in model.get_params().items() if name not in ("device", "verbose")}
    parameters["settings"] = dict(model.settings or {})
    return {name: value for name, value in parameters.items() if value not in (None, {})}
