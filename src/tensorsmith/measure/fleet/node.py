"""The node process: `python -m tensorsmith.measure.fleet.node`, messages on standard input, answers on standard output.

It is what a command such as "ssh board" starts on the other machine. Whatever a login prints there comes before `MARK`, and is
passed over. A thread says every now and then that the node lives; another waits for the end of standard input: the node ends with
its tuner, and its workers with it.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time

from tensorsmith.measure import wire
from tensorsmith.measure.fleet.station import Station

MARK = b"\n-- tensorsmith node --\n"
_EVERY = 2.0  # seconds between two signs of life


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tuner decides
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever prints must not garble the answers
    os.write(answers, MARK)
    lock, messages = threading.Lock(), queue.Queue[wire.Message]()

    def say(message: wire.Message) -> None:
        with lock:
            wire.write(answers, message)

    def live() -> None:
        while True:
            time.sleep(_EVERY)
            say({"did": "live"})

    def listen() -> None:
        while (message := wire.read(0)) is not None:
            messages.put(message)
        os._exit(0)  # in the middle of anything: the workers see it, and tidy up

    for loop in (live, listen):
        threading.Thread(target=loop, daemon=True).start()
    station = Station()
    while True:
        say(station.obey(messages.get()))


if __name__ == "__main__":
    main()
