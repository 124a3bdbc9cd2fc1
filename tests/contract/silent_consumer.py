"""A consumer that takes what comes and prints it: offset and attempt, a line each.

    python -m tests.contract.silent_consumer PORT TOPIC LEASE_MS

It acks nothing until it reads a line on stdin; then it acks whatever comes.
"""

import json
import select
import sys
from http.client import HTTPConnection
from urllib.parse import urlencode


def main(port: int, topic: str, lease_ms: int) -> None:
    stream = HTTPConnection("127.0.0.1", port)
    query = {"topic": topic, "group": "g", "owner": "silent", "lease_ms": lease_ms}
    stream.request("GET", "/v1/consume?" + urlencode(query))
    answer = stream.getresponse()
    settling = HTTPConnection("127.0.0.1", port)
    acks = False
    while line := answer.readline():
        delivery = json.loads(line)
        acks = acks or bool(select.select([sys.stdin], [], [], 0)[0])
        if acks:
            place = {"partition": delivery["partition"], "offset": delivery["offset"]}
            settling.request(
                "POST", "/v1/ack", json.dumps({"topic": topic, "group": "g", "owner": "silent"} | place)
            )
            settling.getresponse().read()
        sys.stdout.write(f"{delivery['offset']} {delivery['attempts']}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
