"""Links between nodes and switches, and the delays of packets on them.

Switch ports have the numbers that `crates/sim/engine/src/topology/mod.rs` documents.
"""

from itertools import pairwise


class Link:
    def __init__(self, rate_bps, propagation):
        assert 8 * 10**12 % rate_bps == 0, "a byte takes a whole number of picoseconds"
        self.byte, self.propagation = 8 * 10**12 // rate_bps, propagation


class Topology:
    def __init__(self, case):
        self.case = case
        self.host_link = Link(case["rate_bps"], case["propagation_ps"])

    def link(self, port):
        """Returns the outgoing link of a switch port."""
        return self.host_link if self.end(port)[0] == "node" else self.core_link

    def links(self, src, dst):
        """Returns the links on a path from one node to another, in order."""
        way, at = [self.host_link], ("switch", self.switch_of(src))
        while at[0] == "switch":
            port = self.route(at[1], dst, 0)
            way.append(self.link(port))
            at = self.end(port)
        return way

    def ready(self, first, wire, this, following):
        """Returns the time at which a packet can leave on the `following` link if its first bit leaves on `this` link at `first`."""
        last = first + wire * this.byte
        if self.case["cut_through"]:
            # On a faster link, the packet must start late enough that the link does not run out of bits.
            start = max(first, last - wire * following.byte)
        else:
            start = last
        return start + self.case["switch_latency_ps"] + this.propagation

    def crossing(self, wire, src, dst):
        """Returns the time from a packet's first bit at `src` to its last bit at `dst` in an empty network."""
        way = self.links(src, dst)
        first = 0
        for this, following in pairwise(way):
            first = self.ready(first, wire, this, following)
        return first + wire * way[-1].byte + way[-1].propagation

    def round_trip(self, there, back):
        """Returns the round trip of packets of these sizes between the first and the last node, which no other pair exceeds."""
        return self.crossing(there, 0, self.nodes - 1) + self.crossing(back, self.nodes - 1, 0)


class Star(Topology):
    def __init__(self, case):
        super().__init__(case)
        self.core_link = self.host_link
        self.nodes = self.ports = case["nodes"]
        self.switches = 1

    def switch_of(self, node):
        return 0

    def owner(self, port):
        return 0

    def end(self, port):
        return "node", port

    def route(self, switch, to, turn):
        return to


class LeafSpine(Topology):
    """Leaf-spine topology. Port numbers begin with the leaves: for each leaf, the ports to its hosts, then those to the
    spines. The ports of the spines follow: for each spine, the ports to the leaves."""

    def __init__(self, case):
        super().__init__(case)
        self.core_link = Link(case["core_rate_bps"], case["core_propagation_ps"])
        self.racks, self.hosts, self.spines = case["racks"], case["hosts"], case["spines"]
        self.nodes = self.racks * self.hosts
        self.of_leaf = self.hosts + self.spines
        self.of_leaves = self.racks * self.of_leaf
        self.ports = self.of_leaves + self.spines * self.racks
        self.switches = self.racks + self.spines

    def switch_of(self, node):
        return node // self.hosts

    def owner(self, port):
        if port < self.of_leaves:
            return port // self.of_leaf
        return self.racks + (port - self.of_leaves) // self.racks

    def end(self, port):
        if port >= self.of_leaves:
            return "switch", (port - self.of_leaves) % self.racks
        leaf, place = divmod(port, self.of_leaf)
        if place < self.hosts:
            return "node", leaf * self.hosts + place
        return "switch", self.racks + place - self.hosts

    def route(self, switch, to, turn):
        """Returns the port through which a switch forwards a packet to a node. `turn` selects the spine."""
        rack, host = divmod(to, self.hosts)
        if switch >= self.racks:
            return self.of_leaves + (switch - self.racks) * self.racks + rack
        if switch == rack:
            return switch * self.of_leaf + host
        return switch * self.of_leaf + self.hosts + turn % self.spines


def topology(case):
    return LeafSpine(case) if "racks" in case else Star(case)


def flow_hash(number):
    """Returns the hash that selects the path of all packets of a flow: the 32-bit finalizer of MurmurHash3."""
    number = ((number ^ number >> 16) * 0x85EBCA6B) % 2**32
    number = ((number ^ number >> 13) * 0xC2B2AE35) % 2**32
    return number ^ number >> 16
