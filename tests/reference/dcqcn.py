"""pfc-dcqcn: senders slow down when switches mark packets (DCQCN: Zhu et al., SIGCOMM 2015), and links pause before a buffer
is full (priority flow control: IEEE 802.1Q clause 36).

Each transfer is a flow with a separate rate. A node sends from the flow whose next sending time is earliest, and among equals
from the one that was opened first. Control is a separate class, which is sent first and is never paused.
"""

from packets import Network, Packet
from queues import Queue
from silence import Silence

FRAME = 64 + 8 + 12
STEADY = 64  # consecutive timeouts of constant length; each later one doubles


def mix(number):
    """The output function of SplitMix64."""
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


class Lossless(Queue):
    def __init__(self, network, port):
        super().__init__(None)
        self.case, self.port = network.case, port
        self.paused = False
        self.asked = 0

    def data(self):
        return [packet for packet in self.waiting if packet.rank > 0]

    def may_leave(self):
        control = [packet for packet in self.waiting if packet.rank == 0]
        return control + ([] if self.paused else self.data())

    def can_send(self):
        return bool(self.may_leave())

    def passes(self, packet):
        return packet.rank == 0 or not self.paused

    def add(self, packet):
        self.waiting.append(packet)

    def take(self):
        for packet in self.may_leave():
            self.waiting.remove(packet)
            return packet
        return None

    def marks(self, ahead):
        """Returns whether to mark a packet: at random, with a probability that grows with the queue (§3.1, CP algorithm)."""
        case = self.case
        self.asked += 1
        draw = mix(mix(case["seed"] ^ self.port) ^ self.asked) >> 11
        if ahead <= case["k_min"]:
            return False
        if ahead > case["k_max"]:
            return True
        share = (ahead - case["k_min"]) / (case["k_max"] - case["k_min"])
        return draw / 2**53 < share * case["p_max"]


PAUSES = 2**31  # Order of pause frames among the events of a picosecond: after the packets.


class Pausing:
    """Requests the sender of a link to pause when a switch holds too many bytes that arrived over that link."""

    def __init__(self, network):
        self.network, topology = network, network.topology
        latency = network.case["switch_latency_ps"]
        # Headroom for the bytes that arrive after a pause is decided: the pause frame waits for a packet, crosses the link, and
        # finds the sender in the middle of a packet; then the bytes on the link and in the switch's pipeline arrive, and a packet
        # that is stored before it is forwarded.
        headroom = max(
            (2 * link.propagation + latency) // link.byte + 1 + 3 * network.full + FRAME
            for link in (topology.host_link, topology.core_link)
        )
        self.above = network.case["buffer"] - headroom
        self.below = self.above - 2 * network.full
        self.asked = set()

    def switch_behind(self, link):
        topology = self.network.topology
        what, number = link
        return topology.switch_of(number) if what == "node" else topology.end(number)[1]

    def held(self, link):
        """Returns the bytes of data that arrived over this link and wait in its switch."""
        switch, topology = self.switch_behind(link), self.network.topology
        ports = [port for port in self.network.ports if topology.owner(port.number) == switch]
        return sum(packet.wire for port in ports for packet in port.queue.data() if packet.came_by == link)

    def port_back(self, link):
        """Returns the port of the link's switch that leads back to the link's sender."""
        topology = self.network.topology
        what, number = link
        sender = link if what == "node" else ("switch", topology.owner(number))
        switch = self.switch_behind(link)
        ports = [port for port in self.network.ports if topology.owner(port.number) == switch]
        return next(port for port in ports if port.end == sender)

    def changed(self, packet):
        """Sends a pause or a resume if needed, because a packet has joined a queue or left it."""
        if packet.rank == 0:
            return
        link = packet.came_by
        held = self.held(link)
        if link not in self.asked and held > self.above:
            self.asked.add(link)
            self.send(link, True)
        elif link in self.asked and held < self.below:
            self.asked.remove(link)
            self.send(link, False)

    def send(self, link, pause):
        """Sends a pause frame, or one that ends a pause, as soon as the current packet has left the port back to the sender."""
        port = self.port_back(link)
        port.free = max(port.free, self.network.now()) + FRAME * port.link.byte
        what, number = link
        turn = PAUSES + number + (len(self.network.nodes) if what == "port" else 0)
        self.network.at(port.free + port.link.propagation, self.take, link, pause, by=turn)

    def take(self, link, pause):
        what, number = link
        if what == "node":
            self.network.nodes[number].paused = pause
            self.network.touch(number)
        else:
            port = self.network.ports[number]
            port.queue.paused = pause
            self.network.drain_when_free(port)


class Rate:
    """Rate of a sender (§3.1, RP algorithm). Each timer is an event."""

    def __init__(self, network):
        self.network, self.case = network, network.case
        self.line = float(network.case["rate_bps"])
        self.current = self.target = self.line
        self.alpha = 1.0
        self.clocks = 0  # number of the notification that started the current timers
        self.running = False

    def notify(self):
        case = self.case
        if not (case["keep_target"] and self.running and self.by_time == 0):
            self.target = self.current
        self.current = max(self.current * (1 - self.alpha / 2), float(case["additive_increase"]))
        self.alpha = (1 - case["gain"]) * self.alpha + case["gain"]
        self.clocks += 1
        self.running = True
        self.by_time = self.by_bytes = 0
        self.bytes_left = case["byte_counter"]
        self.later(case["alpha_timer_ps"], self.decay)
        self.later(case["increase_timer_ps"], self.time_passed)

    def later(self, after, call):
        self.network.at(self.network.now() + after, self.if_running, call, self.clocks)

    def if_running(self, call, clocks):
        if self.running and self.clocks == clocks:
            call()

    def decay(self):
        self.alpha *= 1 - self.case["gain"]
        self.later(self.case["alpha_timer_ps"], self.decay)

    def time_passed(self):
        self.by_time += 1
        self.later(self.case["increase_timer_ps"], self.time_passed)
        self.increase()

    def sent(self, size):
        if not self.running:
            return
        self.bytes_left -= size
        if self.bytes_left <= 0:
            self.bytes_left = self.case["byte_counter"]
            self.by_bytes += 1
            self.increase()

    def increase(self):
        recovery = self.case["fast_recovery"]
        if min(self.by_time, self.by_bytes) > recovery:
            steps = min(self.by_time, self.by_bytes) - recovery
            self.target += float(steps) * float(self.case["hyper_increase"])
        elif max(self.by_time, self.by_bytes) > recovery:
            self.target += float(self.case["additive_increase"])
        self.target = min(self.target, self.line)
        self.current = (self.target + self.current) / 2
        if self.current > 0.999_999 * self.line:
            self.current = self.line
            self.running = False

    def pace(self, size):
        exact = size * 8e12 / self.current
        whole = int(exact)
        return whole + (exact - whole >= 0.5)


class Flow:
    """Both ends of a transfer: the sender's and the receiver's state."""

    def __init__(self, network, transfer):
        self.transfer = transfer
        self.rate = Rate(network)
        self.allowed_at = network.now()
        self.acknowledged = self.next = 0
        self.deadline = network.now() + network.case["timeout_ps"]
        self.silence = Silence(network.case["timeout_ps"], STEADY, network.salt(transfer, "sender"))
        # State of the receiver.
        self.wanted = 0
        self.asked = False
        self.notifies_at = 0

    def is_done(self):
        return self.acknowledged == self.transfer.segments or self.silence.has_ended

    def is_ready(self):
        return not self.is_done() and self.next < self.transfer.segments


class Dcqcn:
    sides = ("sender",)

    def __init__(self, network):
        self.network = network
        network.pausing = Pausing(network)
        self.flows = {}

    def open(self, transfer):
        self.flows[transfer] = Flow(self.network, transfer)
        self.network.watch(transfer)

    def ready(self, node):
        flows = [flow for flow in self.flows.values() if flow.transfer.src == node and flow.is_ready()]
        return sorted(flows, key=lambda flow: (flow.allowed_at, flow.transfer.number))

    def has_more(self, node):
        return bool(self.ready(node))

    def choose(self, node):
        now = self.network.now()
        for flow in self.ready(node)[:1]:
            if flow.allowed_at > now:
                return None
            packet = self.network.segment(flow.transfer, flow.next, 1)
            flow.next += 1
            self.wait(flow)
            flow.rate.sent(packet.wire)
            flow.allowed_at = now + flow.rate.pace(packet.wire)
            self.network.at(flow.allowed_at, self.network.touch, node)
            return packet
        return None

    def wait(self, flow):
        flow.deadline = self.network.now() + flow.silence.timeout()
        self.network.watch(flow.transfer)

    def deadline(self, transfer, _side):
        flow = self.flows[transfer]
        return None if flow.is_done() else flow.deadline

    def expire(self, transfer, _side):
        flow = self.flows[transfer]
        flow.next = flow.acknowledged
        if not flow.silence.goes_on():
            self.network.give_up(transfer)
            return
        self.wait(flow)

    def answered(self, request):
        self.take_reply(self.flows[request], request.segments, False)

    def take_reply(self, flow, wanted, lost):
        if flow.is_done() or wanted < flow.acknowledged:
            return
        if wanted > flow.acknowledged:
            flow.silence.end()
        flow.acknowledged = wanted
        flow.next = wanted if lost else max(flow.next, wanted)
        self.wait(flow)

    def answer(self, transfer, kind, **says):
        self.network.send_first(transfer.dst, Packet(kind, transfer, transfer.src, self.network.bare, **says))

    def receive(self, packet):
        transfer, flow = packet.transfer, self.flows[packet.transfer]
        if packet.kind == "notification":
            flow.rate.notify()
        elif packet.kind == "reply":
            self.take_reply(flow, packet.says["wanted"], packet.says["lost"])
        else:
            self.take_segment(packet, transfer, flow)

    def take_segment(self, packet, transfer, flow):
        now, number = self.network.now(), packet.says["number"]
        if packet.marked and now >= flow.notifies_at:
            flow.notifies_at = now + self.network.case["notification_interval_ps"]
            self.answer(transfer, "notification")
        if number == flow.wanted:
            flow.wanted += 1
            flow.asked = False
            if flow.wanted == transfer.segments and self.network.delivered(transfer):
                self.answer(transfer, "reply", wanted=flow.wanted, lost=False)
        elif number < flow.wanted:
            # The segment had arrived before, so it was sent in vain.
            self.answer(transfer, "reply", wanted=flow.wanted, lost=False)
        elif not flow.asked:
            flow.asked = True
            self.answer(transfer, "reply", wanted=flow.wanted, lost=True)


def completions(case):
    return Network(case, Dcqcn, Lossless, sprays=False).completions()
