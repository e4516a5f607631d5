"""Images prepared for embedding in a PDF: a JPEG unchanged, any other image without loss."""

import io
import struct
import zlib
from dataclasses import dataclass, replace

from PIL import Image

from app.reading.image.frame import ImageFrame, eight_bit, on_paper

_JPEG = frozenset({"JPEG", "MPO"})
_CHANNELS = {"1": 1, "L": 1, "P": 1, "I;16": 1, "RGB": 3, "CMYK": 4}
_SPACES = {1: "/DeviceGray", 3: "/DeviceRGB", 4: "/DeviceCMYK"}
_PROFILES = {b"GRAY": 1, b"RGB ": 3, b"CMYK": 4}
"""The colour space in an ICC profile's header → channels."""
_SIGNATURE = 8
"""Bytes before the first chunk of a PNG."""

ImageMatrix = tuple[float, float, float, float, float, float]

_TURNED: dict[int, ImageMatrix] = {
    1: (1, 0, 0, 1, 0, 0),
    2: (-1, 0, 0, 1, 1, 0),
    3: (-1, 0, 0, -1, 1, 1),
    4: (1, 0, 0, -1, 0, 1),
    5: (0, -1, -1, 0, 1, 1),
    6: (0, -1, 1, 0, 0, 1),
    7: (0, 1, 1, 0, 0, 0),
    8: (0, 1, -1, 0, 1, 0),
}
"""EXIF orientation → the matrix from the unit square of the image to that of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageXObject:
    """The data and the properties of an image in a PDF."""

    data: bytes
    filter: str
    width: int
    """Pixels as stored, before the orientation is applied."""
    height: int
    channels: int
    bits: int = 8
    orientation: int = 1
    """The EXIF orientation, 1 to 8."""
    predicted: bool = False
    """True if the data use PNG's predictors."""
    palette: bytes | None = None
    profile: bytes | None = None
    inverted: bool = False

    @property
    def colours(self) -> str:
        return _SPACES[self.channels if self.palette is None else 3]

    def placed(self, width: float, height: float) -> ImageMatrix:
        """The matrix that places the image on a page of that size."""
        a, b, c, d, e, f = _TURNED[self.orientation]
        return (a * width, b * height, c * width, d * height, e * width, f * height)


def xobject_of(frame: ImageFrame) -> ImageXObject:
    stored = frame.image
    if stored.format in _JPEG and stored.mode in _CHANNELS:
        xobject = ImageXObject(
            data=frame.file_bytes(),
            filter="/DCTDecode",
            width=stored.width,
            height=stored.height,
            channels=_CHANNELS[stored.mode],
            # Adobe began to store CMYK inverted, and all readers assume it.
            inverted=stored.mode == "CMYK",
        )
    else:
        image = _plain(stored)
        xobject = _raw(image) if image.mode == "CMYK" else _png(image)
    return replace(xobject, orientation=frame.orientation, profile=_profile(stored, xobject))


def _plain(image: Image.Image) -> Image.Image:
    """The image in a mode that PDF has, too."""
    if image.has_transparency_data:
        return on_paper(image)
    if image.mode in _CHANNELS:
        return image
    if image.mode.startswith(("I", "F")):
        return eight_bit(image)
    return image.convert("RGB")


def _raw(image: Image.Image) -> ImageXObject:
    return ImageXObject(
        data=zlib.compress(image.tobytes()),
        filter="/FlateDecode",
        width=image.width,
        height=image.height,
        channels=_CHANNELS[image.mode],
    )


def _png(image: Image.Image) -> ImageXObject:
    """The image as Pillow packs it for PNG, which packs pixels as PDF does."""
    written = io.BytesIO()
    image.save(written, "PNG")
    content = written.getbuffer()
    data, palette, bits = [], None, 8
    at = _SIGNATURE
    while at < len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        chunk = content[at + 8 : at + 8 + length]
        match kind:
            case b"IHDR":
                bits = chunk[8]
            case b"PLTE":
                palette = bytes(chunk)
            case b"IDAT":
                data.append(chunk)
            case _:
                pass
        at += length + 12
    return ImageXObject(
        data=b"".join(data),
        filter="/FlateDecode",
        width=image.width,
        height=image.height,
        bits=bits,
        channels=_CHANNELS[image.mode],
        predicted=True,
        palette=palette,
    )


def _profile(stored: Image.Image, xobject: ImageXObject) -> bytes | None:
    profile = stored.info.get("icc_profile")
    if not isinstance(profile, bytes) or xobject.palette is not None:
        return None
    return profile if _PROFILES.get(profile[16:20]) == xobject.channels else None
