"""Training time in bfloat16 relative to float32, by the width of the hidden layers.

    python benchmarks/precision.py

Both precisions are measured alternately in one run. A ratio below 1 means that bfloat16 is faster.
"""

from __future__ import annotations

import dataclasses
import statistics
import time

import numpy as np
import torch

from cgmcr2._device import supports_bfloat16
from cgmcr2.training import resolve, train


def main() -> None:
    print(f"bfloat16 in hardware: {supports_bfloat16(torch.device('cpu'))}, {torch.get_num_threads()} threads")
    X = np.random.default_rng(0).standard_normal((4096, 384)).astype(np.float32)
    for width in (256, 1024, 4096):
        settings = dataclasses.replace(
            resolve("paper", len(X), 10, X.shape[1]), hidden_dim=width, warmup_epochs=1, finetune_epochs=1
        )
        seconds: dict[str, list[float]] = {"float32": [], "bfloat16": []}
        for _ in range(3):
            for precision, times in seconds.items():
                start = time.perf_counter()
                train(X, 10, settings, precision=precision)
                times.append(time.perf_counter() - start)
        medians = {precision: statistics.median(times) for precision, times in seconds.items()}
        ratio = medians["bfloat16"] / medians["float32"]
        shown = ", ".join(f"{precision} {median:.2f} s" for precision, median in medians.items())
        print(f"width {width}: {shown}, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
