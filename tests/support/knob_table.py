"""The table of knobs in docs/policies.md, from the configs. `python -m tests.support.knob_table` writes it again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from baton.core.config import ExecutorConfig, RouterConfig, SchedulerConfig
from baton.services.runtime.setting_texts import comments_of, default_text

PAGE = Path(__file__).resolve().parents[2] / "docs" / "policies.md"
BEGIN, END = "<!-- knobs: written by tests/support/knob_table.py -->\n", "<!-- end of knobs -->\n"
SECTIONS = {"executor": ExecutorConfig, "scheduler": SchedulerConfig, "router": RouterConfig}


def knob_table() -> str:
    lines = ["| section | knob | default | what it does |", "|---|---|---|---|"]
    for section, kind in SECTIONS.items():
        comments = comments_of(kind)
        for field in msgspec.structs.fields(kind):
            lines.append(f"| {section} | `{field.name}` | {default_text(field)} | {comments[field.name]} |")
    return "\n".join(lines) + "\n"


def parts(page: str) -> tuple[str, str, str]:
    """What stands before the table, the table, and what stands behind it."""
    before, begin, rest = page.partition(BEGIN)
    table, end, after = rest.partition(END)
    assert (begin, end) == (BEGIN, END), f"{PAGE} lacks the marks of its table"
    return before + begin, table, end + after


if __name__ == "__main__":
    before, _, after = parts(PAGE.read_text())
    PAGE.write_text(before + knob_table() + after)
