"""tcp and dctcp: each message is a stream; a read has one stream for its request and one for its answer.

Switches queue at their outputs, first in, first out. A hash of the stream's number selects the path of all its packets and
acknowledgements. Packets queue on a node's link first in, first out. A stream waits for its turn if more than two full packets
are queued there or other streams are waiting; when the queue has been sent, the waiting streams take turns of two packets. The
first packet of the answer acknowledges the rest of the request.
"""

from collections import deque

from engine import ALARM, HERE, MESSAGE, Engine
from sender import Dctcp, NewReno, Receiver, Sender
from silence import salt
from topology import flow_hash, topology

HEADERS = 20 + 20 + 12 + 8 + 14 + 4 + 12  # IP, TCP, timestamps; preamble, Ethernet header, checksum, gap
TURN = 2


class Stream:
    def __init__(self, network, message, src, dst, size, kind, request=None):
        case = network.case
        self.network, self.message = network, message
        name = 2 * message + (request is not None)
        self.turn = flow_hash(name)
        self.src, self.dst, self.size, self.kind = src, dst, size, kind
        self.request = request
        self.segments = max(-(-size // network.mss), 1)
        control = Dctcp(case) if case["fabric"] == "dctcp" else NewReno(case)
        first = min(max(3 * network.round_trip(), case["min_rto_ps"]), network.max_rto)
        least, most = case["min_rto_ps"], network.max_rto
        self.sender = Sender(control, self.segments, first, least, most, salt(case["seed"], name))
        self.receiver = Receiver()
        self.waits = False
        self.alarm = None

    def payload(self, segment):
        return min(self.size - segment * self.network.mss, self.network.mss)


class Nic:
    def __init__(self):
        self.free, self.waiting, self.refilling = 0, deque(), False


class Network:
    def __init__(self, case):
        self.case, self.engine = case, Engine()
        self.topology = topology(case)
        self.byte = self.topology.host_link.byte
        self.mss = case["mtu"] - 52
        self.full = self.mss + HEADERS
        self.max_rto = 60 * 10**12
        self.nics = [Nic() for _ in range(self.topology.nodes)]
        self.port_free = [0] * self.topology.ports
        self.times = [None] * len(case["messages"])
        for number, message in enumerate(case["messages"]):
            self.engine.at(message["at_ps"], self.submit, number, message, by=MESSAGE)

    def completions(self):
        self.engine.run(lambda: None not in self.times)
        return self.times

    def round_trip(self):
        return self.topology.round_trip(self.full, HEADERS)

    def submit(self, number, message):
        src, dst = message["src"], message["dst"]
        if message["kind"] in ("read", "rmw"):
            self.send(Stream(self, number, src, dst, message["request"], "request"))
        else:
            self.send(Stream(self, number, src, dst, message["bytes"], "data"))

    # A node's link.

    def send(self, stream):
        if stream.waits or not stream.sender.is_ready():
            return
        nic = self.nics[stream.src]
        queued = max(nic.free - self.engine.now, 0) // self.byte
        is_open = not nic.waiting and queued < TURN * self.full
        if not is_open or self.take_turn(stream):
            stream.waits = True
            nic.waiting.append(stream)
            self.schedule_refill(nic)

    def take_turn(self, stream):
        """Sends up to two packets of a stream. Returns whether it has more to send."""
        sent = 0
        while sent < TURN:
            segment = stream.sender.transmit(self.engine.now)
            if segment is None:
                break
            payload = stream.payload(segment)
            data = {"segment": segment, "sent": self.engine.now, "marked": False}
            self.put(stream, stream.src, stream.dst, HEADERS + payload, data=data)
            sent += 1
        self.set_timer(stream)
        return sent == TURN and stream.sender.is_ready()

    def schedule_refill(self, nic):
        if not nic.refilling:
            nic.refilling = True
            self.engine.at(max(nic.free, self.engine.now), self.refill, nic)

    def refill(self, nic):
        nic.refilling = False
        while nic.waiting:
            stream = nic.waiting.popleft()
            if self.take_turn(stream):
                nic.waiting.append(stream)
            else:
                stream.waits = False
            if nic.free > self.engine.now:
                break
        if nic.waiting:
            self.schedule_refill(nic)

    # Packets.

    def put(self, stream, src, dst, wire, data=None, ack=None):
        nic = self.nics[src]
        first = max(nic.free, self.engine.now)
        nic.free = first + wire * self.byte
        self.send_on(
            first, self.topology.host_link, self.topology.switch_of(src), stream, dst, wire, data, ack
        )

    def send_on(self, first, link, switch, stream, dst, wire, data, ack, by=HERE):
        """Sends a packet, whose first bit leaves at `first`, over a link to a switch."""
        port = self.topology.route(switch, dst, stream.turn)
        there = self.topology.ready(first, wire, link, self.topology.link(port))
        self.engine.at(there, self.forward, port, stream, dst, wire, data, ack, by=by)

    def forward(self, port, stream, dst, wire, data, ack):
        link = self.topology.link(port)
        ahead = max(self.port_free[port] - self.engine.now, 0) // link.byte
        if data and self.case["fabric"] == "dctcp" and ahead > self.case["mark_threshold"]:
            data["marked"] = True
        if ahead + wire > self.case["buffer"]:
            return
        first = max(self.port_free[port], self.engine.now)
        self.port_free[port] = first + wire * link.byte
        what, number = self.topology.end(port)
        if what == "switch":
            self.send_on(first, link, number, stream, dst, wire, data, ack, port)
            return
        there = self.port_free[port] + link.propagation
        if data:
            self.engine.at(there, self.take_data, stream, data)
        else:
            self.engine.at(there, self.take_ack, stream, ack)

    def take_ack(self, stream, ack):
        stream.sender.acknowledge(self.engine.now, ack)
        self.send(stream)

    def take_data(self, stream, data):
        before = stream.receiver.next
        ack = stream.receiver.take(data["segment"], data["sent"], data["marked"])
        complete = before < stream.receiver.next == stream.segments
        if stream.request:
            request, stream.request = stream.request, None
            # All of the request has arrived, because otherwise there would be no answer.
            everything = {"next": request.segments, "echo": self.engine.now, "marked": False, "sack": []}
            self.take_ack(request, everything)
        if complete and stream.kind == "request":
            size = self.case["messages"][stream.message]["bytes"]
            self.send(Stream(self, stream.message, stream.dst, stream.src, size, "data", stream))
            return
        if complete:
            submitted = self.case["messages"][stream.message]["at_ps"]
            self.times[stream.message] = self.engine.now - submitted
        # A retransmitted copy of a request also gets its own acknowledgement.
        self.acknowledge(stream, ack)

    def acknowledge(self, stream, ack):
        option = 4 + 8 * len(ack["sack"]) if ack["sack"] else 0
        self.put(stream, stream.dst, stream.src, HEADERS + option, ack=ack)

    # Timers.

    def set_timer(self, stream):
        deadline = stream.sender.deadline
        if deadline is not None and (stream.alarm is None or deadline < stream.alarm):
            stream.alarm = deadline
            self.engine.at(deadline, self.expire, stream, deadline, by=ALARM)

    def expire(self, stream, alarm):
        if stream.alarm != alarm:
            return
        stream.alarm = None
        if stream.sender.deadline is not None and stream.sender.deadline <= self.engine.now:
            stream.sender.time_out(self.engine.now)
            self.send(stream)
        self.set_timer(stream)


def completions(case):
    return Network(case).completions()
