"""Holds every source file to 400 lines and every function to 60, with 95 of 100 functions at 40 or less.

Python functions are measured with `ast`, from the `def` to the last line. C functions start in column 0 and end with a
brace in column 0; functions of a `.pyx` end where the indentation does.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
P95_FUNCTION_LINES = 40
SUFFIXES = {".py", ".pyx", ".pxd", ".c", ".h"}
CYTHON_DEF = re.compile(r"^( *)(?:cdef|cpdef|def)\b.*\(.*\).*:$")


class Function(NamedTuple):
    place: str
    num_lines: int


def source_files() -> list[Path]:
    """Return what git tracks or would track, so that builds and environments stay out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in map(Path, sorted(names)) if path.suffix in SUFFIXES and path.is_file()]


def python_functions(path: Path, text: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(f"{path}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)


def c_functions(path: Path, lines: list[str]) -> Iterator[Function]:
    start = 0
    for number, line in enumerate(lines, 1):
        if line[:1].isalpha() or line.startswith("__attribute__"):
            start = number
        if line == "}" and start:
            yield Function(f"{path}:{start}", number - start + 1)
            start = 0


def cython_functions(path: Path, lines: list[str]) -> Iterator[Function]:
    for number, line in enumerate(lines, 1):
        found = CYTHON_DEF.match(line)
        if not found:
            continue
        indent, last = len(found[1]), number
        for offset, later in enumerate(lines[number:], number + 1):
            if later.strip() and len(later) - len(later.lstrip()) <= indent:
                break
            last = offset if later.strip() else last
        yield Function(f"{path}:{number}", last - number + 1)


def functions_of(path: Path) -> Iterator[Function]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return python_functions(path, text)
    if path.suffix in {".pyx", ".pxd"}:
        return cython_functions(path, text.splitlines())
    return c_functions(path, text.splitlines())


def find_problems(paths: list[Path]) -> list[str]:
    """Return one line for each limit that is passed."""
    functions = [function for path in paths for function in functions_of(path)]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    problems = [
        f"{path}: {count} lines, limit {MAX_FILE_LINES}" for path, count in lengths.items() if count > MAX_FILE_LINES
    ]
    problems += [
        f"{function.place}: {function.num_lines} lines, limit {MAX_FUNCTION_LINES}"
        for function in functions
        if function.num_lines > MAX_FUNCTION_LINES
    ]
    counts = sorted(function.num_lines for function in functions)
    p95 = counts[len(counts) * 95 // 100] if counts else 0
    if p95 > P95_FUNCTION_LINES:
        problems.append(f"95th percentile of function lengths is {p95} lines, limit {P95_FUNCTION_LINES}")
    return problems


def main() -> int:
    problems = find_problems(source_files())
    print("\n".join(problems) or "sizes: every file and function is within its limit")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
