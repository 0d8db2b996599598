"""Append numbered records for as long as this process lives; print each offset once the archive has the record.

archived_writer.py DIRECTORY URL SEED
"""

from __future__ import annotations

import random
import sys

import seglog
from seglog import Archiver

CONFIG = seglog.LogConfig(segment_bytes=4096)


def main(directory: str, url: str, seed: int) -> None:
    choose = random.Random(seed)
    try:
        with seglog.open(directory, CONFIG) as log, Archiver(directory, url).background(0.05) as archive:
            print("began", flush=True)
            while True:
                first = log.next_offset
                for _ in range(choose.randrange(1, 20)):
                    log.append(b"%d of %d" % (log.next_offset, seed))
                if choose.random() < 0.05:
                    log.truncate(choose.randrange(first, log.next_offset + 1))
                archive.wait()
                print(*range(first, log.next_offset), flush=True)
    except seglog.SeglogError as error:
        print("refused", type(error).__name__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
