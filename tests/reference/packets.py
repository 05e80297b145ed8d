"""Packet-level network of queues, which pfabric, phost, homa, ird, ndp, fastpass and pfc-dcqcn share.

A node sends one packet after another: control packets first, in the order of their creation, then the packet that the
transport chooses when the link becomes free. A switch port forwards a packet at once if the port is free and no packet
is waiting. Otherwise the packet waits in the port's queue, from which one packet leaves each time the port becomes free.
"""

from engine import ALARM, HERE, MESSAGE, Engine
from silence import salt
from topology import flow_hash, topology

HEADERS = 20 + 20 + 12 + 8 + 14 + 4 + 12  # IP, transport; preamble, Ethernet header, checksum, gap
OUTSIDE = "outside"


class Transfer:
    """Bytes in one direction: a message, or the request or the answer of a message."""

    def __init__(self, number, message, src, dst, size, segments, request=None, answers=None):
        self.number = number  # twice the number of its message, plus 1 for an answer
        self.message, self.src, self.dst = message, src, dst
        self.size, self.segments = size, segments
        self.is_request = request is not None
        self.answer_bytes = request
        self.alarms = {}  # by side
        self.answers = answers  # the request that this transfer answers, until its sender knows of the answer


class Packet:
    def __init__(self, kind, transfer, to, wire, payload=0, rank=0, **says):
        self.kind, self.transfer, self.to = kind, transfer, to
        self.wire, self.payload, self.rank = wire, payload, rank
        self.trimmed = self.marked = False
        self.turn = self.came_by = None
        self.says = says


class Node:
    def __init__(self):
        self.control = []
        self.free, self.waking, self.paused = 0, False, False
        self.sent = 0


class Port:
    def __init__(self, number, network, queue):
        self.number, self.queue = number, queue
        self.link, self.end = network.link(number), network.end(number)
        self.free, self.waking = 0, False


GIVEN_UP = -1


class Network:
    """A network with one transport. `make(network)` creates the transport, and `queue(network, port)` the queue of a port.

    If `sprays` is true, the packets of a node use the paths to their destination in turn. Otherwise all packets of a
    transfer use the same path.
    """

    def __init__(self, case, make, queue, sprays=True):
        self.case, self.engine, self.sprays = case, Engine(), sprays
        self.topology = topology(case)
        headers = case["headers"]
        self.mss = case["mtu"] - 52 if headers else case["mtu"]
        self.overhead, self.least = (HEADERS, 0) if headers else (0, 8)
        self.bare = self.wire(0)
        self.full = self.wire(self.mss)
        self.nodes = [Node() for _ in range(self.topology.nodes)]
        self.ports = [Port(port, self.topology, queue(self, port)) for port in range(self.topology.ports)]
        self.times = [None] * len(case["messages"])
        self.pausing = None
        self.answers, self.touched = [], []
        self.transport = make(self)
        for number, message in enumerate(case["messages"]):
            self.at(message["at_ps"], self.submit, number, message, by=MESSAGE)

    def completions(self):
        self.engine.run(lambda: None not in self.times)
        return self.times

    def now(self):
        return self.engine.now

    def at(self, time, call, *arguments, by=HERE):
        """Schedules an event. After the event, each node that the event has touched sends its next packet, if it has any."""
        self.engine.at(time, self.happens, call, arguments, by=by)

    def happens(self, call, arguments):
        call(*arguments)
        while self.touched:
            number = self.touched.pop()
            self.serve(number, self.nodes[number])

    def touch(self, node):
        """Marks a node as touched by the current event, so that it sends its next packet after the event."""
        self.touched.append(node)

    # Values derived from the network.

    def wire(self, payload):
        return max(self.overhead + payload, self.least)

    def round_trip(self):
        return self.topology.round_trip(self.full, self.bare)

    def full_time(self):
        return self.full * self.topology.host_link.byte

    def window(self):
        """Returns the number of full packets that fill one round trip."""
        return -(-self.round_trip() // self.full_time())

    def patience(self):
        """Returns the larger of three round trips, and one round trip plus the time in which a full port drains."""
        trip, buffer = self.round_trip(), self.case["buffer"]
        port = buffer * self.topology.host_link.byte if buffer < 2**26 else 0
        return max(3 * trip, trip + port)

    # Transfers.

    def submit(self, number, message):
        if message["kind"] in ("read", "rmw"):
            size, answer = message["request"], message["bytes"]
        else:
            size, answer = message["bytes"], None
        self.open(number, message["src"], message["dst"], size, answer, None)

    def open(self, message, src, dst, size, answer, answers):
        segments = max(-(-size // self.mss), 1)
        transfer = Transfer(
            2 * message + (answers is not None), message, src, dst, size, segments, answer, answers
        )
        self.transport.open(transfer)
        self.touch(src)

    def delivered(self, transfer):
        """Records that all of a transfer has arrived. Returns whether its receiver must acknowledge it.

        A request needs no acknowledgement, because its answer acknowledges it.
        """
        if not transfer.is_request:
            if self.times[transfer.message] is None:
                submitted = self.case["messages"][transfer.message]["at_ps"]
                self.times[transfer.message] = self.now() - submitted
            return True
        # The answer starts after the packet that completed the request has been processed.
        self.answers.append(transfer)
        return False

    def give_up(self, transfer):
        """Records that one end of a transfer gave up. The message is lost, unless it has arrived already."""
        if self.times[transfer.message] is None:
            self.times[transfer.message] = GIVEN_UP

    def salt(self, transfer, side):
        return salt(self.case["seed"], transfer.number, side == "receiver")

    def segment(self, transfer, number, rank, **says):
        payload = min(transfer.size - number * self.mss, self.mss)
        return Packet(
            "segment", transfer, transfer.dst, self.wire(payload), payload, rank, number=number, **says
        )

    def send_first(self, node, packet):
        self.nodes[node].control.append(packet)
        self.touch(node)

    def watch(self, transfer):
        """Sets the alarms of a transfer. Must be called when one of its deadlines has changed."""
        for side in self.transport.sides:
            deadline = self.transport.deadline(transfer, side)
            # A deadline that was postponed keeps its earlier alarm, which checks the deadline again.
            if deadline is not None and deadline < transfer.alarms.get(side, float("inf")):
                transfer.alarms[side] = deadline
                self.at(max(deadline, self.now()), self.look, transfer, side, by=ALARM)

    def look(self, transfer, side):
        if self.now() < transfer.alarms.get(side, float("inf")):
            return
        del transfer.alarms[side]
        deadline = self.transport.deadline(transfer, side)
        if deadline is not None and deadline <= self.now():
            self.transport.expire(transfer, side)
            self.touch(transfer.src)
        self.watch(transfer)

    # A node's link.

    def serve(self, number, node):
        if node.waking:
            return
        if node.free <= self.now():
            packet = self.next_packet(number, node)
            if packet is None:
                return
            self.put(number, node, packet)
        if node.control or (not node.paused and self.transport.has_more(number)):
            node.waking = True
            self.at(node.free, self.wake, number)

    def wake(self, number):
        self.nodes[number].waking = False
        self.touch(number)

    def next_packet(self, number, node):
        if node.control:
            return node.control.pop(0)
        return None if node.paused else self.transport.choose(number)

    def put(self, number, node, packet):
        host = self.topology.host_link
        node.sent += 1
        packet.turn = node.sent if self.sprays else flow_hash(packet.transfer.number)
        packet.came_by = "node", number
        node.free = self.now() + packet.wire * host.byte
        if packet.to == OUTSIDE:
            self.at(node.free + self.transport.way_outside(), self.transport.arrive_outside, packet)
            return
        self.send_on(packet, host, self.topology.switch_of(number))

    def send_on(self, packet, this, switch, by=HERE):
        """Sends a packet, which leaves now, over a link to a switch."""
        port = self.ports[self.topology.route(switch, packet.to, packet.turn)]
        there = self.topology.ready(self.now(), packet.wire, this, port.link)
        self.engine.at(there, self.reach, port, packet, by=by)

    # A switch port.

    def reach(self, port, packet):
        passes = port.free <= self.now() and not port.queue.can_send() and port.queue.passes(packet)
        if packet.payload > 0:
            ahead = max(port.free - self.now(), 0) // port.link.byte
            ahead += sum(waiting.wire for waiting in port.queue.all())
            if port.queue.marks(0 if passes else ahead):
                packet.marked = True
        if passes:
            self.depart(port, packet)
            return
        port.queue.add(packet)
        if self.pausing:
            self.pausing.changed(packet)
        self.drain_when_free(port)

    def drain_when_free(self, port):
        if not port.waking and port.queue.can_send():
            port.waking = True
            self.engine.at(max(port.free, self.now()), self.drain, port)

    def drain(self, port):
        if port.free > self.now():
            self.engine.at(port.free, self.drain, port)
            return
        port.waking = False
        packet = port.queue.take()
        if packet is None:
            return
        if self.pausing:
            self.pausing.changed(packet)
        self.depart(port, packet)
        self.drain_when_free(port)

    def depart(self, port, packet):
        packet.came_by = "port", port.number
        port.free = self.now() + packet.wire * port.link.byte
        what, number = port.end
        if what == "node":
            self.at(port.free + port.link.propagation, self.arrive, packet)
        else:
            self.send_on(packet, port.link, number, port.number)

    def arrive(self, packet):
        transfer = packet.transfer
        if transfer.answers and packet.to == transfer.dst:
            request, transfer.answers = transfer.answers, None
            self.transport.answered(request)
        self.transport.receive(packet)
        self.touch(packet.to)
        while self.answers:
            request = self.answers.pop()
            self.open(request.message, request.dst, request.src, request.answer_bytes, None, request)
