"""edm on a star: section 3 and table 1 of EDM, with SRPT scheduling; the messages of a pair are granted in order.

A writer announces its message. The request of a read or rmw waits in the switch, and serves as the first grant of its answer.
Latencies are sums of the steps in table 1. A message is complete when the first block of its last 64 B has arrived.
"""

from engine import Engine

CYCLE, PMA = 2_560, 19_000
BLOCK, BURST, CHUNK = 8, 64, 256
CONTROL_BITS = 33
ITERATION = 1_000  # ps: three cycles at 3 GHz
ACTIVE = 3


class Lane:
    """One direction of a link. Control waits only for earlier control; data waits for all traffic that came before it."""

    def __init__(self):
        self.control_until = 0
        self.booked = []  # (time of joining, transmission time) of all traffic

    def control(self, at, length):
        start = max(self.control_until, at)
        self.control_until = start + length
        self.booked.append((at, length))
        return start

    def data(self, at, length):
        until = 0
        for joined, takes in sorted(b for b in self.booked if b[0] <= at):
            until = max(until, joined) + takes
        self.booked.append((at, length))
        return max(until, at)


class Way:
    """One direction of a port, as the scheduler tracks it."""

    def __init__(self):
        self.granted = self.carried = 0

    def carry(self, at, length):
        self.carried = max(self.carried, at) + length


class Message:
    def __init__(self, number, message):
        self.number = number
        self.at = message["at_ps"]
        self.bytes, self.request = message["bytes"], message["request"]
        self.asker, self.asked = message["src"], message["dst"]
        self.is_read = message["kind"] in ("read", "rmw")
        ends = (self.asked, self.asker) if self.is_read else (self.asker, self.asked)
        self.src, self.dst = ends
        self.left = self.bytes
        self.order = None
        self.started = False


class Edm:
    def __init__(self, case):
        self.engine = Engine()
        byte = 8 * 10**12 // case["rate_bps"]
        self.block = BLOCK * byte
        self.control = -(-CONTROL_BITS * 10**12 // case["rate_bps"])
        self.slack = self.occupancy(CHUNK)
        link = 2 * (2 * CYCLE + PMA) + case["propagation_ps"]
        self.to_scheduler = link + 2 * CYCLE
        self.grant_to_data = link + 9 * CYCLE
        self.request_to_data = link + 10 * CYCLE
        self.through_switch = link + 5 * CYCLE
        self.to_receiver = link + 3 * CYCLE
        nodes = range(case["nodes"])
        self.up, self.down = [Lane() for _ in nodes], [Lane() for _ in nodes]
        self.src, self.dst = [Way() for _ in nodes], [Way() for _ in nodes]
        self.grant_queue = [0 for _ in nodes]
        self.active, self.waiting = {}, {}
        self.demands = []  # in order of arrival
        self.arrived = 0
        self.pipeline_free = 0
        self.due = set()  # times of scheduled iterations
        self.messages = [Message(*pair) for pair in enumerate(case["messages"])]
        self.times = [None] * len(self.messages)
        for message in self.messages:
            self.engine.at(message.at, self.submit, message)

    def completions(self):
        self.engine.run(lambda: None not in self.times)
        return self.times

    def occupancy(self, size):
        return -(-size // BLOCK) * self.block

    def lead(self, size):
        """Returns the transmission time of all bytes before the last burst."""
        return (max(size - 1, 0) // BURST) * (BURST // BLOCK) * self.block

    # Announcements: each sender has at most three active ones to one destination.

    def submit(self, message):
        pair = (message.asker, message.asked)
        if self.active.get(pair, 0) < ACTIVE:
            self.active[pair] = self.active.get(pair, 0) + 1
            self.announce(message)
        else:
            self.waiting.setdefault(pair, []).append(message)

    def release(self, message):
        pair = (message.asker, message.asked)
        if self.waiting.get(pair):
            self.announce(self.waiting[pair].pop(0))
        else:
            self.active[pair] -= 1

    def announce(self, message):
        length = self.occupancy(message.request) if message.is_read else self.control
        start = self.up[message.asker].control(self.engine.now + 2 * CYCLE, length)
        there = start + self.lead(message.request if message.is_read else 0) + self.to_scheduler
        self.engine.at(there, self.demand, message, length)

    # The scheduler.

    def demand(self, message, length):
        message.order, self.arrived = self.arrived, self.arrived + 1
        self.demands.append(message)
        self.src[message.asker].carry(self.engine.now, length)
        self.iterate_at(max(self.engine.now, self.pipeline_free))

    def iterate_at(self, time):
        if time not in self.due:
            self.due.add(time)
            self.engine.at(time, self.iterate)

    def free(self, way):
        return max(way.granted, way.carried - self.slack)

    def heads(self):
        """Returns, for each pair of nodes, the first message that still waits for grants."""
        heads = {}
        for message in self.demands:
            heads.setdefault((message.src, message.dst), message)
        return heads

    def iterate(self):
        now = self.engine.now
        self.due.discard(now)
        if now < self.pipeline_free:
            return
        soon = now + 2 * ITERATION

        def key(message):
            return (message.left, message.order)

        asks = {}  # by source: the messages that destinations request
        heads = self.heads()
        for dst in sorted({dst for _, dst in heads}):
            of_dst = [m for (s, d), m in heads.items() if d == dst and self.free(self.src[s]) < soon]
            if of_dst and self.free(self.dst[dst]) < soon:
                best = min(of_dst, key=key)
                asks.setdefault(best.src, []).append(best)
        if asks:
            self.pipeline_free = now + ITERATION
            # The order of grants matters, because the control of one delays the data of another by some bits.
            for messages in reversed(asks.values()):
                self.grant(min(messages, key=key))
        # Schedule the next iterations at the times at which new matches may be possible.
        for src, dst in self.heads():
            ports = max(self.free(self.src[src]), self.free(self.dst[dst]))
            self.iterate_at(max(ports + 1 - 2 * ITERATION, self.pipeline_free, now + 1))

    def grant(self, message):
        src, dst = self.src[message.src], self.dst[message.dst]
        at = max(self.engine.now + ITERATION, self.free(src), self.free(dst))
        size = min(message.left, CHUNK)
        first, message.started = not message.started, True
        message.left -= size
        if message.left == 0:
            self.demands.remove(message)
        for way in (src, dst):
            way.granted = at + self.occupancy(size)
            way.carry(at, self.occupancy(size))
        by_request = first and message.is_read
        length = self.occupancy(message.request) if by_request else self.control
        self.dst[message.src].carry(at, length)

        ready = at + 4 * CYCLE - ITERATION
        start = self.down[message.src].control(ready, length)
        steps = self.lead(message.request) + self.request_to_data if by_request else self.grant_to_data
        # The host's grant queue is first in, first out, so this grant waits for the earlier ones.
        queue = max(self.grant_queue[message.src], start + steps)
        self.grant_queue[message.src] = queue
        self.engine.at(queue - 2 * CYCLE, self.send, message, size, message.left == 0)

    # Data.

    def send(self, message, size, is_last):
        start = self.up[message.src].data(self.engine.now + 2 * CYCLE, self.occupancy(size))
        self.engine.at(start + self.through_switch - 4 * CYCLE, self.forward, message, size, is_last)
        if is_last and not message.is_read:
            self.release(message)

    def forward(self, message, size, is_last):
        start = self.down[message.dst].data(self.engine.now + 4 * CYCLE, self.occupancy(size))
        if is_last:
            self.engine.at(start + self.lead(size) + self.to_receiver, self.deliver, message)

    def deliver(self, message):
        self.times[message.number] = self.engine.now - message.at
        if message.is_read:
            self.release(message)


def completions(case):
    return Edm(case).completions()
