#!/usr/bin/env bash
# A newcomer's quarter of an hour with the identity service: serve, create, send the voices of two people with curl, name
# one, kill the server, start it again, ask. `pip install 'armillary[service]'` first. Voices are made up here; yours come
# from an encoder such as Resemblyzer.
set -euo pipefail
PORT=${PORT:-8750}
DATA=${DATA:-armillary-data}
URL=http://127.0.0.1:$PORT/v1/collections

start() {
  armillary serve --no-auth --data "$DATA" --port "$PORT" 2>>"$DATA.log" &
  SERVER=$!
  until curl -sf "http://127.0.0.1:$PORT/readyz" >/dev/null; do sleep 0.2; done
}
trap 'kill "$SERVER" 2>/dev/null || true' EXIT

python - <<'END'
import numpy as np
from armillary.datasets import make_vmf_mixture
X, people, _ = make_vmf_mixture(41, 256, 2, concentration=600.0, min_angle=1.2, random_state=4)
np.save("voices.npy", X[:40].astype(np.float32))
np.save("later.npy", X[40:].astype(np.float32))
END

start
echo "create:" && curl -sS -X POST "$URL" -H 'content-type: application/json' -d '{"name": "voices", "preset": "voice windows, few speakers"}' | cut -c1-43
echo && echo "add:" && curl -sS -X POST "$URL/voices/vectors" -H 'content-type: application/x-npy' -H 'Idempotency-Key: meeting-1' --data-binary @voices.npy
echo && echo "again:" && curl -sS -X POST "$URL/voices/vectors" -H 'content-type: application/x-npy' -H 'Idempotency-Key: meeting-1' --data-binary @voices.npy
echo && echo "name:" && curl -sS -X PUT "$URL/voices/ids/0/name" -H 'content-type: application/json' -d '{"name": "Ann"}'

kill -9 "$SERVER"; wait "$SERVER" 2>/dev/null || true
start
echo && echo "who is it:" && curl -sS -X POST "$URL/voices/lookup" -H 'content-type: application/x-npy' --data-binary @later.npy
echo && echo "ids:" && curl -sS "$URL/voices/ids"
echo && echo "events:" && curl -sS "$URL/voices/events?since=2" | sed 's/"at":[0-9.]*,//'
echo
