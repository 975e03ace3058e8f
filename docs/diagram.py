"""The drawing of how recert works, as SVG, from the numbers of one input. docs/make_pictures.py calls it."""

from dataclasses import dataclass
from html import escape

import numpy as np

WIDTH, HEIGHT = 860, 392
MOST_DOTS = 12


@dataclass(frozen=True)
class Palette:
    ink: str
    faint: str  # lines, and squares of votes that are not replayed
    paper: str
    first: str  # votes for the class
    other: str  # votes for other classes
    flip: str


LIGHT = Palette(ink="#1f2328", faint="#d0d7de", paper="#ffffff", first="#0969da", other="#9a6700", flip="#cf222e")
DARK = Palette(ink="#e6edf3", faint="#3d444d", paper="#0d1117", first="#4493f8", other="#d29922", flip="#ff7b72")


@dataclass(frozen=True)
class Story:
    """One input and what was found for it: all numbers of the drawing."""

    pixels: np.ndarray  # of the image, rows x columns, in [0, 1]
    name: str  # of the class
    samples: int
    votes: int  # for the class, of `samples`
    first_passes: int  # with those that chose the class
    radius: float
    change: str  # what was done to the network
    passes: int
    flips: int
    new_radius: float


def drawing(story: Story, palette: Palette) -> str:
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        'font-family="-apple-system, BlinkMacSystemFont, Segoe UI, Helvetica, Arial, sans-serif" font-size="15">',
        f"<title>{escape(summary(story))}</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{palette.ink}"/></marker></defs>',
        *lane(18, "Once, for the original network", palette),
        *lane(212, "After each change: only a few of the same noisy copies", palette),
        *image(24, 58, story, palette),
        *arrow((106, 106), (180, 106), palette),
        *box(186, 76, 122, 60, ["original", "network"], palette),
        *arrow((308, 106), (382, 106), palette),
        *squares(390, 56, replayed_only=False, story=story, palette=palette),
        *text(390, 180, f"{story.votes:,} of {story.samples:,} votes for “{story.name}”, kept in the cache", palette),
        *arrow((626, 106), (690, 106), palette),
        *result(700, 106, f"radius {story.radius:.3f}", f"{story.first_passes:,} passes", palette),
        *image(24, 252, story, palette, "the same noise"),
        *arrow((106, 300), (180, 300), palette),
        *box(186, 270, 122, 60, [story.change, "network"], palette),
        *arrow((308, 300), (382, 300), palette),
        *squares(390, 250, replayed_only=True, story=story, palette=palette),
        *flips(390, 374, story, palette),
        *stored((566, 190), (566, 244), palette),
        *arrow((626, 300), (690, 300), palette),
        *result(700, 300, f"radius {story.new_radius:.3f}", f"{story.passes:,} passes", palette),
        "</svg>\n",
    ])  # fmt: skip


def summary(story: Story) -> str:
    return (
        f"How recert works, for one image. Once: {story.samples:,} noisy copies through the original network; {story.votes:,} votes for one class "
        f"are kept and give a radius of {story.radius:.3f}. After each change: {story.passes:,} of the same copies through the changed network; "
        f"{counted(story.flips)}, which gives a radius of {story.new_radius:.3f}."
    )


def lane(y: int, title: str, palette: Palette) -> list[str]:
    return [f'<text x="24" y="{y + 14}" fill="{palette.ink}" font-weight="600" font-size="16">{escape(title)}</text>']


def image(x: int, y: int, story: Story, palette: Palette, below: str = "image + noise") -> list[str]:
    """The input in front of its noisy copies, drawn as sheets behind it."""
    rows, columns = story.pixels.shape
    size = 64 / max(rows, columns)
    sheets = [
        f'<rect x="{x + 6 * i}" y="{y + 24 - 6 * i}" width="64" height="64" fill="{palette.paper}" stroke="{palette.ink}" stroke-opacity=".5"/>'
        for i in (2, 1, 0)
    ]
    pixels = [
        f'<rect x="{x + c * size:g}" y="{y + 24 + r * size:g}" width="{size:g}" height="{size:g}" fill="{palette.ink}" '
        f'fill-opacity="{story.pixels[r, c]:.2f}"/>'
        for r in range(rows)
        for c in range(columns)
        if story.pixels[r, c] > 0.02
    ]
    return [*sheets, *pixels, *text(x, y + 122, below, palette)]


def box(x: int, y: int, width: int, height: int, lines: list[str], palette: Palette) -> list[str]:
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="none" stroke="{palette.ink}" stroke-width="1.5"/>',
        *(
            f'<text x="{x + width / 2:g}" y="{y + 27 + 19 * i}" fill="{palette.ink}" text-anchor="middle">{escape(line)}</text>'
            for i, line in enumerate(lines)
        ),
    ]


def squares(x: int, y: int, *, replayed_only: bool, story: Story, palette: Palette) -> list[str]:
    """One square for every hundredth of the votes; those that are replayed are filled in, the others only outlined."""
    first = round(100 * story.votes / story.samples)
    shown = max(1, round(100 * story.passes / story.samples)) if replayed_only else 100
    found = []
    for i in range(100):
        fill = (palette.first if i < first else palette.other) if i < shown else "none"
        left, top = x + 11.5 * (i % 20), y + 20 * (i // 20)
        found.append(
            f'<rect x="{left:g}" y="{top:g}" width="9" height="16" rx="1.5" fill="{fill}" '
            f'stroke="{palette.faint if fill == "none" else fill}"/>'
        )
    return found


def flips(x: int, y: int, story: Story, palette: Palette) -> list[str]:
    """A dot for every vote that differs, where they are few, and the sentence behind them."""
    dots = story.flips if story.flips <= MOST_DOTS else 0
    drawn = [f'<circle cx="{x + 5 + 14 * i}" cy="{y - 5}" r="5" fill="{palette.flip}"/>' for i in range(dots)]
    return [
        *drawn,
        *text(
            x + 14 * dots + 4 * (dots > 0),
            y,
            f"{counted(story.flips)} from the cached ones, of {story.passes:,}",
            palette,
        ),
    ]


def stored(start: tuple[int, int], end: tuple[int, int], palette: Palette) -> list[str]:
    """What the second lane takes from the first."""
    return [
        *arrow(start, end, palette),
        *text(start[0] + 12, (start[1] + end[1]) // 2 + 2, "noise and votes from the cache", palette),
    ]


def counted(flips: int) -> str:
    return "1 vote differs" if flips == 1 else f"{flips} votes differ"


def text(x: float, y: float, line: str, palette: Palette) -> list[str]:
    return [f'<text x="{x:g}" y="{y:g}" fill="{palette.ink}">{escape(line)}</text>']


def arrow(start: tuple[int, int], end: tuple[int, int], palette: Palette) -> list[str]:
    return [
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{palette.ink}" stroke-width="1.5" marker-end="url(#tip)"/>'
    ]


def result(x: int, y: int, radius: str, passes: str, palette: Palette) -> list[str]:
    return [
        f'<text x="{x}" y="{y - 4}" fill="{palette.ink}" font-weight="600" font-size="18">{escape(radius)}</text>',
        f'<text x="{x}" y="{y + 18}" fill="{palette.ink}">{escape(passes)}</text>',
    ]
