"""PictureOptions: what a recipe says about a figure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from calibrant.errors import RecipeError
from calibrant.studies.schema import NamesOrOne, check_measures, check_name, parsed

__all__ = [
    "KINDS",
    "Axes",
    "Bars",
    "Chosen",
    "CriticalDifference",
    "FittedMaps",
    "Lines",
    "Measures",
    "PassRate",
    "PictureOptions",
    "Probabilities",
    "Series",
]


SELECTING = {
    **{label: label for label in ("trial", "data", "classifier", "calibrator", "repeat", "fold")},
    "calibrators": "calibrator",
}
"""Options that select units -> the label whose values they are."""


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """The keys of every figure in a recipe; the guide on recipes explains each, and those of the kinds below."""

    name: str
    kind: str
    title: str = ""
    source: str = ""
    note: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def parse(entry: Mapping[str, Any], measures: Collection[str] | None = None) -> "PictureOptions":
        """Check a figure of a recipe, and return the options of its kind.

        Parameters
        ----------
        entry : mapping
            The figure.
        measures : collection of str, optional
            Names of the measures; None if there are trials, which can return any.

        Raises
        ------
        RecipeError
            If a key or value is invalid.

        Examples
        --------
        >>> PictureOptions.parse({"name": "figure-03b", "kind": "pass-rate", "measure": "p"}).level
        0.05
        """
        where, kind = f"the picture {check_name('picture', entry)!r}", entry.get("kind")
        if kind not in KINDS:
            raise RecipeError(f"{where}: kind must be one of {', '.join(KINDS)}, not {kind!r}.")
        picture = parsed(KINDS[kind], f"{where} of kind {kind!r}", entry)
        picture.check_together(where)
        check_measures(where, picture.all_measures, measures)
        return picture

    def check_together(self, where: str) -> None:
        """Refuse options that contradict each other."""

    @property
    def all_measures(self) -> tuple[str, ...]:
        """The measures that are drawn; empty if they are those of a trial."""
        return tuple(getattr(self, "measures", ())) or tuple(filter(None, [getattr(self, "measure", "")]))

    @property
    def selections(self) -> dict[str, tuple[str, Any]]:
        """Label and values of every option that selects units, by option."""
        given = {option: (label, getattr(self, option, None)) for option, label in SELECTING.items()}
        return {option: found for option, found in given.items() if found[1] not in (None, ())}

    @property
    def conditions(self) -> dict[str, Any]:
        """Values that the labels of a unit must have if the unit belongs to the figure."""
        return {**self.where, **dict(self.selections.values())}

    @property
    def caption(self) -> str:
        """The title, or the name if there is none."""
        return self.title or self.name


@dataclass(frozen=True, kw_only=True)
class CriticalDifference(PictureOptions):
    """The keys of a critical-difference diagram."""

    measure: str
    tasks: NamesOrOne = ()
    columns: str = ""
    test: Literal["nemenyi", "bonferroni-dunn"] | None = None
    control: str = ""
    alpha: float = 0.05
    sides: Literal[1, 2] = 2
    post_hoc_below: float = 1.0
    better: Literal["", "higher", "lower"] = ""
    level: float | None = None

    def check_together(self, where: str) -> None:
        """Refuse a control for a test that has none."""
        if self.control and self.test == "nemenyi":
            raise RecipeError(
                f"{where}: the Nemenyi test compares all pairs and has no control; drop control, or set "
                'test = "bonferroni-dunn".'
            )
        if self.sides == 1 and not (self.control or self.test == "bonferroni-dunn"):
            raise RecipeError(
                f"{where}: only the Bonferroni-Dunn test can be one-sided; drop sides, or set "
                'test = "bonferroni-dunn".'
            )


@dataclass(frozen=True, kw_only=True)
class PassRate(PictureOptions):
    """The keys of a pass-rate diagram."""

    measure: str
    by: str = ""
    level: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Axes(PictureOptions):
    """The keys of all line charts."""

    band: Literal["", "sd", "gp"] = ""
    log_x: bool = False
    log_y: bool = False
    scale: float = 1.0
    label_x: str | None = None
    label_y: str | None = None


@dataclass(frozen=True, kw_only=True)
class Lines(Axes):
    """The keys of a measure against a label."""

    x: str
    measure: str
    series: str = ""
    places: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Measures(Axes):
    """The keys of several measures at given places."""

    x: list[float]
    measures: NamesOrOne
    series: str = ""

    def check_together(self, where: str) -> None:
        """Refuse places that are not one for each measure."""
        if len(self.x) != len(self.measures):
            raise RecipeError(
                f"{where} has {len(self.x)} places x for {len(self.measures)} measures; give one for each."
            )


@dataclass(frozen=True, kw_only=True)
class Series(Axes):
    """The keys of series that trials return."""

    trial: NamesOrOne
    x: str
    y: str
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class Bars(PictureOptions):
    """The keys of a bar chart."""

    measure: str
    by: str
    series: str = ""
    relative_to: str = ""
    band: Literal["", "sd"] = ""
    scale: float = 1.0
    label_y: str | None = None


@dataclass(frozen=True, kw_only=True)
class Chosen(PictureOptions):
    """The keys of the counts of a selected parameter."""

    calibrator: NamesOrOne
    parameter: str
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class Probabilities(PictureOptions):
    """The keys of a diagram of predictions."""

    data: NamesOrOne
    classifier: NamesOrOne = ()
    calibrators: NamesOrOne = ()
    display: Literal["reliability", "boxes", "classwise"] = "reliability"
    class_: Any = None
    repeats: Literal["first", "all"] = "first"
    repeat: float | None = None
    fold: float | None = None


@dataclass(frozen=True, kw_only=True)
class FittedMaps(PictureOptions):
    """The keys of a diagram of fitted calibrators."""

    data: NamesOrOne
    classifier: NamesOrOne = ()
    calibrators: NamesOrOne = ()
    display: Literal["latent functions", "temperatures", "weights", "interpretation points"]
    scores: Literal["log-probabilities", "logits"] = "log-probabilities"
    classes: list[Any] | None = None


KINDS: dict[str, type[PictureOptions]] = {
    "critical-difference": CriticalDifference,
    "pass-rate": PassRate,
    "lines": Lines,
    "measures": Measures,
    "series": Series,
    "bars": Bars,
    "chosen": Chosen,
    "probabilities": Probabilities,
    "fitted maps": FittedMaps,
}
