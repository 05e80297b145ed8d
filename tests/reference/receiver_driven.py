"""phost (Gao et al., CoNEXT 2015), homa (Montazeri et al., SIGCOMM 2018) and ird (EDM §4.3): receiver-driven transports.

A transfer may send its first segments unsolicited; each later segment needs a grant of the receiver. Among the transfers that
may send, a node chooses the one with the fewest segments that were never sent, and among equals the one that was opened first.
Grants, announcements and acknowledgements are sent before all data.
"""

from packets import Network, Packet
from queues import StrictPriority
from silence import Silence

STEADY = 64  # consecutive timeouts of constant length without a response; each later one doubles


class Pair:
    """Both ends of a transfer: the sender's and the receiver's state."""

    def __init__(self, transfer, unasked, now, timeout, patience, expiry, salts, steady):
        self.transfer = transfer
        unasked = range(min(unasked, transfer.segments))
        # State of the sender. `granted` has [segment, rank of the grant, time of expiry] in order.
        self.unasked = list(unasked)
        self.granted = []
        self.ever_allowed = set(unasked)
        self.sent = set()
        self.expiry = expiry
        self.allowed_until = now + (len(unasked) * expiry["pace"] if expiry else 0)
        self.is_done = False
        self.silence = Silence(patience, 0, salts[0])
        self.asks_at = now + patience
        # State of the receiver.
        self.known = False
        self.arrived = set()
        self.outstanding = set(unasked)
        self.unasked_awaited = set(unasked)
        self.latest = -1  # highest arrived segment of those granted since the last `forget`
        self.gives_up_at = None
        self.granted_at = 0
        self.grants_in_vain = Silence(timeout, steady, salts[1])

    def is_ready(self):
        return not self.is_done and bool(self.unasked or self.granted)

    def unsent(self):
        return self.transfer.segments - len(self.sent)

    def left(self):
        return self.transfer.segments - len(self.arrived)

    def is_over(self):
        return not self.left() or self.grants_in_vain.has_ended

    def counts_as(self):
        """Returns the number of segments left, by which transfers are ordered. A silent transfer counts as the largest."""
        return 2**32 - 1 if self.is_silent() else self.left()

    def is_silent(self):
        return self.grants_in_vain.timeouts >= STEADY

    def to_grant(self):
        """Returns the segments that have not arrived and are not granted."""
        every = range(self.transfer.segments)
        return [segment for segment in every if segment not in self.arrived | self.outstanding]

    def unanswered(self):
        """Returns the number of outstanding segments that come after the latest arrived one."""
        return sum(segment > self.latest for segment in self.outstanding)


class ReceiverDriven:
    sides = ("sender", "receiver")
    steady = STEADY
    timeout = patience = None  # of granted segments; and while unsolicited segments are awaited

    def __init__(self, network):
        self.network = network
        self.pairs = {}
        self.unasked = network.window()
        self.next_grant = [0] * len(network.nodes)
        self.grant_due = [None] * len(network.nodes)
        # By receiver: the end of the latest arrival, and the end of the link's latest idle time.
        self.last_arrival = [0] * len(network.nodes)
        self.idle_at = [0] * len(network.nodes)

    def open(self, transfer):
        network = self.network
        salts = [network.salt(transfer, side) for side in self.sides]
        times = self.timeout, self.patience, self.expiry
        pair = Pair(transfer, self.unasked, network.now(), *times, salts, self.steady)
        self.pairs[transfer] = pair
        network.watch(transfer)
        if self.announces:
            self.announce(transfer)

    def announce(self, transfer, again=False):
        bare = self.network.bare
        self.network.send_first(transfer.src, Packet("announce", transfer, transfer.dst, bare, again=again))

    # The sender.

    def ready(self, node):
        return [p for p in self.pairs.values() if p.transfer.src == node and p.is_ready()]

    def has_more(self, node):
        return bool(self.ready(node))

    def choose(self, node):
        while ready := self.ready(node):
            pair = min(ready, key=lambda p: (p.unsent(), p.transfer.number))
            transfer = pair.transfer
            if pair.unasked:
                segment, rank = pair.unasked.pop(0), self.unasked_rank(transfer)
            else:
                segment, rank, until = pair.granted.pop(0)
                if until is not None and until < self.network.now():
                    continue
            pair.sent.add(segment)
            self.used(pair)
            return self.network.segment(transfer, segment, rank)
        return None

    def used(self, pair):
        """Called when a packet of this transfer leaves its sender."""

    def issued(self, pair):
        """Called when a grant for this transfer leaves its receiver."""

    def lost(self, pair):
        """Called when the receiver counts all outstanding segments as lost."""

    def ended(self, pair):
        """Called when the sender learns that all segments have arrived."""

    def take_grant(self, pair, segment, rank):
        now = self.network.now()
        if pair.silence.has_ended:
            return
        pair.silence.end()
        pair.asks_at = now + pair.silence.timeout()
        self.network.watch(pair.transfer)
        until = None
        if self.expiry:
            # The grant becomes usable at the time by which all earlier allowed segments could have been sent.
            usable = max(pair.allowed_until, now)
            pair.allowed_until = usable + self.expiry["pace"]
            until = usable + self.expiry["after"]
        if segment in pair.unasked:
            return
        for grant in pair.granted:
            if grant[0] == segment:
                grant[2] = until
                return
        pair.granted.append([segment, rank, until])

    def done(self, transfer):
        pair = self.pairs[transfer]
        pair.is_done = True
        pair.granted = []
        self.ended(pair)

    answered = done

    # Timeouts of the sender and the receiver.

    def deadline(self, transfer, side):
        pair = self.pairs[transfer]
        if side == "sender":
            return None if pair.is_done else pair.asks_at
        return pair.gives_up_at if pair.known and not pair.is_over() else None

    def expire(self, transfer, side):
        pair, now = self.pairs[transfer], self.network.now()
        if side == "sender":
            if pair.is_ready():
                pair.asks_at = now + pair.silence.timeout()
            elif pair.silence.goes_on():
                self.announce(transfer, again=True)
                pair.asks_at = now + pair.silence.timeout()
            else:
                self.done(transfer)
                self.network.give_up(transfer)
            return
        later = self.may_be_queued(pair)
        if later is not None:
            pair.gives_up_at = later
            return
        if pair.outstanding and not pair.grants_in_vain.goes_on():
            self.network.give_up(transfer)
        self.forget(pair)
        pair.gives_up_at = now + pair.grants_in_vain.timeout()
        self.lost(pair)
        self.grant(transfer.dst)

    # The receiver.

    def may_be_queued(self, pair):
        """Returns the time of the next check if granted segments may still wait in the queue before the receiver, otherwise None."""

    def note_arrival(self, packet):
        byte, node, now = self.network.topology.host_link.byte, packet.to, self.network.now()
        began = now - packet.wire * byte
        if began > self.last_arrival[node] + self.network.bare * byte:
            self.idle_at[node] = began
        self.last_arrival[node] = now

    def receive(self, packet):
        self.note_arrival(packet)
        transfer, pair = packet.transfer, self.pairs[packet.transfer]
        if packet.kind == "grant":
            self.take_grant(pair, packet.says["segment"], packet.says["allows"])
        elif packet.kind == "done":
            self.done(transfer)
        else:
            if not pair.known:
                pair.known = True
                pair.granted_at = self.network.now()
                self.count(transfer)
                if packet.kind == "announce" and packet.says["again"]:
                    # A repeated announcement means that all unsolicited segments were lost.
                    self.forget(pair)
                self.wait(pair)
            elif packet.kind == "announce" and pair.is_over():
                self.say_done(transfer)
            elif packet.kind == "announce" and pair.is_silent():
                # The announcement shows that the sender is alive.
                self.forget(pair)
                self.lost(pair)
            if packet.kind == "segment":
                self.take_segment(pair, packet.says["number"])
            self.grant(transfer.dst)

    def forget(self, pair):
        """Counts all outstanding segments as lost."""
        pair.outstanding.clear()
        pair.unasked_awaited.clear()
        pair.latest = -1

    def wait(self, pair):
        wait = self.patience if pair.unasked_awaited else self.timeout
        pair.gives_up_at = self.network.now() + pair.grants_in_vain.of(wait)
        self.network.watch(pair.transfer)

    def take_segment(self, pair, number):
        if pair.grants_in_vain.has_ended:
            self.say_done(pair.transfer)
            return
        if number in pair.outstanding:
            pair.outstanding.remove(number)
            pair.unasked_awaited.discard(number)
            pair.latest = max(pair.latest, number)
        new = number not in pair.arrived
        pair.arrived.add(number)
        if new:
            pair.grants_in_vain.end()
        self.wait(pair)
        if not pair.left() and (not new or self.network.delivered(pair.transfer)):
            self.say_done(pair.transfer)

    def say_done(self, transfer):
        self.network.send_first(transfer.dst, Packet("done", transfer, transfer.src, self.network.bare))

    def candidates(self, node):
        """Returns the transfers to a node that have segments to grant, those with the fewest segments left first."""
        known = [p for p in self.pairs.values() if p.known and p.transfer.dst == node and not p.is_over()]
        pairs = [p for p in known if p.to_grant()]
        return sorted(pairs, key=lambda p: (p.counts_as(), p.transfer.number))

    def grant(self, node):
        while choice := self.choice(node):
            pair, rank = choice
            segment = pair.to_grant()[0]
            pair.outstanding.add(segment)
            pair.granted_at = self.network.now()
            until = self.network.now() + pair.grants_in_vain.timeout()
            pair.gives_up_at = max(pair.gives_up_at, until)
            self.network.watch(pair.transfer)
            self.issued(pair)
            size = self.network.segment(pair.transfer, segment, 0).wire
            self.next_grant[node] = self.network.now() + size * self.network.topology.host_link.byte
            grant = Packet(
                "grant", pair.transfer, pair.transfer.src, self.network.bare, segment=segment, allows=rank
            )
            self.network.send_first(node, grant)
        self.grant_later(node)


class Paced(ReceiverDriven):
    """Grants one segment at a time, paced by the time of its packet, to the transfer with the fewest segments left."""

    def choice(self, node):
        if self.network.now() < self.next_grant[node]:
            return None
        eligible = self.eligible(node)
        return (eligible[0], self.rank) if eligible else None

    def grant_later(self, node):
        due = self.grant_due[node]
        at = self.next_grant[node]
        if at > self.network.now() and self.eligible(node) and (due is None or at < due):
            self.grant_due[node] = at
            self.network.at(at, self.grant_now, node)

    def grant_now(self, node):
        if self.grant_due[node] == self.network.now():
            self.grant_due[node] = None
            self.grant(node)


class Phost(Paced):
    """pHost: a receiver issues one token in the time of a packet, to the transfer with the fewest segments left (§3.2, §3.3)."""

    announces = True
    rank = 2
    steady = 8

    def __init__(self, network):
        super().__init__(network)
        case, packet = network.case, network.full_time()
        after = case["token_expiry_ps"]
        self.expiry = {"pace": packet, "after": packet * 3 // 2 if after is None else after}
        # §4.1: three round trips. Many senders may use free tokens at the same time, so these segments may wait in a full port.
        self.timeout = case["timeout_ps"] or 3 * network.round_trip()
        self.patience = case["timeout_ps"] or network.patience()
        self.looks_for_idle_times = not case["timeout_ps"]

    def may_be_queued(self, pair):
        if not self.looks_for_idle_times or not pair.outstanding:
            return None
        network, node = self.network, pair.transfer.dst
        now, trip = network.now(), network.round_trip()
        # A packet may be on the link now, so the link counts as idle only after the time of a full packet.
        is_idle = now > self.last_arrival[node] + network.full_time()
        if is_idle or self.idle_at[node] >= pair.granted_at + trip:
            return None
        latest = pair.granted_at + self.patience
        return min(latest, now + trip) if now < latest else None

    def unasked_rank(self, transfer):
        return 1 if transfer.segments <= self.unasked else 2

    def count(self, transfer):
        pass

    def eligible(self, node):
        # §3.3: skip a source that leaves a bandwidth-delay product of tokens unanswered.
        return [pair for pair in self.candidates(node) if pair.unanswered() < self.unasked]


MOST_CREDITS = 8


class Ird(Paced):
    """Ideal receiver-driven transport: receivers know at once of new transfers, and of all credits of each sender (EDM §4.3).

    In addition to the credits in flight, a sender has at most eight credits from all receivers together (ExpressPass §3.1). A
    receiver gives its next credit to the transfer with the least left whose sender has room. If no sender has room, the receiver
    waits. When a sender gets room, the waiting transfer with the least left is served first. The limit of outstanding segments of a
    receiver is half of its port's buffer, or a round trip if that is more. Credits of larger transfers do not count, where sizes
    are compared by powers of two.
    """

    announces = False
    expiry = None
    rank = 1

    def __init__(self, network):
        super().__init__(network)
        self.unasked = 0
        byte = network.topology.host_link.byte
        flight = network.topology.crossing(network.bare, 0, len(network.nodes) - 1)
        self.most_at_sender = flight + MOST_CREDITS * network.full * byte
        room = max(network.case["buffer"] - network.full, 0) // 2
        # If buffers are unlimited, the outstanding segments of a receiver are unlimited too.
        least = 10**9 if room >= 2**31 else 0
        self.timeout = self.patience = max(least, network.patience())
        self.most_outstanding = max(network.round_trip(), room * byte)
        self.credits = {}  # by transfer: credits issued and not used
        self.waits = [False] * len(network.nodes)  # by receiver: its latest turn found none to grant

    def open(self, transfer):
        super().open(transfer)
        pair = self.pairs[transfer]
        pair.known = True
        self.wait(pair)
        self.grant(transfer.dst)

    def candidates(self, node):
        return sorted(super().candidates(node), key=self.turn)

    def eligible(self, node):
        return self.candidates(node)

    def time(self, pair):
        """Returns the time of the transfer's first packet on a node's link, which stands for all its packets."""
        return self.network.segment(pair.transfer, 0, 0).wire * self.network.topology.host_link.byte

    def size(self, pair):
        return (pair.counts_as() * self.time(pair)).bit_length()

    def turn(self, pair):
        return (self.size(pair), pair.counts_as(), pair.transfer.number)

    def no_larger(self, pair, credits):
        return sum(count * self.time(of) for of, count in credits if self.size(of) <= self.size(pair))

    def has_room(self, pair):
        credits = [(of, count) for of, count in self.credits.items() if of.transfer.src == pair.transfer.src]
        return self.no_larger(pair, credits) + self.network.full_time() <= self.most_at_sender

    def is_booked(self, pair):
        pairs = [of for of in self.pairs.values() if of.transfer.dst == pair.transfer.dst]
        return self.no_larger(pair, [(of, len(of.outstanding)) for of in pairs]) > self.most_outstanding

    def choice(self, node):
        if self.network.now() < self.next_grant[node]:
            return None
        may_have = [
            pair for pair in self.candidates(node) if self.has_room(pair) and not self.is_booked(pair)
        ]
        self.waits[node] = not may_have
        return (may_have[0], self.rank) if may_have else None

    # Credits of a sender.

    def issued(self, pair):
        self.credits[pair] = self.credits.get(pair, 0) + 1

    def used(self, pair):
        self.keep(pair, max(self.credits.get(pair, 0) - 1, 0))

    def lost(self, pair):
        # Only the grants that the sender still has remain. The receiver gets its turn after the others.
        self.waits[pair.transfer.dst] = False
        self.keep(pair, min(self.credits.get(pair, 0), len(pair.granted)))

    def ended(self, pair):
        self.keep(pair, 0)

    def keep(self, pair, left):
        """Sets the number of credits of a transfer. If its sender gets room by that, waiting receivers grant other transfers."""
        self.credits[pair] = left
        sender, tried = pair.transfer.src, set()
        while True:
            waiting = [
                of for node in range(len(self.waits)) if self.waits[node] for of in self.candidates(node)
            ]
            waiting = [of for of in waiting if of.transfer.src == sender and of not in tried]
            first = min(waiting, key=lambda of: (*self.turn(of), of.transfer.dst), default=None)
            if first is None or not self.has_room(first):
                return
            tried.add(first)
            self.grant(first.transfer.dst)


RANKS = 7
LOOK_EVERY = 256


class Homa(ReceiverDriven):
    """Homa: grants to the few transfers with the fewest segments left (§3.5), each at a different rank (§3.4)."""

    announces = False
    expiry = None

    def __init__(self, network):
        super().__init__(network)
        self.timeout = self.patience = network.case["timeout_ps"]
        self.sizes = [[] for _ in network.nodes]
        self.of_unasked = [RANKS // 2 for _ in network.nodes]
        self.cutoffs = [{} for _ in network.nodes]

    def unasked_rank(self, transfer):
        cutoffs = self.cutoffs[transfer.dst]
        return min(cutoffs.get(transfer.segments.bit_length(), 1), self.of_unasked[transfer.dst])

    def count(self, transfer):
        """Counts a new transfer. After every 256 transfers, computes the cutoffs from all transfers so far."""
        node = transfer.dst
        sizes = self.sizes[node]
        sizes.append(transfer.segments)
        if len(sizes) % LOOK_EVERY:
            return
        unasked = [min(size, self.unasked) for size in sizes]
        share = RANKS * sum(unasked) // sum(sizes)
        self.of_unasked[node] = min(max(share, 1), RANKS - 1)
        before = 0
        for bits in range(33):
            # Sum over all sizes with this number of bits.
            of_bits = sum(
                part for part, size in zip(unasked, sizes, strict=True) if size.bit_length() == bits
            )
            middle = before + of_bits // 2
            self.cutoffs[node][bits] = 1 + middle * self.of_unasked[node] // sum(unasked)
            before += of_bits

    def choice(self, node):
        best = self.candidates(node)[: RANKS - self.of_unasked[node]]
        for place, pair in enumerate(best):
            if len(pair.outstanding) < self.unasked:
                # Use the lowest ranks that suffice for these transfers.
                return pair, RANKS - (len(best) - 1 - place)
        return None

    def grant_later(self, node):
        pass


PROTOCOLS = {"phost": Phost, "homa": Homa, "ird": Ird}


def completions(case):
    protocol = PROTOCOLS[case["fabric"]]
    return Network(case, protocol, lambda network, port: StrictPriority(case["buffer"])).completions()
