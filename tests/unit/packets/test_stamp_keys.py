import numpy as np

from probes.packets.icmp.stamp_keys import StampKeys


def packets(keys: StampKeys, *numbers: int) -> list[int]:
    return keys.packets(np.array(numbers)).tolist()


def test_numbers_follow_the_packets_that_were_sent():
    keys = StampKeys(10)
    keys.sent(0, 2)
    keys.sent(3, 5)  # packet 2 had no route and took no number

    assert packets(keys, 0, 1, 2, 3) == [0, 1, 3, 4]


def test_a_number_that_was_not_used_belongs_to_no_packet():
    keys = StampKeys(10)
    keys.sent(0, 2)

    assert packets(keys, 2, 2**32 - 1, -1) == [-1, -1, -1]


def test_keys_restart_after_a_restart_and_old_keys_still_match():
    keys = StampKeys(10)
    keys.sent(0, 5)
    keys.restart()
    keys.restart()
    keys.sent(6, 8)

    assert packets(keys, 0, 1) == [6, 7]
    assert packets(keys, 2, 4) == [2, 4]
    assert packets(keys, 5) == [-1]
