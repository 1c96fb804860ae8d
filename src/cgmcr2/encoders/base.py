"""What every encoder is: an image in, a feature vector out, and a fingerprint that says which encoder it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # naming and listing encoders imports nothing heavy
    import numpy as np
    import numpy.typing as npt
    from PIL import Image


@runtime_checkable
class Encoder(Protocol):
    """A frozen image encoder.

    Attributes
    ----------
    name:
        What :func:`cgmcr2.encoders.load_encoder` takes to load this encoder again, its options included.
    dim:
        Length D of a feature vector.
    fingerprint:
        Hash of the weights and of the preprocessing, the same on every machine and wherever the weights are stored. It
        does not change with device or precision, whose effect on the features is far below that of another encoder.
    image_size:
        Shortest side in pixels that the encoder can make use of: larger JPEG files may be decoded at a fraction.
    """

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def image_size(self) -> int: ...

    def preprocess(self, image: Image.Image) -> npt.NDArray[Any]:
        """RGB image -> the array that :meth:`encode` takes for it, always of one shape; safe to call in threads."""
        ...

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Stacked outputs of :meth:`preprocess` (n, ...) -> features (n, D)."""
        ...
