"""SEC-01 as far as the source can show it: nothing in the project turns bytes into code."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conformance.source_scan import ROOT, calls, dotted, imports, modules

EXECUTING_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml"}
EXECUTING_CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "torch.jit.load"}
#: methods that load pickles or make others load them
EXECUTING_METHODS = {
    "recv_pyobj",
    "send_pyobj",
    "deserialize_descs",
    "get_serialized_descs",
    "load_module",
    "unsafe_load",
    "read_pickle",
}

#: executes the project's own source with a planted defect in it, for the simulator alone; reads nothing from outside
OWN_SOURCE = {"core/sim/mutation.py": ["compile", "exec"]}


def faults(tree: ast.AST) -> list[str]:
    found = [name for name in imports(tree) if name.partition(".")[0] in EXECUTING_MODULES]
    for name, call in calls(tree):
        last = name.rpartition(".")[2]
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if name in EXECUTING_CALLS or last in EXECUTING_METHODS:
            found.append(name)
        elif "ext_hook" in keywords or "object_hook" in keywords or "allow_pickle" in keywords:
            found.append(f"{name}({', '.join(map(str, keywords))})")
    return found


def test_sec_01_no_module_loads_what_could_run() -> None:
    assert {path: found for path, tree in modules() if (found := faults(tree))} == OWN_SOURCE


def test_sec_01_nothing_but_simulator_and_benchmarks_imports_what_executes_source() -> None:
    planting = "baton.core.sim.mutation"
    importing = {path for path, tree in modules() if planting in imports(tree)}
    allowed = ("core/sim/", "services/sim/", "bench/planted/")
    assert {path for path in importing if not path.startswith(allowed)} == set()


def test_sec_01_no_extension_calls_back_into_an_interpreter() -> None:
    words = re.compile(r"\b(pickle|marshal|eval|exec|PyRun_\w+|__reduce\w*)\b")
    for path in sorted((ROOT / "csrc").iterdir()):
        assert words.search(path.read_text(encoding="utf-8")) is None, path.name


def test_sec_01_the_decoders_of_the_wire_have_types() -> None:
    """A decoder without a type makes whatever it is told to; each one names the union that it takes."""
    for path, tree in modules():
        if not path.startswith(("core/wire/", "core/session/", "services/transport/", "services/executor/transfer/")):
            continue
        for name, call in calls(tree):
            if name.endswith("msgpack.Decoder"):
                assert call.args, path
            if name.endswith("msgpack.decode"):
                assert any(keyword.arg == "type" for keyword in call.keywords), path
            assert dotted(call.func) not in ("msgpack.unpackb", "msgpack.Unpacker"), path


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n    import marshal",
        "eval(text)",
        "socket.recv_pyobj()",
        "agent.deserialize_descs(data)",
        "torch.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "msgspec.msgpack.Decoder(T, ext_hook=hook)",
    ],
)
def test_sec_01_the_scan_finds_what_it_looks_for(source: str) -> None:
    assert faults(ast.parse(source)) != []
