"""`python -m tests.attack [NAMES] [--seconds S]`: each attack on a server of its own; `--minutes M`: all on one."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.attack import bystander
from tests.attack.clients import ATTACKS, Attack
from tests.attack.place import Place
from tests.attack.probe import probe
from tests.attack.range import a_range, be_another_machine, run


def main() -> None:
    """Run a part, as `tests.attack.range` asks, or what the command line says."""
    match sys.argv[1:]:
        case ["attack", name, port, seconds]:
            be_another_machine()
            ATTACKS[name].client(Place(int(port), time.monotonic() + float(seconds)))
        case ["probe", port, seconds, kind]:
            probe(int(port), float(seconds), tls=kind == "tls")
        case ["bystander", port_file]:
            bystander.serve(Path(port_file))
        case _:
            _measure()


def _measure() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--seconds", type=float, default=15, help="of each attack")
    parser.add_argument("--minutes", type=float, help="all attacks together on one server, for so long")
    args = parser.parse_args()
    names = args.names or list(ATTACKS)
    with tempfile.TemporaryDirectory(prefix="seglog-attack-") as directory:
        if args.minutes is not None:
            print(f"all together: {_together(Path(directory), args.minutes * 60)}", flush=True)
            return
        for name in names:
            place = Path(directory) / name
            place.mkdir()
            found = run(place, name, args.seconds)
            print(f"{name}: {found}", flush=True)
            errors = found.said.count("Traceback")
            if errors:
                print(f"  {errors} tracebacks, the last: {found.said.strip().splitlines()[-2:]}", flush=True)


def _together(directory: Path, seconds: float) -> str:
    """Attack one server with everything that needs no server of its own kind, again and again."""
    names = [name for name, attack in ATTACKS.items() if not attack.tls]
    with a_range(directory, Attack(lambda _: None)) as place:
        found = place.measure(names, seconds)
        found.said = place.stop()
    return f"{found}; {found.said.count('Traceback')} tracebacks"


if __name__ == "__main__":
    main()
