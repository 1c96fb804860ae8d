"""From images to a run folder with its report: embed, fit, label and write the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cgmcr2.distributed import process_group
from cgmcr2.estimator import CgMCR2
from cgmcr2.report import report_run
from cgmcr2.runs import RunResult, fit_images
from cgmcr2.runs.folder import StrPath


def cluster_images(
    source: StrPath,
    n_clusters: int | str | Sequence[str],
    folder: StrPath,
    *,
    data: StrPath | None = None,
    download: bool = False,
    encoder: str = "bundled",
    text: StrPath | None = None,
    report: bool = True,
    refit: bool = False,
    progress: bool = False,
    settings: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> RunResult:
    """Cluster a folder, list or archive of images into a run folder; an interrupted run is resumed.

    The run folder then holds ``labels.csv``, ``report.html``, the model, and ``errors.csv`` if files could not be read.

    Parameters
    ----------
    source : folder, list or archive of images; or the name of a data set whose files are in ``data``
    n_clusters : number of clusters, "auto" to choose it from the data, or a list of their names. Clusters with names
        start from these words. "other" is the cluster of all other images; "auto" among the names divides these
        images into as many clusters as the data has.
    folder : the run folder
    data : folder of the data set's files
    download : fetch missing files of the data set
    encoder : image encoder, see ``load_encoder``
    text : file of the names' embeddings by the model of the encoder; default: the encoder must read text
    report : write ``report.html``; an existing report of a finished run is kept
    refit : replace the run in the folder if images, parameters or the format of models have changed; only new images
        are embedded, and matching clusters keep the names that someone gave them
    progress : show progress bars
    settings : training settings, see ``CgMCR2``
    **parameters : further parameters of ``CgMCR2``
    """
    names = () if isinstance(n_clusters, (int, str)) else tuple(n_clusters)
    k = n_clusters if isinstance(n_clusters, (int, str)) else len(names)
    model = CgMCR2(k, verbose=progress, settings=settings, **parameters)
    with process_group() as group:
        result = fit_images(
            model,
            source,
            folder,
            data=data,
            download=download,
            encoder=encoder,
            names=names,
            text=text,
            refit=refit,
            progress=progress,
        )
        if report and group.rank == 0 and not result.folder.has_report():
            report_run(result.folder, catalog=result.catalog)
    return result
