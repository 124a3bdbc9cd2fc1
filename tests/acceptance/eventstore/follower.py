"""A follower in a process of its own: it prints the position of each event that it handles, flushed."""

import sys

import driftq


def main() -> None:
    url, group = sys.argv[1:]
    with driftq.EventStore(url) as store:
        for event in store.follow(group=group):
            print(event.position, flush=True)


if __name__ == "__main__":
    main()
