"""The agent's queue in memory: messages arrive at once, in order, and none is lost while the worker is full."""

import threading
import time
from queue import Queue

import pytest
from kombu import Connection

from probes.site.runner import local_queue
from probes.site.runner.recent_numbers import RecentNumbers


@pytest.fixture
def name(request):
    """A queue of this test alone: queues are the process's."""
    return f"test-{request.node.name}"


def consume(name, received, *, prefetch=0, acknowledge=True):
    """A consumer's connection; each message goes to `received` with the moment at which it came."""
    connection = Connection(local_queue.URL)
    channel = connection.channel()
    channel.basic_qos(0, prefetch, False)

    def take(body, message):
        received.put((body, time.monotonic(), message))
        if acknowledge:
            message.ack()

    consumer = connection.Consumer([connection.SimpleQueue(name).queue], callbacks=[take], channel=channel)
    consumer.consume()
    return connection


def send(name, *bodies):
    with Connection(local_queue.URL) as connection:
        queue = connection.SimpleQueue(name)
        for body in bodies:
            queue.put(body)


def test_a_message_from_another_thread_wakes_the_consumer(name):
    received = Queue()
    connection = consume(name, received)
    sent_at = []

    def send_later():
        time.sleep(0.3)
        sent_at.append(time.monotonic())
        send(name, "due")

    sender = threading.Thread(target=send_later)
    sender.start()
    connection.drain_events(timeout=30)  # without a wake-up this would end after 30 s, in vain
    sender.join()

    body, came_at, _ = received.get_nowait()
    assert body == "due"
    assert came_at - sent_at[0] < 10


def test_messages_keep_their_order(name):
    received = Queue()
    connection = consume(name, received)
    send(name, *range(50))

    for _ in range(50):
        connection.drain_events(timeout=10)

    assert [received.get_nowait()[0] for _ in range(50)] == list(range(50))


def test_without_a_message_the_wait_ends_in_time(name):
    connection = consume(name, Queue())

    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.05)


def test_a_full_consumer_gets_the_next_message_when_it_acknowledges(name):
    received = Queue()
    connection = consume(name, received, prefetch=1, acknowledge=False)
    send(name, "first", "second")
    connection.drain_events(timeout=10)
    with pytest.raises(TimeoutError):
        connection.drain_events(timeout=0.05)

    first = received.get_nowait()
    threading.Timer(0.2, first[2].ack).start()
    connection.drain_events(timeout=30)

    assert (first[0], received.get_nowait()[0]) == ("first", "second")


def test_a_number_is_new_once_until_it_is_forgotten():
    now = [100.0]
    numbers = RecentNumbers(monotonic=lambda: now[0])

    assert numbers.add(7, 60)
    assert not numbers.add(7, 60)
    assert numbers.add(8, 10)
    now[0] += 59.9
    assert not numbers.add(7, 60)
    assert numbers.add(8, 10)
    now[0] += 0.2
    assert numbers.add(7, 60)
