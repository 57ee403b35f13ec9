"""`baton up`: start a whole deployment on this machine and keep it running."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from baton.core.errors import ServingError
from baton.services.model.fetch import DEFAULT_MODEL, fetch
from baton.services.runtime.cores import parse_cores
from baton.services.runtime.lifecycle import EXIT_REFUSED, run_service
from baton.services.runtime.log import Log
from baton.services.up.plan import LAUNCHER_NAME, UpOptions, check_counts
from baton.services.up.preflight import check_start, configured_model
from baton.services.up.supervisor import supervise


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="baton up", description=__doc__)
    made.add_argument(
        "--model", default="", help=f"tiny, a folder, a .gguf file or a hub id; {DEFAULT_MODEL} by default"
    )
    made.add_argument(
        "--prefill", type=int, help="prefill executors (1, or 0 beside --unified); with 0, decode computes prompts"
    )
    made.add_argument("--decode", type=int, help="decode executors (1, or 0 beside --unified)")
    made.add_argument("--unified", type=int, default=0, help="executors that do both (0)")
    made.add_argument("--host", default="", help="where the HTTP API listens (127.0.0.1)")
    made.add_argument("--port", type=int, help="of the HTTP API (8000); 0: any free one")
    made.add_argument("--cores", default="", help="for the executors, such as 0-3; all by default")
    made.add_argument("--device", default="", help="cpu or fake (cpu)")
    made.add_argument(
        "--placement", default="", help="where prompts are computed: predicted, by_tokens or always_pd (predicted)"
    )
    made.add_argument("--strict-pd", action="store_true", help="without a prefill executor requests are refused")
    made.add_argument("--journal", type=Path, help="folder for every process's events and commands")
    made.add_argument("--config", type=Path, help="TOML file that every process reads")
    return made


def main(arguments: list[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    try:
        source = asked.model or configured_model(asked.config, os.environ)
        source = source or ("tiny" if asked.device == "fake" else DEFAULT_MODEL)
        options = options_of(asked, Path(source))
        checked = check_start(options, os.environ)  # before a model is fetched, which may take long
        options = options._replace(model=fetch(source))
    except ServingError as error:
        print(f"baton up: {error}", file=sys.stderr)
        return EXIT_REFUSED
    epoch = time.time_ns() // 1_000_000
    return run_service(Log(LAUNCHER_NAME, epoch), lambda life: supervise(life, options, checked, epoch))


def options_of(asked: argparse.Namespace, model: Path) -> UpOptions:
    """Raises SettingsInvalid and CoresInvalid."""
    default = 0 if asked.unified else 1
    num_prefill = default if asked.prefill is None else asked.prefill
    num_decode = default if asked.decode is None else asked.decode
    check_counts(num_prefill, num_decode, asked.unified)
    return UpOptions(
        model=model,
        num_prefill=num_prefill,
        num_decode=num_decode,
        num_unified=asked.unified,
        host=asked.host,
        port=asked.port,
        cores=parse_cores(asked.cores),
        device=asked.device,
        journal=asked.journal,
        config=asked.config,
        placement=asked.placement,
        strict_pd=asked.strict_pd,
    )


if __name__ == "__main__":
    sys.exit(main())
