"""The architecture diagrams as SVG. Every file named in them exists: ``tests/test_docs.py`` checks it."""

from __future__ import annotations

from html import escape

FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, MUTED, LINE, FILE = "#1a1a1a", "#5f6368", "#8a8f98", "#8a4b00"
DATA, MODULE, LATER = "#e8f1fb", "#fdf1dc", "#f1f3f4"  # fill of data, of code, of what is optional

# data, the packages that compute it with their main files, what to change there
FLOW: list[tuple[str, dict[str, str], str]] = [
    ("image files", {}, ""),
    ("pixels", {"images": "catalog.py, sources.py, decode.py, batches.py"}, "Add a file format or an archive type."),
    (
        "features X (n, D)",
        {"encoders": "registry.py, bundled.py, vit.py, onnx.py", "features": "extract.py, store.py, sources.py"},
        "Add an encoder. Change how features are stored.",
    ),
    (
        "initial partition (n,)",
        {"consensus": "views.py, ensemble.py, choose_k.py", "graphs": "knn.py, walk.py, spectral.py"},
        "Change how the first clusters, or k, are found.",
    ),
    (
        "trained network",
        {
            "training": "settings.py, presets.py, loop.py, step.py",
            "objectives": "coding_rate.py, normalized_cut.py, cgmcr2.py",
            "model": "network.py, membership.py",
        },
        "Add a setting, a term of the loss, a layer.",
    ),
    (
        "labels, Pi (n, k), Z (n, d)",
        {"estimator.py": "", "inference.py": "", "description.py": ""},
        "Change CgMCR2, the scikit-learn interface.",
    ),
    (
        "Clustering",
        {"clustering": "clustering.py, geometry.py, io.py, export.py, tables.py"},
        "Change names, merges, outliers, exports.",
    ),
    ("run folder", {"runs": "folder.py, info.py, fit.py, predict.py, onnx.py"}, "Add a file to the run folder."),
    (
        "report.html",
        {"report": "report.py, about.py, projection.py", "page": "data.py, shell.py, assets/page.html"},
        "Change the page.",
    ),
]
BESIDE = [
    ("cli", "one file per command"),
    ("pipeline.py", "images to run folder and page"),
    ("datasets", "the paper's nine data sets"),
    ("baselines", "the methods to compare with"),
    ("evaluation", "ACC, NMI, ARI, protocol"),
    ("experiments", "compare, reproduce, tune"),
]

# file, content, written by, read by; grouped by the stage of the run
RUN_FOLDER = [
    (
        "before training",
        [
            ("features/", "the feature store: one row per image", "features/extract.py", "training, predict, report"),
            ("errors.csv", "unreadable images, with the reason", "features/store.py", "you"),
            ("duplicates.json", "groups of near-duplicates", "features/duplicates.py", "a resumed run, doctor"),
            ("choice.json", "how k was chosen (-k auto)", "consensus/choose_k.py", "a repeated -k auto"),
            ("run.json", "request, settings, versions, protocol", "runs/info.py", "every later command"),
            (".lock", "keeps a second process from writing", "runs/folder.py", "commands that write"),
        ],
    ),
    (
        "during training",
        [
            ("precomputed.safetensors", "partition, neighbours, views *", "training/checkpoint.py", "a resumed run"),
            ("checkpoint.safetensors", "weights, optimiser, step *", "training/checkpoint.py", "a resumed run"),
            ("metrics.jsonl", "the terms of the loss, one line per step", "training/log.py", "report"),
        ],
    ),
    (
        "result",
        [
            ("model/", "weights and configuration", "model/weights.py", "predict, evaluate, CgMCR2.load"),
            ("model/levels.json", "coarser and finer clusters (-k auto)", "model/levels.py", "predict, export, report"),
            ("labels.csv", "cluster and confidence of each image", "clustering/io.py", "you, export, report"),
            ("clusters.csv, clusters.json", "summary; names and merges", "clustering/io.py", "you, predict, report"),
            ("embeddings.npy, probabilities.npy", "Z (n, d) and Pi (n, k)", "clustering/io.py", "report, Clustering"),
            ("report.html", "the page", "report/report.py", "your browser"),
            ("checksums.json", "size and hash of each file", "_checksums.py", "every later command"),
        ],
    ),
]


def all_diagrams() -> dict[str, str]:
    """The diagrams by name, as SVG."""
    return {"data-flow": data_flow(), "run-folder": run_folder(), "training-step": training_step()}


def named_files() -> set[str]:
    """The files and packages of ``cgmcr2`` that the diagrams name."""
    files = {name for name, _ in BESIDE}
    for _, packages, _ in FLOW:
        files.update(packages)
        files.update(f"{package}/{name}" for package, names in packages.items() if names for name in names.split(", "))
    files.update(writer for _, rows in RUN_FOLDER for _, _, writer, _ in rows)
    return files | {file for *_, file in STEP_BOXES}


def data_flow() -> str:
    """From image files to the page: the data on the left, the code that makes it in the middle."""
    pill, step = 40, 92
    svg = _Svg(1010, 60 + step * len(FLOW) + 90)
    for x, title in ((125, "data"), (480, "code, in src/cgmcr2"), (835, "what you would change there")):
        svg.text(x, 28, title, size=14, fill=MUTED)
    for row, (data, packages, change) in enumerate(FLOW):
        y = 46 + row * step
        svg.box(20, y, 210, pill, DATA, radius=20)
        svg.text(125, y + 25, data, size=14, bold=True)
        if not packages:
            continue
        middle = y - (step - pill) / 2
        svg.arrow([(125, y - step + pill), (125, y)])
        svg.line(125, middle, 280, middle)
        height = 18 + 20 * len(packages)
        svg.box(280, middle - height / 2, 410, height, MODULE)
        for i, (package, files) in enumerate(packages.items()):
            base = middle + 5 + 20 * (i - (len(packages) - 1) / 2)
            name = package if package.endswith(".py") else f"{package}/"
            svg.text(292, base, name, size=13.5, bold=True, anchor="start")
            svg.text(384, base, files, size=12, anchor="start")
        svg.text(706, middle + 5, change, size=13, anchor="start")
    y = 40 + step * len(FLOW)
    svg.text(20, y + 8, "Beside the flow", size=14, fill=MUTED, anchor="start")
    for i, (name, job) in enumerate(BESIDE):
        x = 20 + (i % 3) * 328
        top = y + 20 + (i // 3) * 38
        svg.box(x, top, 314, 30, LATER)
        svg.text(x + 10, top + 20, name if name.endswith(".py") else f"{name}/", size=13, bold=True, anchor="start")
        svg.text(x + 112, top + 20, job, size=12, anchor="start")
    return svg.done("Data flow of cgmcr2 from image files to the report page")


def run_folder() -> str:
    """The files of a run folder in the order in which they are written."""
    line, gap = 34, 18
    rows = sum(len(files) for _, files in RUN_FOLDER)
    svg = _Svg(1010, 60 + rows * line + gap * len(RUN_FOLDER) + 20)
    for x, title in ((120, "file"), (365, "content"), (645, "written by"), (815, "read by")):
        svg.text(x, 30, title, size=14, fill=MUTED, anchor="start")
    y = 44.0
    for stage, files in RUN_FOLDER:
        height = len(files) * line
        svg.box(10, y, 990, height + 6, LATER if stage == "before training" else DATA)
        words = stage.split()
        for i, word in enumerate(words):
            svg.text(62, y + height / 2 + 8 + (i - (len(words) - 1) / 2) * 18, word, size=13, fill=MUTED)
        for i, (name, content, writer, reader) in enumerate(files):
            base = y + 24 + i * line
            svg.text(120, base, name, size=12.5, bold=True, anchor="start")
            svg.text(365, base, content, size=12.5, anchor="start")
            svg.text(645, base, writer, size=12.5, anchor="start", fill=FILE)
            svg.text(815, base, reader, size=12.5, anchor="start")
        y += height + gap
    svg.text(20, y + 8, "* deleted when the run is finished", size=12, fill=MUTED, anchor="start")
    return svg.done("The files of a run folder, what writes them and what reads them")


# x, y, width, fill, title, second line, file
STEP_BOXES = [
    (20, 50, 200, MODULE, "draw rows", "(seed, step) decides", "training/batches.py"),
    (270, 50, 200, MODULE, "read X (n, D)", "one step ahead", "training/reader.py"),
    (520, 50, 200, MODULE, "network", "X to Z (n, d), logits (h, n, k)", "model/network.py"),
    (770, 50, 200, MODULE, "memberships Pi (h, n, k)", "softmax or Gumbel-softmax", "training/cluster_modules.py"),
    (20, 210, 200, DATA, "-R(Z)", "both stages", "objectives/coding_rate.py"),
    (270, 210, 200, DATA, "Rc(Z, Pi)", "fine-tuning only", "objectives/cluster_coding_rate.py"),
    (520, 210, 200, DATA, "Lncut(Pi; A)", "both stages", "objectives/normalized_cut.py"),
    (770, 210, 200, LATER, "cross-entropy", "to the consensus, auto only", "training/guide.py"),
    (520, 340, 200, LATER, "A: affinity of the batch", "paper (reference: released.py)", "objectives/affinity.py"),
    (770, 340, 200, LATER, "A: neighbours in all data", "auto", "training/neighbour_graph.py"),
    (20, 480, 200, MODULE, "loss, backward, Adam", "skipped if not finite", "training/step.py"),
    (270, 480, 200, MODULE, "state", "average of the weights", "training/state.py"),
    (520, 480, 200, MODULE, "running figures", "loss of each head, live clusters", "training/monitor.py"),
    (770, 480, 200, MODULE, "every 20 steps", "log, collapse check", "training/loop.py"),
]


def training_step() -> str:
    """One step: from rows to memberships, from terms to the loss, from the update to the log."""
    svg = _Svg(1000, 575)
    for y, title in ((32, "1  forward"), (192, "2  terms of the loss"), (462, "3  update and record")):
        svg.text(20, y, title, size=14, fill=MUTED, anchor="start")
    for x, y, width, fill, title, detail, file in STEP_BOXES:
        svg.box(x, y, width, 80, fill)
        svg.text(x + width / 2, y + 25, title, size=14, bold=True)
        svg.text(x + width / 2, y + 45, detail, size=12)
        svg.text(x + width / 2, y + 66, file, size=11.5, fill=FILE)
    for y in (90, 520):
        for x in (220, 470, 720):
            svg.arrow([(x, y), (x + 50, y)])
    svg.arrow([(620, 130), (620, 160), (190, 160), (190, 210)])  # Z
    svg.arrow([(620, 160), (350, 160), (350, 210)])
    svg.text(628, 148, "Z", size=13, anchor="start")
    svg.arrow([(870, 130), (870, 178), (620, 178), (620, 210)])  # Pi
    svg.arrow([(870, 178), (390, 178), (390, 210)])
    svg.text(878, 148, "Pi", size=13, anchor="start")
    svg.arrow([(720, 112), (745, 112), (745, 195), (870, 195), (870, 210)])  # logits
    svg.text(738, 148, "logits", size=13, anchor="end")
    svg.arrow([(620, 340), (620, 290)])  # A
    svg.arrow([(770, 380), (745, 380), (745, 316), (660, 316), (660, 290)])
    svg.text(612, 312, "A", size=13, anchor="end")
    svg.line(120, 290, 120, 445)
    svg.line(370, 290, 370, 445)
    svg.arrow([(520, 250), (495, 250), (495, 445)], head=False)
    svg.arrow([(970, 250), (985, 250), (985, 445)], head=False)
    svg.arrow([(985, 445), (120, 445)], head=False)
    svg.arrow([(190, 445), (190, 480)])
    svg.text(200, 468, "sum = loss", size=13, anchor="start")
    return svg.done("One training step")


class _Svg:
    """A picture under construction."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height, self.parts = width, height, list[str]()

    def box(self, x: float, y: float, width: float, height: float, fill: str, radius: float = 6) -> None:
        self.parts.append(
            f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='{radius}' fill='{fill}' stroke='{LINE}'/>"
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 13,
        bold: bool = False,
        fill: str = INK,
        anchor: str = "middle",
    ) -> None:
        weight = " font-weight='bold'" if bold else ""
        style = f"font-size='{size}' fill='{fill}' text-anchor='{anchor}'{weight}"
        self.parts.append(f"<text x='{x}' y='{y}' {style}>{escape(words)}</text>")

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{LINE}' stroke-width='1.5'/>")

    def arrow(self, points: list[tuple[float, float]], *, head: bool = True) -> None:
        marker = " marker-end='url(#head)'" if head else ""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(f"<polyline points='{path}' fill='none' stroke='{LINE}' stroke-width='1.5'{marker}/>")

    def done(self, title: str) -> str:
        head = (
            "<defs><marker id='head' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='8' markerHeight='8' "
            f"orient='auto'><path d='M0,0 L10,5 L0,10 z' fill='{LINE}'/></marker></defs>"
        )
        body = "\n".join(["<rect width='100%' height='100%' fill='#ffffff'/>", *self.parts])
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' {FONT} role='img'>\n"
            f"<title>{escape(title)}</title>\n{head}\n{body}\n</svg>\n"
        )
