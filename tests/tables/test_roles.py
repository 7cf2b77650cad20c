"""Columns of labels and scores that are found by name, and the space that names and row sums tell."""

import numpy as np
import pytest

from calibrant.errors import LabelError, PredictionError
from calibrant.space import Space
from calibrant.tables import open_source
from calibrant.tables.roles import find_roles, space_in_name


def roles(path, text, **declared):
    """Return the roles of the columns of a CSV file."""
    path = path / "a.csv"
    path.write_text(text)
    with open_source(path) as source:
        return find_roles(source, **declared)


ROWS = "cat,0.9,0.1\ndog,0.2,0.8\ncat,0.6,0.4\n"


def test_a_label_is_found_by_the_columns_that_are_named_after_its_values(tmp_path):
    found = roles(tmp_path, f"animal,p_cat,p_dog\n{ROWS}")
    assert (found.label, found.columns.names) == ("animal", ("p_cat", "p_dog"))
    assert (found.space, found.reason) == (Space.PROBABILITIES, "since all rows sum to one")


@pytest.mark.parametrize("name", ["Label", "true_class", "Ground Truth", "y_test"])
def test_a_label_has_a_usual_name(tmp_path, name):
    assert roles(tmp_path, f"{name},a,b\n{ROWS}").label == name


def test_predicted_classes_are_no_labels(tmp_path):
    text = "animal,predicted,p_cat,p_dog\ncat,cat,0.9,0.1\ndog,cat,0.7,0.3\n"
    assert roles(tmp_path, text).label == "animal"


def test_two_columns_that_could_be_labels_are_named(tmp_path):
    text = "animal,other,p_cat,p_dog\ncat,cat,0.9,0.1\ndog,dog,0.7,0.3\n"
    with pytest.raises(LabelError, match="it could be 'animal' and 'other'"):
        roles(tmp_path, text)


def test_columns_with_another_prefix_are_no_scores(tmp_path):
    text = "y,age,x_1,p_cat,p_dog,p_owl\ncat,31,0.1,0.5,0.4,0.1\ndog,40,0.2,0.3,0.6,0.1\n"
    found = roles(tmp_path, text)
    assert found.columns.names == ("p_cat", "p_dog", "p_owl")  # owl never occurs
    assert found.columns.classes == ("cat", "dog", "owl")


def test_numbers_in_names_are_compared_whole(tmp_path):
    """p_1 is no column of class 1 with something behind it where p_10 stands."""
    header = ",".join(f"p_{number}" for number in range(11))
    rows = "".join(f"{number},{','.join(['0.5', *['0.05'] * 10])}\n" for number in range(11))
    found = roles(tmp_path, f"digit,age,{header}\n{rows.replace(',0.5', ',31,0.5')}")
    assert found.label == "digit"
    assert len(found.columns.names) == 11


def test_columns_with_the_bare_names_of_labels_count_if_their_rows_sum_to_one(tmp_path):
    rows = "cat,31,0.9,0.1\ndog,40,0.2,0.8\n"
    assert roles(tmp_path, f"y,age,cat,dog\n{rows}").columns.names == ("cat", "dog")
    # Otherwise a class that never occurs could be missing.
    assert roles(tmp_path, f"y,age,cat,dog\n{rows.replace('0.1', '0.7')}", space="logits").columns is None


def test_of_two_sets_the_one_that_sums_to_one_is_taken_or_the_one_of_the_space(tmp_path):
    text = "y,logit_cat,logit_dog,p_cat,p_dog\ncat,3,1,0.9,0.1\ndog,1,2,0.3,0.7\n"
    assert roles(tmp_path, text).columns.names == ("p_cat", "p_dog")
    text = text.replace("p_", "prob_")
    assert roles(tmp_path, text, space="logits").columns.names == ("logit_cat", "logit_dog")
    text = "y,a_cat,a_dog,b_cat,b_dog\ncat,3,1,9,1\ndog,1,2,3,7\n"
    with pytest.raises(
        PredictionError, match="several sets of columns for these labels, with 'a_cat' and 'b_cat'"
    ):
        roles(tmp_path, text, space="logits")


def test_a_single_column_called_a_score_is_one_but_tells_no_space(tmp_path):
    text = "churned,age,score\n0,31,0.25\n1,31,0.75\n0,40,0.5\n"
    found = roles(tmp_path, text)
    assert (found.label, found.columns.names, found.space) == ("churned", ("score",), None)
    assert found.limits == (0.25, 0.75)
    assert roles(tmp_path, text.replace("score", "risk")).columns.names == ("risk",)
    for name in ("prob", "confidence"):
        assert roles(tmp_path, text.replace("score", name)).space is Space.PROBABILITIES


@pytest.mark.parametrize(
    "rows", ["cat,0.9,0.2\ndog,0.2,0.8\n", "cat,1.5,-0.5\ndog,0.2,0.8\n", "cat,0.9,0.1\n"]
)
def test_rows_that_leave_a_doubt_tell_nothing(tmp_path, rows):
    """They do not sum to one, or they are not between 0 and 1, or there is one alone."""
    assert roles(tmp_path, f"y,cat,dog\n{rows}").space is None


def test_missing_values_do_not_hide_the_roles(tmp_path):
    found = roles(tmp_path, f"animal,p_cat,p_dog\n{ROWS},0.5,0.5\ncat,NA,0.5\n")
    assert (found.label, found.space) == ("animal", Space.PROBABILITIES)


def test_arrays_tell_the_space_by_name_unless_both_are_there(tmp_path):
    p = np.array([[0.9, 0.1], [0.2, 0.8]])
    for names, space in [
        (["logits"], Space.LOGITS),
        (["probs"], Space.PROBABILITIES),
        (["probs", "logits"], None),
    ]:
        np.savez(tmp_path / "a.npz", y=[0, 1], **dict.fromkeys(names, np.log(p)))
        with open_source(tmp_path / "a.npz") as source:
            assert find_roles(source).space is space


def test_words_in_names():
    assert [space_in_name(name) for name in ("Probs", "val-logits", "p", "probably", "prob_logit")] == [
        Space.PROBABILITIES,
        Space.LOGITS,
        None,
        None,
        None,
    ]
