"""Axes, marks and legends of SVG charts; colours and font sizes are in the style sheet."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from calibrant.presentation import TYPOGRAPHIC, Markup, element, has_value, joined

__all__ = [
    "Plot",
    "Scale",
    "bounds",
    "chart",
    "legend",
    "marker",
    "path",
    "series_swatch",
    "tick_text",
    "tick_texts",
    "ticks_between",
]

Point = tuple[float | None, float | None]

# At this width one unit is about one pixel if two charts are side by side; a phone shrinks it by a quarter.
WIDTH = 440.0
WIDEST_DIGIT = 8.2
"""Character width of the larger text on phones."""


@dataclass(frozen=True)
class Scale:
    """Linear or logarithmic scale from values to pixels, clipped at both ends."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        value = min(max(value, low), high)
        if self.logarithmic:
            value, low, high = log10(value), log10(low), log10(high)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True)
class Plot:
    """The plot area with its two scales."""

    x: Scale
    y: Scale

    @classmethod
    def of(
        cls,
        x_bounds: tuple[float, float],
        y_bounds: tuple[float, float],
        *,
        left: float | None = None,
        top: float = 12,
        right: float = WIDTH - 12,
        height: float = 230,
        logarithmic: bool = False,
    ) -> "Plot":
        """Return a plot area from data bounds and a position, by default with room for the labels of the vertical axis."""
        if left is None:
            texts = tick_texts(ticks_between(*y_bounds))
            left = 28 + WIDEST_DIGIT * max(len(text) for text in texts)
        return cls(
            Scale(*x_bounds, left, right, logarithmic), Scale(*y_bounds, top + height, top, logarithmic=False)
        )

    def frame(
        self,
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        x_title: str,
        y_title: str,
        *,
        write_x: Callable[[float], str] | None = None,
    ) -> Markup:
        """Return the grid, ticks and titles of both axes."""
        left, right, bottom = self.x.start, self.x.end, self.y.start
        x_texts = [write_x(tick) for tick in x_ticks] if write_x else tick_texts(x_ticks)
        pieces = [element("path", class_="axis", d=f"M{left:.0f} {bottom:.1f}H{right:.0f}")]
        if y_ticks:
            pieces.insert(0, self.grid(y_ticks))
        pieces += [
            element("text", text, class_="tick", x=self.x(tick), y=bottom + 18, text_anchor="middle")
            for tick, text in zip(x_ticks, x_texts, strict=True)
        ]
        pieces += self.labels_beside(y_ticks)
        pieces.append(
            element(
                "text", x_title, class_="title", x=(left + right) / 2, y=bottom + 38, text_anchor="middle"
            )
        )
        if y_title:
            pieces.append(self.title_beside(y_title))
        return joined(*pieces)

    def grid(self, ticks: Iterable[float]) -> Markup:
        """Return horizontal lines at these values."""
        left, right = self.x.start, self.x.end
        return element(
            "path", class_="grid", d=" ".join(f"M{left:.0f} {self.y(tick):.1f}H{right:.0f}" for tick in ticks)
        )

    def diagonal(self) -> Markup:
        """Return the line from the lower left to the upper right corner."""
        start, end = f"M{self.x.start:.1f} {self.y.start:.1f}", f"L{self.x.end:.1f} {self.y.end:.1f}"
        return element("path", class_="diagonal", d=start + end)

    def labels_beside(self, ticks: Sequence[float]) -> list[Markup]:
        """Return the tick labels of the vertical axis."""
        return [
            element("text", text, class_="tick", x=self.x.start - 7, y=self.y(tick) + 4, text_anchor="end")
            for tick, text in zip(ticks, tick_texts(ticks), strict=True)
        ]

    def title_beside(self, title: str) -> Markup:
        """Return the title of the vertical axis."""
        turned = f"translate(13 {(self.y.end + self.y.start) / 2:.1f}) rotate(-90)"
        return element("text", title, class_="title", transform=turned, text_anchor="middle")

    def line(self, points: Iterable[Point], class_: str) -> Markup:
        """Return a line through points, with a gap at missing values."""
        return element("path", class_=class_, d=path([self.place(point) for point in points]))

    def band(
        self,
        xs: Sequence[float | None],
        low: Sequence[float | None],
        high: Sequence[float | None],
        class_: str,
    ) -> Markup:
        """Return the area between two lines where both have values."""
        known = [
            (x, a, b)
            for x, a, b in zip(xs, low, high, strict=True)
            if has_value(x) and has_value(a) and has_value(b)
        ]
        if len(known) < 2:
            return Markup()
        outline = [(x, b) for x, _, b in known] + [(x, a) for x, a, _ in reversed(known)]
        return element("path", class_=class_, d=path([self.place(point) for point in outline]) + "Z")

    def place(self, point: Point) -> tuple[float, float] | None:
        """Return the pixels of a point, None if a value is missing."""
        x, y = point
        return (self.x(x), self.y(y)) if has_value(x) and has_value(y) else None


def chart(
    title: str, description: str, height: float, *content: str, width: float = WIDTH, class_: str = ""
) -> Markup:
    """Return a scalable SVG with a title and a description for screen readers."""
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *content,
        class_=f"chart {class_}".strip(),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
    )


def path(points: Sequence[tuple[float, float] | None]) -> str:
    """Return SVG path commands of a line; points on the same pixel as the previous one are dropped.

    >>> path([(0.0, 0.0), (0.01, 0.0), (5.0, 2.0), None, (7.0, 7.0)])
    'M0 0L5 2M7 7'
    """
    written: list[str] = []
    before, pen = "", "M"
    for point in points:
        if point is None:
            before, pen = "", "M"
            continue
        here = f"{round(point[0], 1):g} {round(point[1], 1):g}"
        if here != before:
            written.append(f"{pen}{here}")
            before, pen = here, "L"
    return "".join(written)


def marker(shape: str, x: float, y: float, size: float, class_: str) -> Markup:
    """Return a circle, square, triangle or diamond at a point; shapes distinguish series without colours."""
    if shape == "circle":
        return element("circle", class_=class_, cx=x, cy=y, r=size)
    if shape == "square":
        return element(
            "rect", class_=class_, x=x - 0.9 * size, y=y - 0.9 * size, width=1.8 * size, height=1.8 * size
        )
    if shape == "triangle":
        corners = f"M{x:.1f} {y - 1.2 * size:.1f}l{1.15 * size:.1f} {2 * size:.1f}h{-2.3 * size:.1f}Z"
    else:
        half = 1.3 * size
        corners = (
            f"M{x:.1f} {y - half:.1f}l{half:.1f} {half:.1f}l{-half:.1f} {half:.1f}l{-half:.1f} {-half:.1f}Z"
        )
    return element("path", class_=class_, d=corners)


def series_swatch(shape: str, class_: str) -> Markup:
    """Return a line with a marker, for a legend."""
    line = element("path", class_="line", d="M0 7H28")
    return element("g", line, marker(shape, 14.0, 7.0, 4.0, "mark"), class_=class_)


def legend(*entries: tuple[str, str]) -> Markup:
    """Return a legend; an entry is a swatch (SVG content, 28 x 14) and its label."""
    return element(
        "ul",
        *(
            element(
                "li",
                element(
                    "svg",
                    swatch,
                    class_="swatch",
                    viewBox="0 0 28 14",
                    width=28,
                    height=14,
                    aria_hidden="true",
                ),
                text,
            )
            for swatch, text in entries
        ),
        class_="legend",
    )


def bounds(*series: Iterable[float | None], zero: bool = False, margin: float = 0.06) -> tuple[float, float]:
    """Return the range of all values with a margin; a range of length one around a constant."""
    known = [value for values in series for value in values if has_value(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            return 0.0, 1.0
    room = margin * (high - low) if high > low else max(abs(high), 1.0) / 2
    return (low if zero and low == 0 else low - room), (high if zero and high == 0 else high + room)


def ticks_between(low: float, high: float, at_most: int = 6) -> list[float]:
    """Return round tick values with steps of 1, 2 or 5 times a power of ten.

    >>> ticks_between(0, 1), ticks_between(-0.03, 0.011, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [-0.02, 0.0])
    """
    width = high - low
    magnitude = 10.0 ** floor(log10(width / at_most))
    step = next(m * magnitude for m in (1, 2, 5, 10, 20) if width / (m * magnitude) <= at_most + 1e-9)
    first = ceil(low / step - 1e-9)
    last = floor(high / step + 1e-9)
    return [round(index * step, 12) + 0.0 for index in range(first, last + 1)]


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Return the ticks as text, all with the same number of decimals."""
    n_decimals = max((len(f"{tick:.6f}".rstrip("0").split(".")[1]) for tick in ticks), default=0)
    return [tick_text(tick, n_decimals) for tick in ticks]


def tick_text(tick: float, n_decimals: int) -> str:
    """Return a tick as text with a typographic minus sign.

    >>> tick_text(-0.5, 2)
    '−0.50'
    """
    return f"{tick:,.{n_decimals}f}".replace("-", TYPOGRAPHIC.minus)
