from __future__ import annotations

import os
import signal
import threading

import pytest

from tensorsmith.tuning.interrupt import CtrlC


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_noted_and_the_second_raises() -> None:
    with CtrlC() as ctrl_c:
        assert not ctrl_c.came
        press()
        assert ctrl_c.came
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_program_with_its_own_way_keeps_it() -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        with CtrlC() as ctrl_c:
            press()
        assert seen == [1] and not ctrl_c.came
    finally:
        signal.signal(signal.SIGINT, before)


def test_where_it_is_ignored_it_stays_so() -> None:
    """As under `nohup`, and in jobs that a script puts into the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with CtrlC() as ctrl_c:
            press()
            press()
        assert not ctrl_c.came and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_leaves_it_alone() -> None:
    found = []

    def run() -> None:
        with CtrlC():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
