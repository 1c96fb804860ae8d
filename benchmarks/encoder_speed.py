"""Images per second of the bundled encoder, compared with onnxruntime on the same network.

    python benchmarks/encoder_speed.py                            # 224 px, all cores
    python benchmarks/encoder_speed.py --size 160 --threads 1     # one core

Ratios are to the fastest configuration of onnxruntime. On a shared machine the ratio of CPU times is the fairer one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# As the command line does: waiting threads sleep instead of spinning. It must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch import nn

from cgmcr2.encoders.bundled import BundledEncoder, load_weights
from cgmcr2.encoders.efficientnet import BN_EPS, EfficientNetLite0

Batch = npt.NDArray[np.uint8]
Run = Callable[[Batch], npt.NDArray[np.float32]]


def normalized(batch: Batch) -> npt.NDArray[np.float32]:
    """Return uint8 (n, h, w, 3) as normalized float32 (n, 3, h, w), without optimisations."""
    return ((batch.astype(np.float32) - 127) / 128).transpose(0, 3, 1, 2).copy()


class PlainNetwork(nn.Module):
    """The network without optimisations: separate BatchNorm, padded copies, channels first, no in-place activations."""

    def __init__(self, state: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.state = state
        network = EfficientNetLite0(state)
        self.blocks = [*network.early, *network.late][1:-1]

    def conv(self, x: torch.Tensor, conv: str, norm: str, stride: int = 1, relu: bool = True) -> torch.Tensor:
        weight = self.state[f"{conv}.weight"]
        groups = len(weight) if weight.shape[1] == 1 else 1
        kernel = weight.shape[-1]
        low = (kernel - stride) // 2
        high = kernel - stride - low
        if low != high:
            x = nn.functional.pad(x, (low, high, low, high))
            low = 0
        x = nn.functional.conv2d(x, weight, None, stride, low, 1, groups)
        parts = [self.state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        x = nn.functional.batch_norm(x, *parts, eps=BN_EPS)
        return nn.functional.relu6(x) if relu else x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x, "_conv_stem", "_bn0", 2)
        for number, block in enumerate(self.blocks):
            prefix, y = f"_blocks.{number}", x
            if len(block.layers) == 3:
                y = self.conv(y, f"{prefix}._expand_conv", f"{prefix}._bn0")
            y = self.conv(y, f"{prefix}._depthwise_conv", f"{prefix}._bn1", block.layers[-2].stride)
            y = self.conv(y, f"{prefix}._project_conv", f"{prefix}._bn2", relu=False)
            x = x + y if block.residual else y
        return self.conv(x, "_conv_head", "_bn1").mean((2, 3))


def onnx_run(state: dict[str, torch.Tensor], size: int, threads: int, chunk: int, spin: bool = True) -> Run:
    """Export the plain network and run it with onnxruntime, ``chunk`` images at a time."""
    network = PlainNetwork(state).eval()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = str(Path(folder) / "lite0.onnx")
        example = torch.zeros(2, 3, size, size)
        axes = {"x": {0: "n"}, "y": {0: "n"}}
        torch.onnx.export(
            network, (example,), path, input_names=["x"], output_names=["y"], dynamic_axes=axes, dynamo=False
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spin)))
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(batch: Batch) -> npt.NDArray[np.float32]:
        parts = [batch[start : start + chunk] for start in range(0, len(batch), chunk)]
        return np.concatenate([session.run(None, {"x": normalized(part)})[0] for part in parts])

    return run


def plain_run(state: dict[str, torch.Tensor]) -> Run:
    network = PlainNetwork(state).eval()

    @torch.inference_mode()
    def run(batch: Batch) -> npt.NDArray[np.float32]:
        result: npt.NDArray[Any] = network(torch.from_numpy(normalized(batch))).numpy()
        return result

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=224, help="side of the images in pixels")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    batch = np.random.default_rng(0).integers(0, 256, (options.images, options.size, options.size, 3), dtype=np.uint8)
    state = load_weights()
    runs: dict[str, Run] = {
        "onnxruntime, batches of 1": onnx_run(state, options.size, options.threads, 1),
        "onnxruntime, batches of 8": onnx_run(state, options.size, options.threads, 8),
        "onnxruntime, 8, not spinning": onnx_run(state, options.size, options.threads, 8, spin=False),
        "torch, plain": plain_run(state),
        "bundled encoder": BundledEncoder(size=options.size, device="cpu").encode,
    }
    reference = runs["onnxruntime, batches of 8"](batch)
    wall = dict.fromkeys(runs, float("inf"))
    cpu = dict.fromkeys(runs, float("inf"))
    for round_number in range(options.rounds + 1):  # interleaved; the first round is a warm-up
        for name, run in runs.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            result = run(batch)
            if round_number:
                wall[name] = min(wall[name], time.perf_counter() - start)
                cpu[name] = min(cpu[name], time.process_time() - start_cpu)
            else:
                error = np.abs(result - reference).max()
                assert error < 1e-3, f"{name} differs from onnxruntime by {error}"

    fastest = min(wall[name] for name in runs if name.startswith("onnx"))
    fastest_cpu = min(cpu[name] for name in runs if name.startswith("onnx"))
    print(f"{options.size} px, {options.threads} threads, best of {options.rounds} rounds of {options.images} images")
    print(f"{'':32}{'images/s':>10}{'ratio':>16}{'CPU-time ratio':>16}")
    for name in runs:
        speed = options.images / wall[name]
        print(f"{name:32}{speed:10.1f}{fastest / wall[name]:16.2f}{fastest_cpu / cpu[name]:16.2f}")


if __name__ == "__main__":
    main()
