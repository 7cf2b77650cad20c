"""Code of one's own that recipes name."""

import pytest

from calibrant.errors import RecipeError
from calibrant.studies.own_code import code_fingerprint, is_reference, load_object


def test_a_file_is_loaded_once_and_anew_when_it_changes(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("class Method:\n    number = 1\n")
    first = load_object("own.py:Method", tmp_path)
    assert load_object("own.py:Method", tmp_path) is first
    before = code_fingerprint("own.py:Method", tmp_path)
    file.write_text("class Method:\n    number = 2\n")
    assert load_object("own.py:Method", tmp_path).number == 2
    assert first.number == 1
    assert code_fingerprint("own.py:Method", tmp_path) != before


def test_files_of_one_name_in_two_folders_are_two(tmp_path):
    for number in (1, 2):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "own.py").write_text(f"number = {number}\n")
    assert [load_object("own.py:number", tmp_path / each) for each in ("1", "2")] == [1, 2]


def test_dataclasses_find_their_module(tmp_path):
    (tmp_path / "own.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Settings:\n    size: int = 3\n"
    )
    assert load_object("own.py:Settings", tmp_path)().size == 3


def test_files_in_folders_below_the_recipe(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "own.py").write_text("value = 5\n")
    assert load_object("code/own.py:value", tmp_path) == 5


def test_installed_modules_have_a_fingerprint(tmp_path):
    assert code_fingerprint("sklearn.svm:SVC", tmp_path) != code_fingerprint("json:loads", tmp_path)
    assert len(code_fingerprint("math:sqrt", tmp_path)) == 64
    assert code_fingerprint("temperature", tmp_path) == ""
    assert not is_reference("temperature+vector")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_package_at_all\n", "no_such_package_at_all"),
        ("raise ValueError('two\\nlines')\n", "two lines"),
        ("import beside\n", "beside"),
        ("value = 1\n", "no 'method'"),
    ],
)
def test_what_goes_wrong_is_one_sentence(tmp_path, text, words):
    (tmp_path / "own.py").write_text(text)
    (tmp_path / "beside.py").write_text("value = 1\n")
    with pytest.raises(RecipeError) as caught:
        load_object("own.py:method", tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reference", ["own.py:", ":name", "own.py:two words", "own.py:a.b"])
def test_references_have_two_parts(tmp_path, reference):
    with pytest.raises(RecipeError, match="name follows the colon"):
        load_object(reference, tmp_path)
