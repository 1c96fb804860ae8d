"""The protocols of encoders of images, and of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # listing encoders must not import large packages
    import numpy as np
    import numpy.typing as npt
    from PIL import Image


@runtime_checkable
class Encoder(Protocol):
    """A frozen image encoder.

    Attributes
    ----------
    name : str
        Name with options, from which :func:`cgmcr2.encoders.load_encoder` loads this encoder again.
    dim : int
        Number of features D.
    fingerprint : str
        Hash of weights and preprocessing, equal on every machine. It does not depend on device and precision, whose
        effect on the features is small.
    image_size : int
        Shorter side in pixels that the encoder needs; larger JPEG files may be decoded at reduced size.
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
        """Convert an RGB image to an input of :meth:`encode`; all inputs have the same shape. Must be thread-safe."""
        ...

    def encode(self, batch: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the features (n, D) of stacked outputs (n, ...) of :meth:`preprocess`."""
        ...


@runtime_checkable
class TextEncoder(Protocol):
    """An encoder of text, such as CLIP's, whose embeddings are comparable to image features by cosine similarity."""

    def encode_text(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Return the embeddings (m, D) of m texts."""
        ...


def reads_text(encoder: object) -> bool:
    """Return whether an encoder also embeds text: it has ``encode_text``, and no ``reads_text`` that is false.

    >>> from cgmcr2.encoders import load_encoder
    >>> reads_text(load_encoder("bundled", size=32))
    False
    """
    return isinstance(encoder, TextEncoder) and bool(getattr(encoder, "reads_text", True))
