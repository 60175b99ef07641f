"""update_many: chunks of many messages at once."""

import hashlib
import threading

import gantry_crypto as gantry
import numpy
import pytest

PIECES = [bytes(range(256)) * 1000, b"", b"short", bytearray(b"b" * 200_000), memoryview(b"m" * 65_537), numpy.zeros(70_000, numpy.uint8)]


def test_pieces_of_any_lengths_reach_messages_of_all_algorithms():
    algs = sorted(gantry.algorithms_available)
    messages = [gantry.new(alg) for alg in algs for _ in PIECES]
    pieces = PIECES * len(algs)
    for _ in range(3):
        gantry.update_many(messages, iter(pieces))
    for message, piece in zip(messages, pieces):
        expected = gantry.new(message.name, bytes(piece) * 3)
        assert message.digest() == expected.digest(), message.name
        if message.name == "sha256":
            assert message.digest() == hashlib.sha256(bytes(piece) * 3).digest()


def test_wrong_lists_are_refused_and_change_nothing():
    one, two = gantry.sha256(b"one"), gantry.md5(b"two")
    for messages, pieces, error in [
        ([one, two, one], [b"x"] * 3, ValueError),
        ([one, two], [b"x"], ValueError),
        ([one], [b"x", b"y"], ValueError),
        ([one, two], [b"x", "text"], TypeError),
        ([one, two], [b"x", None], TypeError),
        ([one, hashlib.sha256()], [b"x", b"y"], TypeError),
        ([one, two], b"xy", TypeError),
        ([one], [numpy.array([one], object)], (TypeError, BufferError)),
        (one, [b"x"], TypeError),
    ]:
        with pytest.raises(error):
            gantry.update_many(messages, pieces)
    assert one.digest() == hashlib.sha256(b"one").digest() and two.digest() == hashlib.md5(b"two").digest()
    gantry.update_many([], [])


def test_threads_with_the_same_messages_in_other_orders_do_not_deadlock():
    messages, piece, rounds = [gantry.sha1() for _ in range(20)], b"x" * 10_000, 50

    def work(order):
        for _ in range(rounds):
            gantry.update_many(order, [piece] * len(order))

    threads = [threading.Thread(target=work, args=(order,)) for order in [messages, messages[::-1], messages[7:] + messages[:7]]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    expected = hashlib.sha1(piece * (3 * rounds)).digest()
    assert [message.digest() for message in messages] == [expected] * len(messages)
