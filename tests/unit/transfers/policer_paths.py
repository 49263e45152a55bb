"""Simulated paths with a planted policer, shaper, link or loss, through which the trains of a policer test go."""

import math
import random

import numpy as np

from probes.lab.emulated_path import EmulatedPath
from probes.lab.settings import PathSettings
from probes.policer.estimate import estimate, first_train, next_train
from probes.policer.trains import UdpTrain

PEAK_BPS, TRAIN_BYTES = 100e6, 4_000_000
ONE_WAY_S = 0.02
TURN_S = 0.6
"""Between two trains: the rest of the queue arrives, and the far end reports."""


class LabPath:
    """The emulated path of the lab, with its policer, bottleneck and loss."""

    def __init__(self, seed, **settings):
        self.path = EmulatedPath("a", "b", PathSettings(delay_ms=1000 * ONE_WAY_S, **settings), random.Random(seed))

    def arrival_s(self, now_s, size_bytes):
        exits = self.path.admit(now_s, size_bytes)
        return exits[0] if exits else math.nan


class Shaper:
    """A token bucket filter with a queue: packets wait for tokens, and are dropped where the queue is full."""

    def __init__(self, rate_bps, burst_bytes, queue_bytes, depart_bps=1e9):
        self.rate, self.burst_bytes, self.queue_bytes = rate_bps / 8.0, burst_bytes, queue_bytes
        self.tokens, self.at_s, self.waiting = float(burst_bytes), 0.0, []

    def arrival_s(self, now_s, size_bytes):
        self.waiting = [leaves_s for leaves_s in self.waiting if leaves_s > now_s]
        if len(self.waiting) * size_bytes >= self.queue_bytes:
            return math.nan
        start_s = max(now_s, self.at_s)
        self.tokens = min(self.burst_bytes, self.tokens + (start_s - self.at_s) * self.rate)
        wait_s = max(0.0, size_bytes - self.tokens) / self.rate
        self.tokens += wait_s * self.rate - size_bytes
        self.at_s = start_s + wait_s
        self.waiting.append(self.at_s)
        return self.at_s + ONE_WAY_S


class ChangingLink:
    """A link whose rate changes at random times, as that of Wi-Fi does, with a drop-tail queue."""

    def __init__(self, seed, mean_s, rates_bps=(6e6, 80e6), queue_bytes=60_000):
        self.random, self.mean_s, self.rates_bps, self.queue_bytes = random.Random(seed), mean_s, rates_bps, queue_bytes
        self.until_s = self.free_s = 0.0

    def arrival_s(self, now_s, size_bytes):
        while now_s >= self.until_s:
            self.until_s += self.random.expovariate(1.0 / self.mean_s)
            self.byte_s = 8.0 / math.exp(self.random.uniform(*map(math.log, self.rates_bps)))
        start_s = max(now_s, self.free_s)
        if (start_s - now_s) / self.byte_s + size_bytes > self.queue_bytes:
            return math.nan
        self.free_s = start_s + size_bytes * self.byte_s
        return self.free_s + ONE_WAY_S


class LossBursts:
    """A path without a limit that loses packets in bursts (Gilbert)."""

    def __init__(self, seed, good_s, bad_s):
        self.random, self.lengths_s = random.Random(seed), (good_s, bad_s)
        self.until_s, self.is_bad = 0.0, True

    def arrival_s(self, now_s, size_bytes):
        while now_s >= self.until_s:
            self.is_bad = not self.is_bad
            self.until_s += self.random.expovariate(1.0 / self.lengths_s[self.is_bad])
        return math.nan if self.is_bad else now_s + ONE_WAY_S


def measured(path, seed, noise_s=0.0002, stall_s=0.0, peak_bps=PEAK_BPS, train_bytes=TRAIN_BYTES):
    """The estimate of a whole test over `path`. `noise_s` is the mean of an exponential delay at the receiver; the
    sender stalls for up to `stall_s`, a few times in a train."""
    rng = np.random.default_rng(seed)
    trains, now_s = [], 10.0
    plan = first_train(peak_bps, train_bytes)
    while plan is not None:
        sent_s = now_s + plan.pause_s + plan.send_times_s()
        for at in rng.integers(1, len(sent_s), 3 if stall_s else 0):
            sent_s[at:] += rng.uniform(0.0, stall_s)
        arrived_s = np.array([path.arrival_s(at_s, plan.ip_bytes) for at_s in sent_s])
        arrived_s = np.fmax.accumulate(arrived_s + rng.exponential(noise_s, len(sent_s))) + 0.0 * arrived_s
        trains.append(UdpTrain(plan.ip_bytes, sent_s, arrived_s - 1234.5, plan.lead_packets))
        now_s = sent_s[-1] + TURN_S
        plan = next_train(trains, peak_bps, train_bytes)
    return estimate(trains), trains
