"""Code of one's own that recipes name."""

import pytest

from calibrant.errors import RecipeError
from calibrant.studies.own_code import check_reference, code_fingerprint, is_reference, load_object, source_of


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


# Without running it


@pytest.mark.parametrize(
    "text",
    [
        "def method(): pass\n",
        "class method: pass\n",
        "import json as method\n",
        "from json import *\n",
        "try:\n    method = 1\nexcept Exception:\n    pass\n",
        "if True:\n    def method(): pass\n",
        "first, (second, method) = 1, (2, 3)\n",
        "def __getattr__(name): return 1\n",
        "for method in range(3):\n    pass\n",
    ],
)
def test_names_are_found_in_the_source(tmp_path, text):
    (tmp_path / "own.py").write_text(f"raise SystemExit\n{text}")
    check_reference("own.py:method", tmp_path)


@pytest.mark.parametrize(
    "text", ["other = 1\n", "def other():\n    method = 1\n", "class A:\n    method = 1\n"]
)
def test_names_that_a_module_does_not_define(tmp_path, text):
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(RecipeError, match=r"no 'method' in own\.py"):
        check_reference("own.py:method", tmp_path)


def test_a_source_that_is_nested_too_deep_is_one_sentence(tmp_path):
    (tmp_path / "own.py").write_text("(" * 100_000)
    with pytest.raises(RecipeError, match=r"own\.py cannot be read"):
        check_reference("own.py:method", tmp_path)


def test_the_file_of_an_installed_module_is_found_without_importing_it(tmp_path, monkeypatch):
    """find_spec of the standard library imports the packages around a module."""
    package = tmp_path / "package_of_traps"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit\n")
    (package / "inner.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert source_of("package_of_traps.inner:name", tmp_path) == package / "inner.py"
    assert len(code_fingerprint("package_of_traps.inner:name", tmp_path)) == 64
    with pytest.raises(RecipeError, match=r"there is no module package_of_traps.outer"):
        source_of("package_of_traps.outer:name", tmp_path)
    assert source_of("os.path:join", tmp_path).name == "posixpath.py"
