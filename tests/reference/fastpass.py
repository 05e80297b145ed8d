"""fastpass: Perry et al., SIGCOMM 2014. An arbiter assigns a timeslot to every packet.

A node requests a slot for every segment; requests that arise while its link is busy share a packet. The arbiter is a server
with a separate link, which is first in, first out in both directions. It processes one request after another, and matches a
batch of timeslots at a time. A slot lasts as long as a full packet, a packet to the arbiter and a packet without payload
together. A slot belongs to a transfer, which sends its first wanted segment when the slot begins.
"""

from packets import OUTSIDE, Network, Packet
from queues import StrictPriority
from silence import longer
from topology import Link

WORD = 4


class Pair:
    """Both ends of a transfer: the sender's and the receiver's state."""

    def __init__(self, transfer, deadline, timeout, salt):
        self.transfer, self.deadline, self.timeout = transfer, deadline, timeout
        self.salt, self.timeouts = salt, 0
        self.wanted = set(range(transfer.segments))
        self.is_done = False
        self.arrived = set()
        self.passengers = []  # transfers of one segment that share the slot of this one


class Demand:
    def __init__(self, transfer, slots):
        self.transfer, self.slots = transfer, slots


class Fastpass:
    sides = ("sender",)

    def __init__(self, network):
        self.network, case = network, network.case
        self.timeout, self.batch = case["timeout_ps"], case["batch"]
        self.pairs = {}
        self.demands = [[] for _ in network.nodes]
        self.slots = [[] for _ in network.nodes]  # (start, transfer) by node
        self.wakes = [None] * len(network.nodes)
        self.roomy = {}  # by source and destination: the slot with most room, as its owner and the free bytes
        # State of the arbiter.
        topology = network.topology
        host = topology.host_link
        between = topology.links(0, topology.nodes - 1)[1:-1]
        latency = case["switch_latency_ps"]
        self.link = Link(case["arbiter_rate_bps"], host.propagation)
        self.wire = network.wire(WORD * self.batch)
        # Time between the switch port of the arbiter and that of a node.
        self.distance = latency + sum(
            network.bare * link.byte + link.propagation + latency for link in between
        )
        self.slot = (network.full + self.wire + network.bare) * host.byte
        self.last_link = self.wire * host.byte + host.propagation
        self.link_in_free = self.link_out_free = 0
        self.served = 0
        self.backlog = []
        self.batch_due, self.last_batch = False, None
        self.slots_until = 0

    def way_outside(self):
        return self.link.propagation + self.distance

    def open(self, transfer):
        network, salt = self.network, self.network.salt(transfer, "sender")
        self.pairs[transfer] = Pair(transfer, network.now() + self.timeout, self.timeout, salt)
        self.network.watch(transfer)
        if not self.shares(transfer):
            self.ask(transfer, transfer.segments)

    # The sender.

    def shares(self, transfer):
        """Puts a transfer of one segment into the slot of another transfer, if one has room. Returns whether it has found one."""
        if not self.network.case["packing"] or transfer.segments > 1:
            return False
        ends, wire = (transfer.src, transfer.dst), self.network.wire(transfer.size)
        if ends in self.roomy and wire <= self.roomy[ends][1]:
            owner, room = self.roomy[ends]
            self.roomy[ends] = owner, room - wire
            owner.passengers.append(self.pairs[transfer])
            return True
        room = self.network.full - wire
        if ends not in self.roomy or self.roomy[ends][1] < room:
            self.roomy[ends] = self.pairs[transfer], room
        return False

    def leave(self, pair):
        """Closes the slot of a transfer for further passengers. Returns the passengers that are not sent yet."""
        ends = pair.transfer.src, pair.transfer.dst
        if ends in self.roomy and self.roomy[ends][0] is pair:
            del self.roomy[ends]
        passengers, pair.passengers = pair.passengers, []
        return [passenger for passenger in passengers if not passenger.is_done]

    def finish(self, pair):
        if not pair.is_done:
            pair.is_done = True
            for passenger in self.leave(pair):
                self.ask(passenger.transfer, 1)

    def ask(self, transfer, slots):
        self.demands[transfer.src].append(Demand(transfer, slots))

    def has_more(self, node):
        return bool(self.demands[node] or self.slots[node])

    def choose(self, node):
        if self.demands[node]:
            asks, self.demands[node] = self.demands[node][: self.batch], self.demands[node][self.batch :]
            return Packet("demands", asks[0].transfer, OUTSIDE, self.wire, demands=asks)
        while (slot := self.next_slot(node)) and slot[0] <= self.network.now():
            self.slots[node].remove(slot)
            transfer = slot[1]
            pair = self.pairs[transfer]
            if not pair.is_done and pair.wanted:
                segment = min(pair.wanted)
                pair.wanted.remove(segment)
                self.wait(pair)
                self.slots[node] += [(slot[0], passenger.transfer) for passenger in self.leave(pair)]
                return self.network.segment(transfer, segment, 1)
        self.look_ahead(node)
        return None

    def next_slot(self, node):
        return min(self.slots[node], key=lambda slot: slot[0], default=None)

    def look_ahead(self, node):
        """Wakes the node at the start of its next slot, unless an earlier wakeup is scheduled."""
        slot, wakes = self.next_slot(node), self.wakes[node]
        if slot and slot[0] > self.network.now() and (wakes is None or slot[0] < wakes):
            self.wakes[node] = slot[0]
            self.network.at(slot[0], self.wake, node)

    def wake(self, node):
        wakes = self.wakes[node]
        if wakes is not None and wakes <= self.network.now():
            self.wakes[node] = None
        self.look_ahead(node)
        self.network.touch(node)

    def wait(self, pair):
        pair.deadline = self.network.now() + longer(pair.timeout, pair.salt, pair.timeouts)
        self.network.watch(pair.transfer)

    def heard(self, pair):
        pair.timeout = self.timeout
        self.wait(pair)

    def deadline(self, transfer, _side):
        pair = self.pairs[transfer]
        return None if pair.is_done else pair.deadline

    def expire(self, transfer, _side):
        pair = self.pairs[transfer]
        pair.timeout *= 2
        pair.timeouts += 1
        self.wait(pair)
        if pair.wanted:
            self.ask(transfer, len(pair.wanted))
        else:
            probe = Packet("probe", transfer, transfer.dst, self.network.bare)
            self.network.send_first(transfer.src, probe)

    def answered(self, request):
        self.finish(self.pairs[request])

    def receive(self, packet):
        transfer, pair = packet.transfer, self.pairs[packet.transfer]
        if packet.kind == "segment":
            self.take_segment(transfer, pair, packet.says["number"])
        elif packet.kind == "done":
            self.finish(pair)
        elif packet.kind == "probe":
            self.take_probe(transfer, pair)
        elif packet.kind == "missing":
            self.heard(pair)
            new = set(packet.says["segments"]) - pair.wanted
            if not pair.is_done and new:
                pair.wanted |= new
                self.ask(transfer, len(new))
        else:
            for at, granted in packet.says["slots"]:
                if not self.pairs[granted].is_done:
                    self.heard(self.pairs[granted])
                    self.slots[packet.to].append((at, granted))
            self.look_ahead(packet.to)

    # The receiver.

    def reply(self, transfer, kind, wire, **says):
        self.network.send_first(transfer.dst, Packet(kind, transfer, transfer.src, wire, **says))

    def take_segment(self, transfer, pair, number):
        new = number not in pair.arrived
        pair.arrived.add(number)
        if len(pair.arrived) == transfer.segments and (not new or self.network.delivered(transfer)):
            self.reply(transfer, "done", self.network.bare)

    def take_probe(self, transfer, pair):
        """Answers a probe with the missing segments: one bit for each segment after the first missing one, up to a full packet."""
        network = self.network
        missing = [segment for segment in range(transfer.segments) if segment not in pair.arrived]
        if missing:
            missing = [segment for segment in missing if segment - missing[0] < 8 * network.mss]
            bits = missing[-1] + 1 - missing[0]
            self.reply(transfer, "missing", network.wire(-(-bits // 8)), segments=missing)
        else:
            self.reply(transfer, "done", network.bare)

    # The arbiter.

    def arrive_outside(self, packet):
        now, demands = self.network.now(), packet.says["demands"]
        self.link_in_free = max(self.link_in_free, now) + packet.wire * self.link.byte
        there = self.link_in_free + self.link.propagation
        self.served = max(self.served, there) + self.network.case["processing_ps"] * len(demands)
        self.network.at(self.served, self.take_demands, demands)

    def take_demands(self, demands):
        for demand in demands:
            # A repeated request for a transfer that is in the backlog has no effect.
            if not any(other.transfer is demand.transfer for other in self.backlog):
                self.backlog.append(demand)
        if not self.batch_due:
            now = self.network.now()
            after = now if self.last_batch is None else self.last_batch + self.batch * self.slot
            self.batch_due = True
            self.network.at(max(after, now), self.match)

    def match(self):
        """Assigns the slots of a batch: each demand in turn gets the first slot in which its source and destination are free."""
        now, network = self.network.now(), self.network
        self.last_batch = now
        given, without, turns = [], [], self.backlog
        while turns:
            demand = turns.pop(0)
            src, dst = demand.transfer.src, demand.transfer.dst
            slot = self.first_free(given, src, dst)
            if slot is None:
                without.append(demand)
                continue
            given.append((src, slot, dst, demand.transfer))
            demand.slots -= 1
            if demand.slots:
                turns.append(demand)
        self.backlog = without
        self.tell(given)
        self.batch_due = bool(self.backlog)
        if self.batch_due:
            network.at(now + self.batch * self.slot, self.match)

    def first_free(self, given, src, dst):
        for slot in range(self.batch):
            taken = any(other == slot and (s == src or d == dst) for s, other, d, _ in given)
            if not taken:
                return slot
        return None

    def tell(self, given):
        """Sends a packet to every node that got a slot. No slot begins before the last of these packets has arrived."""
        now, word = self.network.now(), self.wire * self.link.byte
        sources = sorted({src for src, *_ in given})
        begin = max(self.link_out_free, now)
        self.link_out_free = begin + word * len(sources)
        everybody_knows = self.link_out_free + self.link.propagation + self.distance + self.last_link
        first = max(self.slots_until, everybody_knows)
        self.slots_until = first + self.batch * self.slot
        for nth, src in enumerate(sources, 1):
            mine = sorted((slot, number) for number, (s, slot, *_) in enumerate(given) if s == src)
            slots = [(first + slot * self.slot, given[number][3]) for slot, number in mine]
            at = begin + nth * word + self.link.propagation + self.distance
            self.send_word(at, src, slots)

    def send_word(self, at, node, slots):
        network = self.network
        packet = Packet("slots", slots[0][1], node, self.wire, slots=slots)
        port = network.ports[network.topology.route(network.topology.switch_of(node), node, 0)]
        network.at(at, network.reach, port, packet)


def completions(case):
    return Network(case, Fastpass, lambda network, port: StrictPriority(case["buffer"])).completions()
