"""Senders that are told to come later wait together, and one of them goes first."""

import threading
import time

import pytest

from app.cli.upload.sender import BackoffGate, UploadStopped

SHORT = 0.2


def test_after_a_pause_one_goes_first_and_the_others_wait_for_what_becomes_of_it() -> None:
    valve = BackoffGate(threading.Event())
    with valve.passage() as close:
        close(SHORT)
    inside, out, done = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)

    def pass_through() -> None:
        with valve.passage():
            inside.release()
            out.wait(10)
        done.release()

    closed_at = time.monotonic()
    for _ in range(4):
        threading.Thread(target=pass_through, daemon=True).start()
    assert inside.acquire(timeout=10)
    assert time.monotonic() - closed_at >= SHORT * 0.9
    assert not inside.acquire(timeout=0.5), "a second one went in while the first was trying"
    out.set()
    for _ in range(4):
        assert done.acquire(timeout=10)


def test_one_that_is_told_to_wait_again_keeps_it_narrow() -> None:
    valve = BackoffGate(threading.Event())
    for _ in range(2):
        with valve.passage() as close:
            close(0)
    assert valve._narrow
    with valve.passage():
        pass
    assert not valve._narrow


def test_one_that_fails_for_another_reason_lets_the_others_through() -> None:
    valve = BackoffGate(threading.Event())
    with valve.passage() as close:
        close(0)
    with pytest.raises(ValueError, match="bad file"), valve.passage():
        raise ValueError("bad file")
    with valve.passage(), valve.passage():
        pass


def test_who_waits_is_let_go_when_the_user_stops() -> None:
    stop = threading.Event()
    valve = BackoffGate(stop)
    with valve.passage() as close:
        close(60)
    threading.Timer(SHORT, stop.set).start()
    with pytest.raises(UploadStopped), valve.passage():
        pass
