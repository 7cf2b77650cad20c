"""Names under which other parts import the sentences of :mod:`calibrant.presentation`."""

from calibrant.presentation.sentences import LONGEST_NAME, class_text, counted, p_text, shortened

__all__ = ["LONGEST_NAME", "class_text", "counted", "p_text", "shortened"]
