"""The container file and the systemd unit of deploy/: what can be checked without their engines, on real commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from seglog.server.rights.access import new_token
from tests import tools
from tests.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[1]
KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
KNOWN |= {"ENTRYPOINT", "CMD"}
SEGLOG = Path(sys.executable).with_name("seglog")
READ_ONLY = 'mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,ro,bind / && exec "$@"'


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments, continued lines joined."""
    lines = [line for line in (ROOT / "deploy" / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def last(name: str) -> str:
    return next(rest for found, rest in reversed(instructions()) if found == name)


def test_the_dockerfile_copies_what_is_there_and_runs_without_root() -> None:
    assert {name for name, _ in instructions()} <= KNOWN
    names = [name for name, _ in instructions()]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name == "RUN")
    assert last("USER").split(":")[0] not in ("0", "root")
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            assert all((ROOT / source).exists() for source in rest.split()[:-1]), rest
        if name == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)
    assert {"pyproject.toml", "hatch_build.py", "LICENSE", "README.md"} <= {
        word for name, rest in instructions() for word in rest.split()
    }


def command_of_the_image(data: Path, tokens: Path) -> list[str]:
    """Return the command that the container runs, with the places and the port of this machine."""
    words = [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]
    places = {"seglog": str(SEGLOG), "/data": str(data), "/run/secrets/tokens.json": str(tokens), "3000": "0"}
    return [places.get(word, word) for word in words]


@pytest.mark.needs("unshare")
def test_the_images_command_serves_with_a_read_only_file_system(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "tmp").mkdir(parents=True)
    token, entry = new_token("all", {"*": ["admin"]})
    (tmp_path / "tokens.json").write_text(json.dumps({"tokens": [entry]}))
    probe = ["unshare", "-m", "sh", "-c", READ_ONLY, str(data), "touch", str(tmp_path / "written")]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    if "Read-only file system" not in tried.stderr:
        tools.forbidden("unshare", f"no read-only file system can be made here: {tried.stderr}")
    command = [*probe[:6], *command_of_the_image(data, tmp_path / "tokens.json")]
    environment = {**os.environ, "TMPDIR": str(data / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"listening on http://\S+:(\d+)", line):
                break
        else:
            raise AssertionError("".join(said))
        try:
            url = f"http://127.0.0.1:{found[1]}"
            sent = httpx.post(
                f"{url}/records", content=b"v", headers={"Authorization": f"Bearer {token}"}, timeout=HANG_SECONDS
            )
            assert sent.json() == {"write_index": 0}
            assert httpx.get(f"{url}/health", timeout=HANG_SECONDS).status_code == 200
        finally:
            process.terminate()
            process.communicate(timeout=HANG_SECONDS)  # it writes more when it stops, which must find a reader
    assert process.returncode == 0


@pytest.mark.needs("systemd-analyze")
def test_systemd_accepts_the_unit_and_rates_it_as_well_confined(tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "seglog.service").read_text()
    unit = tmp_path / "seglog.service"
    unit.write_text(text.replace("/opt/seglog/bin/seglog", str(SEGLOG)))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in verified.stderr.splitlines() if "seglog.service" in line] == []
    assert verified.returncode == 0, verified.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert rated.returncode == 0, rated.stdout[-300:]


def test_the_units_command_is_one_of_the_command_line() -> None:
    line = re.search(r"^ExecStart=(.*)$", (ROOT / "deploy" / "seglog.service").read_text(), flags=re.MULTILINE)
    assert line is not None
    program, command, *options = shlex.split(line[1])
    shown = subprocess.run([SEGLOG, command, "--help"], capture_output=True, text=True, check=True).stdout
    assert Path(program).name == "seglog"
    assert all(option in shown for option in options if option.startswith("--"))
