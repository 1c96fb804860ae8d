"""The report of a run folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

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
    """Write the report of a run folder to ``out`` (default: its ``report.html``) and return the path.

    The images are read from ``catalog`` if it is given, from ``images`` if they were moved, otherwise from where they
    were clustered. If they are not found, the page shows file names instead and says why.
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    note = ""
    if catalog is None:
        try:
            catalog = run.catalog(images)
        except (OSError, ValueError) as error:
            if images is not None:
                raise
            if run.store.is_dir():  # the run was made from images
                note = f"File names instead of pictures: {error}"
    clustering = run.clustering
    return write_report(
        clustering,
        run.report if out is None else out,
        images=catalog,
        features=run.features(clustering.ids),
        metrics=run.read_metrics(),
        settings={name: value for name, value in dataclasses.asdict(run.info).items() if value is not None},
        errors=run.read_errors(),
        source=Path(run.info.source).name,
        note=note,
        map_method=map_method,
    )
