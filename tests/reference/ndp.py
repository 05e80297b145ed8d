"""ndp: Handley et al., SIGCOMM 2017.

A full switch cuts arriving packets to their headers (§3.1). Receivers pull the later packets one at a time (§3.2). The
transfers of a node take turns on its link, with one packet each. Packets without payload are sent before data.
"""

from packets import Network, Packet
from queues import Queue
from silence import LONGEST, Silence

HEADERS_PER_DATA = 10
STEADY = 64  # consecutive rounds of timeouts of constant length without a response; each later one doubles


class Trimming(Queue):
    """Queue in which headers and control leave first, except that one data packet leaves after ten of them."""

    def __init__(self, network):
        super().__init__(network.case["buffer"])
        self.data_packets, self.bare = network.case["data_packets"], network.bare
        self.headers_in_a_row = 0

    def data(self):
        return [packet for packet in self.waiting if packet.rank > 0]

    def add(self, packet):
        data = self.data()
        # §3.1: the header queue and the data queue have the same amount of memory. One data packet may always wait.
        fits = not data or sum(other.wire for other in data) + packet.wire <= self.limit // 2
        trims = packet.rank > 0 and (len(data) >= self.data_packets or not fits)
        if not self.has_room(self.bare if trims else packet.wire):
            return
        if trims:
            packet.wire, packet.payload, packet.rank, packet.trimmed = self.bare, 0, 0, True
        self.waiting.append(packet)

    def take(self):
        data = self.data()
        headers = [packet for packet in self.waiting if packet.rank == 0]
        if headers and not (data and self.headers_in_a_row >= HEADERS_PER_DATA):
            packet = headers[0]
            self.headers_in_a_row += 1
        else:
            packet = data[0]
            self.headers_in_a_row = 0
        self.waiting.remove(packet)
        return packet


class Pair:
    """Both ends of a transfer: the sender's and the receiver's state."""

    def __init__(self, transfer, window, rto, idle, now, salt):
        self.transfer = transfer
        # State of the sender.
        self.acknowledged = set()
        self.outstanding = []  # (time of sending, segment), oldest first
        self.again = []
        self.new = list(range(transfer.segments))
        self.allowed = min(window, transfer.segments)
        self.pulled = 0
        self.silence, self.round_ends = Silence(rto, STEADY, salt), 0
        self.idle, self.idle_since = idle, now
        # State of the receiver.
        self.arrived = set()
        self.pulls = 0

    def is_done(self):
        return len(self.acknowledged) == self.transfer.segments or self.silence.has_ended

    def is_ready(self):
        return self.allowed > 0 and bool(self.again or self.new)

    def allow(self, packets):
        """Allows further packets, but not more than are left: a pull may arrive before the report that it belongs to."""
        left = len(self.again) + len(self.outstanding) + len(self.new)
        self.allowed = min(self.allowed + packets, left)

    def lands(self, number):
        """Removes a segment from those in flight. Returns whether it was in flight."""
        found = [entry for entry in self.outstanding if entry[1] == number]
        self.outstanding = [entry for entry in self.outstanding if entry[1] != number]
        return bool(found)


class Ndp:
    sides = ("sender",)

    def __init__(self, network):
        self.network = network
        self.rto = network.case["timeout_ps"]
        self.idle = self.rto + 2 * len(network.nodes) * network.full_time()
        self.pairs = {}
        self.turns = [[] for _ in network.nodes]
        # By receiver: the transfers in turn, each with the number of pulls that are due to it.
        self.owed = [[] for _ in network.nodes]
        self.next_pull = [0] * len(network.nodes)
        self.pull_due = [False] * len(network.nodes)

    def open(self, transfer):
        network = self.network
        salt = network.salt(transfer, "sender")
        self.pairs[transfer] = Pair(transfer, network.window(), self.rto, self.idle, network.now(), salt)
        network.watch(transfer)
        self.queue_up(transfer)

    # The sender.

    def queue_up(self, transfer):
        turns = self.turns[transfer.src]
        if self.pairs[transfer].is_ready() and transfer not in turns:
            turns.append(transfer)

    def has_more(self, node):
        return bool(self.turns[node])

    def choose(self, node):
        while self.turns[node]:
            transfer = self.turns[node].pop(0)
            pair = self.pairs[transfer]
            if not pair.is_ready():
                continue
            pair.allowed -= 1
            segment = pair.again.pop(0) if pair.again else pair.new.pop(0)
            pair.outstanding.append((self.network.now(), segment))
            self.queue_up(transfer)
            self.network.watch(transfer)
            return self.network.segment(transfer, segment, 1)
        return None

    def deadline(self, transfer, _side):
        pair = self.pairs[transfer]
        if pair.is_done():
            return None
        if pair.outstanding:
            return pair.outstanding[0][0] + pair.silence.timeout()
        return pair.idle_since + pair.idle

    def expire(self, transfer, _side):
        """Retransmits the segments that have timed out, without a pull. If no segment is in flight, allows one packet."""
        pair, now = self.pairs[transfer], self.network.now()
        if not pair.outstanding:
            pair.idle_since = now
            if pair.is_ready():
                return
            pair.idle = min(2 * pair.idle, LONGEST)
        wait = pair.silence.timeout()
        if now >= pair.round_ends:
            if not pair.silence.goes_on():
                pair.allowed = 0
                self.network.give_up(transfer)
                return
            pair.round_ends = now + pair.silence.timeout()
        lost = [segment for sent, segment in pair.outstanding if sent + wait <= now]
        pair.outstanding = pair.outstanding[len(lost) :]
        pair.again += lost
        pair.allow(max(len(lost), 1))
        self.queue_up(transfer)

    def answered(self, request):
        pair = self.pairs[request]
        pair.acknowledged = set(range(request.segments))
        pair.again, pair.outstanding = [], []

    def receive(self, packet):
        transfer, pair = packet.transfer, self.pairs[packet.transfer]
        if packet.kind == "segment":
            self.take_segment(packet, transfer, pair)
            return
        if packet.kind == "done":
            self.answered(transfer)
            return
        number = packet.says["number"]
        pair.idle_since = self.network.now()
        if packet.kind == "ack":
            pair.lands(number)
            if number not in pair.acknowledged:
                pair.acknowledged.add(number)
                pair.silence.end()
            pair.again = [segment for segment in pair.again if segment != number]
        elif packet.kind == "nack":
            if pair.lands(number) and number not in pair.acknowledged:
                pair.again.append(number)
        elif not pair.silence.has_ended:
            pair.allow(max(number - pair.pulled, 0))
            pair.pulled = max(pair.pulled, number)
        self.network.watch(transfer)
        self.queue_up(transfer)

    # The receiver.

    def reply(self, transfer, kind, number):
        reply = Packet(kind, transfer, transfer.src, self.network.bare, number=number)
        self.network.send_first(transfer.dst, reply)

    def take_segment(self, packet, transfer, pair):
        number, owed = packet.says["number"], self.owed[transfer.dst]
        known = number in pair.arrived
        new = not packet.trimmed and not known
        if not packet.trimmed:
            pair.arrived.add(number)
        if len(pair.arrived) == transfer.segments:
            owed[:] = [turn for turn in owed if turn[0] is not transfer]
            if not new or self.network.delivered(transfer):
                self.reply(transfer, "done", None)
            return
        if known:
            # The segment was retransmitted without a pull, so it causes no pull.
            self.reply(transfer, "ack", number)
            return
        for turn in owed:
            if turn[0] is transfer:
                turn[1] += 1
                break
        else:
            owed.append([transfer, 1])
        self.pull(transfer.dst)
        self.reply(transfer, "nack" if packet.trimmed else "ack", number)

    def pull(self, node):
        """Sends at most one pull in the time of a full packet; the transfers of the node take turns."""
        owed, now = self.owed[node], self.network.now()
        if owed and now >= self.next_pull[node]:
            transfer, pulls = owed.pop(0)
            if pulls > 1:
                owed.append([transfer, pulls - 1])
            self.pairs[transfer].pulls += 1
            self.reply(transfer, "pull", self.pairs[transfer].pulls)
            self.next_pull[node] = now + self.network.full_time()
        if owed and not self.pull_due[node]:
            self.pull_due[node] = True
            self.network.at(self.next_pull[node], self.pull_now, node)

    def pull_now(self, node):
        self.pull_due[node] = False
        self.pull(node)


def completions(case):
    return Network(case, Ndp, lambda network, port: Trimming(network)).completions()
