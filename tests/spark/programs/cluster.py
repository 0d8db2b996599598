"""A standalone Spark master with two workers, for what needs executors that are processes of their own.

The workers are two hosts (127.0.0.1 and 127.0.0.2): Spark never runs a speculative copy on the host of the first.
"""

from __future__ import annotations

import shutil
import socket
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from harness import session, wait_until

import seglog.spark
from seglog.spark.java import use_java

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTS = ("127.0.0.1", "127.0.0.2")
QUIET = f"-Dlog4j2.configurationFile={(Path(seglog.spark.__file__).parent / 'log4j2.properties').as_uri()}"
BOUND = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # they end with this process
_CLASSES = "org.apache.spark.deploy"


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    with socket.socket() as tried:
        tried.bind((HOSTS[0], 0))
        return int(tried.getsockname()[1])


def answers(port: int) -> bool:
    """Tell whether somebody listens on a port."""
    with socket.socket() as tried:
        return tried.connect_ex((HOSTS[0], port)) == 0


@contextmanager
def cluster(directory: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a master and two workers of one core each; yield the master's URL. environment: also the executors'."""
    use_java()
    home = Path(pyspark.__file__).parent
    run = str(home / "bin" / "spark-class")
    environment = {
        **environment,
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_JAVA_OPTS": f"-XX:TieredStopAtLevel=1 {QUIET}",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOG_DIR": str(directory),
    }
    port = free_port()
    master = [run, f"{_CLASSES}.master.Master", "--host", HOSTS[0], "--port", str(port), "--webui-port", "0"]
    url = f"spark://{HOSTS[0]}:{port}"
    with ExitStack() as stack:
        stack.enter_context(session([*BOUND, *master], environment))
        for host in HOSTS:
            worker = [run, f"{_CLASSES}.worker.Worker", "--host", host, "--webui-port", "0", "--cores", "1"]
            work = ["--memory", "1g", "--work-dir", str(directory / host), url]
            stack.enter_context(session([*BOUND, *worker, *work], {**environment, "SPARK_LOCAL_IP": host}))
        wait_until(lambda: answers(port), "Spark's master")
        yield url
