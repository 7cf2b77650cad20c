"""Types of calibrant that other stores of models must be told to trust."""

from calibrant.persistence.schema import ENUMERATIONS, RECORDS
from calibrant.registry import calibrator_classes

__all__ = ["trusted_types"]


def trusted_types() -> list[str]:
    """Return the types of calibrant in fitted calibrators, for ``skops.io.load(file, trusted=trusted_types())``.

    They hold numbers, text, arrays and each other, and run no code when they are loaded. The list has the classes of
    plug-ins, too.

    >>> "calibrant.calibrators.scaling.temperature.TemperatureScaling" in trusted_types()
    True
    """
    types: list[type] = [*calibrator_classes(), *RECORDS.values(), *ENUMERATIONS.values()]
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in types]
