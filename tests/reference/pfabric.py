"""pfabric: Alizadeh et al., SIGCOMM 2013.

Switches forward first the packet whose transfer has the fewest segments left (§4.1). Senders start at line rate and slow
down on timeouts (§4.2).
"""

from packets import Network, Packet
from queues import SmallestFirst
from silence import Silence

TIMEOUTS_BEFORE_PROBE = 5
STEADY = 1024  # consecutive timeouts of constant length; each later one doubles


class Sender:
    def __init__(self, transfer, window, rto, salt):
        self.transfer, self.window, self.rto = transfer, window, rto
        self.acknowledged, self.outstanding = set(), set()
        self.threshold = float("inf")
        self.since_growth = 0
        self.timeouts, self.probe_owed = 0, False
        self.silence = Silence(rto, STEADY, salt)
        self.deadline = None

    def left(self):
        return self.transfer.segments - len(self.acknowledged)

    def is_done(self):
        return self.left() == 0 or self.silence.has_ended

    def is_probing(self):
        return self.timeouts >= TIMEOUTS_BEFORE_PROBE

    def to_send(self):
        """Returns the first segment that is neither acknowledged nor in flight, or None."""
        for segment in range(self.transfer.segments):
            if segment not in self.acknowledged and segment not in self.outstanding:
                return segment
        return None

    def is_ready(self):
        if self.is_done():
            return False
        if self.is_probing():
            return self.probe_owed
        return len(self.outstanding) < self.window and self.to_send() is not None


class Pfabric:
    sides = ("sender",)

    def __init__(self, network):
        self.network = network
        self.rto = network.case["timeout_ps"] or network.patience()
        self.senders, self.arrived = {}, {}

    def open(self, transfer):
        salt = self.network.salt(transfer, "sender")
        self.senders[transfer] = Sender(transfer, self.network.window(), self.rto, salt)
        self.arrived[transfer] = set()

    def ready(self, node):
        return [s for s in self.senders.values() if s.transfer.src == node and s.is_ready()]

    def has_more(self, node):
        return bool(self.ready(node))

    def choose(self, node):
        ready = self.ready(node)
        if not ready:
            return None
        sender = min(ready, key=lambda s: (s.left(), s.transfer.number))
        if sender.deadline is None:
            self.set_deadline(sender, self.network.now() + sender.rto)
        transfer = sender.transfer
        if sender.probe_owed:
            sender.probe_owed = False
            return Packet("probe", transfer, transfer.dst, self.network.bare, rank=sender.left())
        segment = sender.to_send()
        sender.outstanding.add(segment)
        return self.network.segment(transfer, segment, sender.left())

    def set_deadline(self, sender, deadline):
        sender.deadline = deadline
        self.network.watch(sender.transfer)

    def deadline(self, transfer, _side):
        return self.senders[transfer].deadline

    def expire(self, transfer, _side):
        sender = self.senders[transfer]
        if sender.is_done():
            return
        sender.timeouts += 1
        sender.threshold = max(sender.window // 2, 1)
        sender.window, sender.since_growth = 1, 0
        sender.outstanding.clear()
        if not sender.silence.goes_on():
            self.set_deadline(sender, None)
            self.network.give_up(transfer)
            return
        sender.probe_owed = sender.is_probing()
        self.set_deadline(sender, self.network.now() + sender.silence.timeout())

    def receive(self, packet):
        transfer = packet.transfer
        if packet.kind == "ack":
            self.acknowledge(transfer, packet.says["segments"])
            return
        arrived = self.arrived[transfer]
        what = []
        if packet.kind == "segment":
            what = [packet.says["number"]]
            before = len(arrived)
            arrived.add(packet.says["number"])
            if before < len(arrived) == transfer.segments and not self.network.delivered(transfer):
                return
        if len(arrived) == transfer.segments:
            what = range(transfer.segments)
        ack = Packet("ack", transfer, transfer.src, self.network.bare, segments=what)
        self.network.send_first(transfer.dst, ack)

    def answered(self, request):
        self.acknowledge(request, range(request.segments))

    def acknowledge(self, transfer, segments):
        sender = self.senders[transfer]
        if sender.is_done():
            return
        new = any(segment not in sender.acknowledged for segment in segments)
        sender.acknowledged.update(segments)
        sender.outstanding.difference_update(segments)
        sender.timeouts, sender.probe_owed = 0, False
        if new:
            sender.silence.end()
            sender.since_growth += 1
            if sender.window < sender.threshold or sender.since_growth >= sender.window:
                sender.window += 1
                sender.since_growth = 0
        self.set_deadline(sender, self.network.now() + sender.rto if sender.outstanding else None)


def completions(case):
    return Network(
        case, Pfabric, lambda network, port: SmallestFirst(case["buffer"]), sprays=False
    ).completions()
