"""The size check finds what is too long in each language that it reads."""

from pathlib import Path

import pytest

from tools.check_sizes import find_problems

LONG = 61

PYTHON = "def long():\n" + "    pass\n" * (LONG - 1)
C = "static int long_one(void) {\n" + "    work();\n" * (LONG - 2) + "}\n"
CYTHON = "cdef class Pool:\n    def long(self, int count):\n" + "        pass\n" * (LONG - 1) + "    cdef int x\n"


@pytest.mark.parametrize(("name", "text"), [("a.py", PYTHON), ("a.c", C), ("a.pyx", CYTHON)])
def test_a_function_over_the_limit_is_named_with_its_length(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert any(f"{LONG} lines, limit 60" in problem and name in problem for problem in find_problems([path]))


def test_many_functions_between_the_limits_are_too_many(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("\n".join(f"def f{number}():\n" + "    pass\n" * 44 for number in range(5)))
    assert find_problems([path]) == ["95th percentile of function lengths is 45 lines, limit 40"]


def test_a_file_over_the_limit_is_named_and_a_short_one_is_not(tmp_path: Path) -> None:
    long, short = tmp_path / "long.py", tmp_path / "short.py"
    long.write_text("x = 1\n" * 401)
    short.write_text("def f():\n    return 1\n")
    assert find_problems([long, short]) == [f"{long}: 401 lines, limit 400"]
