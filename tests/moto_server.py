"""moto's S3 server, whose conditional writes are atomic as S3's are: `python -m tests.moto_server`.

It prints its port first.

moto looks for the object and stores it in two steps, so two writers that race can both create an object.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterable

CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


def main() -> None:
    """Serve S3 at a free port of this machine."""
    moto: Any = DomainDispatcherApplication(create_backend_app)
    one_at_a_time = threading.Lock()

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not any(environ.get(condition) for condition in CONDITIONS):
            return moto(environ, start_response)
        with one_at_a_time:
            return moto(environ, start_response)

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=MotoRequestHandler)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
