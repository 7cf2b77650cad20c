"""Names for all calibrators and metrics."""

import re
from importlib.metadata import EntryPoint

import pytest

from calibrant import Calibrator, Chain, Identity, TemperatureScaling, Traits, registry
from calibrant.errors import ParameterError

# Names that users, the command line and published tables rely on, with the class and what the name sets.
PROMISED = {
    "uncalibrated": ("Identity", {}),
    "temperature": ("TemperatureScaling", {}),
    "vector": ("VectorScaling", {}),
    "matrix": ("MatrixScaling", {"penalty": None}),
    "matrix-l2": ("MatrixScaling", {"penalty": "l2"}),
    "matrix-odir": ("MatrixScaling", {"penalty": "odir"}),
    "dirichlet": ("DirichletCalibration", {"penalty": None}),
    "dirichlet-l2": ("DirichletCalibration", {"penalty": "l2"}),
    "dirichlet-odir": ("DirichletCalibration", {"penalty": "odir"}),
}


class Plugin(Calibrator):
    """A calibrator from another package."""

    traits = Traits(keeps_argmax=True, contains_identity=True, shares_parameters=True)
    registry_names = {"plugged": {}, "temperature": {}}  # noqa: RUF012 - as a plug-in might write it

    def _fit(self, data):
        pass

    def _transform(self, predictions):
        return predictions


@pytest.fixture
def plugged(monkeypatch):
    """Pretend that installed packages bring the given objects; the registry forgets them afterwards."""

    def install(**objects):
        points = [
            EntryPoint(name, f"{__name__}:{value}", registry.ENTRY_POINT_GROUP)
            for name, value in objects.items()
        ]
        monkeypatch.setattr(
            registry, "entry_points", lambda group: points if group == registry.ENTRY_POINT_GROUP else []
        )
        clear()

    def clear():
        registry._classes.cache_clear()
        registry._factories.cache_clear()

    yield install
    monkeypatch.undo()
    clear()


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_make_the_promised_class(name):
    made = registry.make(name)
    class_name, parameters = PROMISED[name]
    assert type(made).__name__ == class_name
    assert parameters.items() <= made.get_params().items()


def test_names_are_sorted_and_fit_for_a_command_line():
    names = registry.calibrators()
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_every_name_makes_a_new_unfitted_calibrator():
    for name in registry.calibrators():
        first, second = registry.make(name), registry.make(name)
        assert first is not second
        assert not [attribute for attribute in vars(first) if attribute.endswith("_")]


def test_parameters_are_passed_on_and_win_over_those_of_the_name():
    assert registry.make("temperature", loss="brier").loss == "brier"
    assert registry.make("matrix-l2", penalty="odir").penalty == "odir"


def test_presets_are_not_shared_between_calibrators():
    registry.make("matrix-l2").set_params(penalty=None)
    assert registry.make("matrix-l2").penalty == "l2"


@pytest.mark.parametrize("name", ["temperature+uncalibrated", " temperature + uncalibrated "])
def test_a_plus_composes_from_left_to_right(name):
    chain = registry.make(name)
    assert type(chain) is Chain
    assert [type(stage) for stage in chain.calibrators] == [TemperatureScaling, Identity]


def test_a_chain_of_three():
    assert len(registry.make("temperature+vector+temperature").calibrators) == 3


def test_a_composition_takes_no_parameters():
    with pytest.raises(ParameterError, match=r"\['loss'\] cannot be shared .*; make the parts one by one"):
        registry.make("temperature+uncalibrated", loss="brier")


@pytest.mark.parametrize("name", ["temprature", "", "temperature+", "Temperature", "temperature+nothing"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ParameterError, match=r"there is no calibrator '.*'; .*nown are \['.*'temperature'"):
        registry.make(name)


@pytest.mark.parametrize(
    ("name", "meant"), [("temprature", "temperature"), ("sigmoid", "platt"), ("isotonc", "isotonic")]
)
def test_a_name_that_is_nearly_known_gets_a_hint(name, meant):
    with pytest.raises(ParameterError, match=f"no calibrator '{name}'; did you mean '{meant}'"):
        registry.make(name)


@pytest.mark.parametrize("name", [None, 3, Identity()])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(ParameterError, match="name must be text such as 'temperature'"):
        registry.make(name)


def test_classes_are_found_by_name():
    assert registry.calibrator_class("Identity") is Identity
    assert registry.calibrator_class("Chain") is Chain
    with pytest.raises(ParameterError, match=r"no calibrator class 'Calibrator'; known are .*'Chain'"):
        registry.calibrator_class("Calibrator")


def test_metrics_are_functions_of_the_metrics_package():
    import calibrant.metrics

    names = registry.metrics()
    assert {"accuracy", "brier_score", "classwise_ece", "confidence_ece", "log_loss"} <= set(names)
    assert names == sorted(names)
    assert all(callable(getattr(calibrant.metrics, name)) for name in names)


def test_a_plug_in_is_found_by_its_entry_point(plugged):
    plugged(anything="Plugin")
    assert "plugged" in registry.calibrators()
    assert type(registry.make("plugged")) is Plugin
    assert registry.calibrator_class("Plugin") is Plugin
    assert type(registry.make("plugged+temperature")) is Chain


def test_a_plug_in_cannot_take_over_a_name_of_ours(plugged):
    plugged(anything="Plugin")
    assert type(registry.make("temperature")) is TemperatureScaling


def test_a_plug_in_that_is_no_calibrator_is_refused(plugged):
    plugged(broken="PROMISED")
    with pytest.raises(ParameterError, match=r"plug-in 'broken' .* is not a Calibrator class"):
        registry.calibrators()


def test_the_registry_forgets_plug_ins_of_other_tests():
    assert "plugged" not in registry.calibrators()
