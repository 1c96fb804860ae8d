"""``report_run``: the report of a run folder."""

from __future__ import annotations

from pathlib import Path

from cgmcr2.clustering.edits import moves_images
from cgmcr2.images import Catalog
from cgmcr2.report.projection import Method
from cgmcr2.report.report import write_report
from cgmcr2.runs.folder import RunFolder, StrPath


def report_run(
    run: StrPath | RunFolder,
    out: StrPath | None = None,
    *,
    images: StrPath | None = None,
    catalog: Catalog | None = None,
    map_method: Method = "auto",
) -> Path:
    """Write the report of a run folder and return its path.

    If the images cannot be found, the page shows file names and says why.

    Parameters
    ----------
    run : the run folder
    out : the page to write; default: ``report.html`` in the run folder
    images : new location of the images, if they were moved
    catalog : the images, if they are already listed; takes precedence over ``images``
    map_method : see :func:`cgmcr2.report.projection.project`
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    info, clustering = run.info, run.clustering
    note = ""
    if catalog is None:
        try:
            catalog = run.catalog(images)
        except (OSError, ValueError) as error:
            if images is not None:
                raise
            if info.encoder_name:  # the run was made from images
                note = f"Showing file names, because the images were not found: {error}"
    page = write_report(
        clustering,
        run.report if out is None else out,
        images=catalog,
        features=run.features(clustering.ids),
        metrics=run.read_metrics(),
        settings=info.values(),
        errors=run.read_errors(),
        levels=None if moves_images(run.fitted, clustering) else run.levels,
        source=Path(info.source).name,
        note=note,
        map_method=map_method,
    )
    if out is None:
        run.seal(["report.html"])
    return page
