"""Small pictures of the inputs, all in one image inside the page."""

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, features

LARGEST_SIDE = 48
COLUMNS = 25
MOST = 2_000
"""More inputs than this get no pictures: the page would grow too large to open."""
_SMALL_ENOUGH = 200_000  # bytes; a larger sheet would make up most of the page


@dataclass(frozen=True)
class Sprite:
    """One image that holds all thumbnails, row by row, as a data URI; sizes in its own pixels."""

    uri: str
    width: int
    height: int
    columns: int
    rows: int
    magnified: bool
    """Inputs of few pixels are shown enlarged, with their pixels visible."""


def make_sprite(inputs: NDArray[np.float32]) -> Sprite | None:
    """Thumbnails of (count, channels, height, width) or (count, height, width) inputs in [0, 1]; None for other inputs."""
    images = _as_images(inputs)
    if images is None or len(images) > MOST:
        return None
    height, width = images.shape[1:3]
    scale = min(1.0, LARGEST_SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    rows = -(-len(images) // COLUMNS)
    sheet = Image.new("RGB", (size[0] * min(COLUMNS, len(images)), size[1] * rows))
    for i, pixels in enumerate(images):
        image = Image.fromarray(pixels)
        sheet.paste(image if scale == 1 else image.resize(size, Image.Resampling.LANCZOS), _place(i, size))
    return Sprite(_data_uri(sheet), *size, columns=sheet.width // size[0], rows=rows, magnified=max(size) <= 16)


def _place(number: int, size: tuple[int, int]) -> tuple[int, int]:
    return number % COLUMNS * size[0], number // COLUMNS * size[1]


def _as_images(inputs: NDArray[np.float32]) -> NDArray[np.uint8] | None:
    """Bytes of shape (count, height, width, 3); None if the inputs are no images."""
    if inputs.ndim == 4 and inputs.shape[1] in (1, 3):
        channels_last = np.moveaxis(inputs, 1, -1)
    elif inputs.ndim == 3 and min(inputs.shape[1:]) > 3:
        channels_last = inputs[..., None]
    else:
        return None
    bright = np.round(np.clip(np.nan_to_num(channels_last), 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(bright, (*bright.shape[:3], 3)))


def _data_uri(sheet: Image.Image) -> str:
    """Exact if that is small, else with the loss of a photograph, which the eye does not see at this size."""
    exact = _encoded(sheet, "PNG", optimize=True)
    if len(exact) <= _SMALL_ENOUGH:
        return _uri("png", exact)
    if features.check("webp"):
        return _uri("webp", _encoded(sheet, "WEBP", quality=82, method=4))
    return _uri("jpeg", _encoded(sheet, "JPEG", quality=85))


def _encoded(sheet: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    sheet.save(file, form, **options)
    return file.getvalue()


def _uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
