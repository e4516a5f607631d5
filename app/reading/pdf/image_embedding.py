"""An image as PDF can embed it: a JPEG as it is, anything else without loss."""

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
"""The colour space that an ICC profile names in its header → channels."""
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
"""EXIF orientation → how the square that PDF puts an image on lies on the square of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageXObject:
    data: bytes
    filter: str
    width: int
    """Pixels as stored, before they are turned."""
    height: int
    channels: int
    bits: int = 8
    orientation: int = 1
    """The EXIF orientation."""
    predicted: bool = False
    """By PNG's predictors."""
    palette: bytes | None = None
    profile: bytes | None = None
    inverted: bool = False

    @property
    def colours(self) -> str:
        return _SPACES[self.channels if self.palette is None else 3]

    def placed(self, width: float, height: float) -> ImageMatrix:
        """On a page of that size."""
        a, b, c, d, e, f = _TURNED[self.orientation]
        return (a * width, b * height, c * width, d * height, e * width, f * height)


def image_xobject(frame: ImageFrame) -> ImageXObject:
    stored = frame.image
    if stored.format in _JPEG and stored.mode in _CHANNELS:
        plate = ImageXObject(
            data=frame.file_bytes(),
            filter="/DCTDecode",
            width=stored.width,
            height=stored.height,
            channels=_CHANNELS[stored.mode],
            # As Adobe began it, and all that read them assume.
            inverted=stored.mode == "CMYK",
        )
    else:
        image = _plain(stored)
        plate = _raw(image) if image.mode == "CMYK" else _png(image)
    return replace(plate, orientation=frame.orientation, profile=_profile(stored, plate))


def _plain(image: Image.Image) -> Image.Image:
    """In a mode that PDF has as well."""
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
    """PNG and PDF pack pixels in the same way: what Pillow writes for one is taken for the other."""
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


def _profile(stored: Image.Image, plate: ImageXObject) -> bytes | None:
    profile = stored.info.get("icc_profile")
    if not isinstance(profile, bytes) or plate.palette is not None:
        return None
    return profile if _PROFILES.get(profile[16:20]) == plate.channels else None
