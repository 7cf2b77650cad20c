"""Pictures are drawn without a window, in matplotlib's own style, and closed after every test."""

import pytest


@pytest.fixture(autouse=True)
def drawn_without_a_window():
    """Leave tests alone where matplotlib is not installed: those that draw skip by themselves."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        yield
        return
    mpl.use("Agg")
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        from matplotlib import pyplot

        yield
        pyplot.close("all")
