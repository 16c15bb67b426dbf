"""The identity service: an id for every vector that arrives, durably. Needs the extra `armillary[service]`.

A collection is a log of operations and the state that follows from them. An operation is written and brought to disk
first, then done, then answered; so whatever ends the process, the log is the truth and its replay gives equal bits.

    operations.py   what can be asked of a collection, as it stands in the log
    store.py        the log on disk (home of sqlite3)
    identities.py   the state: what each operation does, and what it answers
    collection.py   one writer, group commit, snapshots, erasure
    house.py        all collections of a folder
    bodies.py, app.py, guard.py, server.py   the same over HTTP (home of fastapi, starlette and uvicorn)
"""
