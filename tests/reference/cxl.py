"""cxl: cache lines over credited links and input-buffered switches (CXL.mem; EDM §4.3).

A message is divided into lines of 64 B; each line is a request and an answer of the link layer. A link carries flits, each with
a number of slots. A line that does not fit into a flit continues at the start of the next flit. A sender needs a credit of the
line's class for each line; the credit returns when the receiver's buffer is free. A switch has a first-in, first-out queue for
each input and class.
"""

from engine import MESSAGE, Engine
from topology import flow_hash, topology

LINE = 64
REQ, RWD, NDR, DRS = CLASSES = range(4)  # requests without and with data, answers without and with
SLOTS = {REQ: 1, RWD: 5, NDR: 1, DRS: 5}
FLITS = {68: 4, 256: 15}  # bytes, slots


class Line:
    def __init__(self, message, src, dst, kind, fetches):
        self.message, self.src, self.dst, self.kind, self.fetches = message, src, dst, kind, fetches

    def answer(self):
        return Line(self.message, self.dst, self.src, DRS if self.kind == REQ or self.fetches else NDR, False)


def in_turn(start, choices, among):
    """Returns the first choice at or after `start`, in cyclic order over `among` numbers."""
    return min(choices, key=lambda choice: (choice - start) % among)


CORES = 16


def next_line(lines):
    """Removes and returns the next line to send. The first sixteen messages take turns, and the others wait."""
    line = lines.pop(0)
    rest = [other for other in lines if other.message == line.message]
    others = [other for other in lines if other.message != line.message]
    before = list(dict.fromkeys(other.message for other in others))[: CORES - 1]
    place = sum(other.message in before for other in others)
    lines[:] = others[:place] + rest + others[place:]
    return line


class Node:
    """A node, which is both a host and a memory device."""

    def __init__(self, number, window):
        self.number, self.window = number, window
        self.bursts = {REQ: [], RWD: []}  # lines to request, in order
        self.to_answer = {NDR: [], DRS: []}  # requests to answer, in order
        self.next_class = 0

    def waiting(self):
        classes = [kind for kind in (REQ, RWD) if self.bursts[kind] and self.window > 0]
        return classes + [kind for kind in (NDR, DRS) if self.to_answer[kind]]

    def take(self, classes, network):
        """Removes and returns the next line to send in these classes, for which the link has a credit; None if there is none."""
        choices = [kind for kind in self.waiting() if kind in classes]
        if not choices:
            return None
        kind = in_turn(self.next_class, choices, 4)
        self.next_class = kind + 1
        if kind in (REQ, RWD):
            self.window -= 1
            return next_line(self.bursts[kind])
        request = self.to_answer[kind].pop(0)
        # The buffer of the request is free when its answer leaves.
        network.freed.append((network.link_to(self.number), request.kind))
        return request.answer()

    def finish(self, network):
        pass


class Output:
    """Output port of a switch."""

    def __init__(self, switch, port):
        self.switch, self.port = switch, port
        self.next_class = 0
        self.next_input = dict.fromkeys(CLASSES, 0)
        self.serving = None

    def heads(self):
        """Returns the input queues whose first line goes to this output, except the queue that is being served."""
        queues = self.switch.queues.items()
        return [key for key, queue in queues if queue and queue[0][1] == self.port and key != self.serving]

    def waiting(self):
        return [kind for kind in CLASSES if any(kind == of for _, of in self.heads())]

    def take(self, classes, network):
        choices = [kind for kind in self.waiting() if kind in classes]
        if not choices:
            return None
        kind = in_turn(self.next_class, choices, 4)
        self.next_class = kind + 1
        inputs = [number for number, of in self.heads() if of == kind]
        number = in_turn(self.next_input[kind], inputs, 2**16)
        self.next_input[kind] = number + 1
        self.serving = (number, kind)
        return self.switch.queues[self.serving][0][0]

    def finish(self, network):
        """Removes a sent line from its queue. A line stays at the head of its queue until all of it is sent."""
        queue = self.switch.queues[self.serving]
        queue.pop(0)
        number, kind = self.serving
        self.serving = None
        network.freed.append((self.switch.feeders[number], kind))
        if queue:
            self.switch.turned.append(queue[0][1])


class Switch:
    def __init__(self):
        self.queues = {}  # by input and class: lines, each with its output port
        self.feeders = {}  # by input: the link that leads to it
        self.turned = []  # output ports for which a queue has a new head


class Link:
    def __init__(self, sender, flit, propagation, latency, slots, credits):
        self.sender, self.flit, self.propagation, self.latency = sender, flit, propagation, latency
        self.slots, self.credits = slots, dict.fromkeys(CLASSES, credits)
        self.returning = []  # (time of return, class) of credits
        self.midway, self.left = None, 0
        self.free, self.wake = 0, None
        self.wire = []  # (time of arrival, line)
        self.end = None


class Network:
    def __init__(self, case):
        self.case, self.engine = case, Engine()
        self.topology = topology(case)
        self.freed = []
        self.nodes = [Node(number, case["outstanding"]) for number in range(self.topology.nodes)]
        self.switches = [Switch() for _ in range(self.topology.switches)]
        self.wire_up()
        self.lines_left = [-(-message["bytes"] // LINE) for message in case["messages"]]
        self.times = [None] * len(case["messages"])
        for number, message in enumerate(case["messages"]):
            self.engine.at(message["at_ps"], self.submit, number, message, by=MESSAGE)

    def completions(self):
        self.engine.run(lambda: None not in self.times)
        return self.times

    def wire_up(self):
        """Creates the links, with the names ("node", n) or ("port", p) of their senders."""
        topology = self.topology
        self.links = {}
        for node in self.nodes:
            self.links["node", node.number] = self.link(node, topology.host_link, True, True)
        for port in range(topology.ports):
            output = Output(self.switches[topology.owner(port)], port)
            to_switch = topology.end(port)[0] == "switch"
            self.links["port", port] = self.link(output, topology.link(port), to_switch, not to_switch)
        for port in range(topology.ports):
            # The cable of this port also carries an incoming link.
            what, number = topology.end(port)
            switch = topology.owner(port)
            feeder = ("node", number) if what == "node" else ("port", self.port_to(number, switch))
            self.switches[switch].feeders[port] = feeder
            self.links[feeder].end = ("switch", port)
            if what == "node":
                self.links["port", port].end = ("node", number)

    def port_to(self, switch, other):
        ports = range(self.topology.ports)
        return next(
            p for p in ports if self.topology.owner(p) == switch and self.topology.end(p) == ("switch", other)
        )

    def link_to(self, node):
        return next(name for name, link in self.links.items() if link.end == ("node", node))

    def link(self, sender, cable, to_switch, at_node):
        case = self.case
        latency = (
            cable.propagation + (case["port_ps"] if at_node else 0) + (case["hop_ps"] if to_switch else 0)
        )
        slots = FLITS[case["flit"]]
        return Link(sender, case["flit"] * cable.byte, cable.propagation, latency, slots, case["credits"])

    def submit(self, number, message):
        node = self.nodes[message["src"]]
        kind = REQ if message["kind"] == "read" else RWD
        fetches = message["kind"] == "rmw"
        for _ in range(self.lines_left[number]):
            node.bursts[kind].append(Line(number, message["src"], message["dst"], kind, fetches))
        self.offer("node", message["src"])

    # The sending end of a link.

    def offer(self, *name):
        """Starts a flit on a link, or schedules one, because a line has arrived that the link may be able to send."""
        link = self.links[name]
        if link.free <= self.engine.now:
            self.fill(name)
        else:
            self.wake(name, link.free)

    def wake(self, name, at):
        link = self.links[name]
        if link.wake is None or at < link.wake:
            link.wake = at
            self.engine.at(at, self.start, name, at)

    def start(self, name, at):
        link = self.links[name]
        if link.wake != at:
            return
        link.wake = None
        self.offer(*name)
        if name[0] == "port":
            self.offer_outputs(link.sender.switch)

    def fill(self, name):
        """Fills and sends a flit, if there is a line to put into it."""
        link, now = self.links[name], self.engine.now
        for at, kind in link.returning:
            if at <= now:
                link.credits[kind] += 1
        link.returning = [credit for credit in link.returning if credit[0] > now]
        room, sent = link.slots, []
        while room > 0:
            if link.midway is None:
                link.midway = link.sender.take([kind for kind in CLASSES if link.credits[kind] > 0], self)
                if link.midway is None:
                    break
                link.credits[link.midway.kind] -= 1
                link.left = SLOTS[link.midway.kind]
            part = min(room, link.left)
            room -= part
            link.left -= part
            if link.left == 0:
                sent.append(link.midway)
                link.midway = None
                link.sender.finish(self)
        carries = room < link.slots
        if carries:
            link.free = now + link.flit
        if sent:
            there = now + link.flit + link.latency
            link.wire += [(there, line) for line in sent]
            self.engine.at(there, self.arrive, name)
        self.return_credits()
        if link.midway or link.sender.waiting():
            if carries:
                self.wake(name, link.free)
            elif link.returning:
                self.wake(name, link.returning[0][0])

    def return_credits(self):
        while self.freed:
            name, kind = self.freed.pop()
            link = self.links[name]
            at = self.engine.now + link.flit + link.propagation
            link.returning.append((at, kind))
            if link.wake is None and link.sender.waiting():
                self.wake(name, max(at, link.free))

    # The receiving end.

    def arrive(self, name):
        link, now = self.links[name], self.engine.now
        arrived = [line for at, line in link.wire if at <= now]
        link.wire = [(at, line) for at, line in link.wire if at > now]
        what, number = link.end
        if what == "switch":
            switch = self.switches[self.topology.owner(number)]
            for line in arrived:
                self.enter_switch(switch, number, line)
            self.offer_outputs(switch)
            return
        for line in arrived:
            self.enter_node(name, self.nodes[number], line)
        self.return_credits()
        self.offer("node", number)

    def enter_switch(self, switch, number, line):
        turn = flow_hash(line.src << 16 | line.dst)
        port = self.topology.route(self.topology.owner(number), line.dst, turn)
        queue = switch.queues.setdefault((number, line.kind), [])
        queue.append((line, port))
        if len(queue) == 1:
            switch.turned.append(port)

    def offer_outputs(self, switch):
        while switch.turned:
            self.offer("port", switch.turned.pop())

    def enter_node(self, name, node, line):
        if line.kind in (REQ, RWD):
            node.to_answer[line.answer().kind].append(line)
        else:
            # The node consumes an answer at once, so its buffer is free immediately.
            node.window += 1
            self.freed.append((name, line.kind))
        if line.kind == DRS or (line.kind == RWD and not line.fetches):
            number = line.message
            self.lines_left[number] -= 1
            if self.lines_left[number] == 0:
                self.times[number] = self.engine.now - self.case["messages"][number]["at_ps"]


def completions(case):
    return Network(case).completions()
