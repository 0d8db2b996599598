"""A copy of logs on object storage: archive, restore, read. Needs no shared file system.

    PREFIX/commits/<number>.json              the states of the archive, numbered; created if absent: the only commit
    PREFIX/logs/<log id>/<segment>.store      sealed segments, as they are on disk, and their lookups
    PREFIX/logs/<log id>/<segment>.tail       pieces of an active segment
    PREFIX/logs/<log id>/<number>.segments    a log's manifest and where its segments are

`objects` is the contract of an object store; `directory` and `cloud` implement it, `urls` chooses. `commit`, `layout`
and `segments` are pure. `history` reads and appends commits and fences other writers; `upload` and `archiver` write;
`storage` reads an archive as a directory of logs; `restore` copies one back.
"""
