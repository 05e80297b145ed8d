"""What waits at a switch port, in order of arrival, and which packet leaves."""


class Queue:
    def __init__(self, limit):
        self.limit = limit
        self.waiting = []

    def all(self):
        return self.waiting

    def can_send(self):
        return bool(self.waiting)

    def passes(self, packet):
        """Whether what finds the port free, and nothing that may leave, leaves at once."""
        return True

    def marks(self, ahead):
        return False

    def has_room(self, wire):
        return sum(packet.wire for packet in self.waiting) + wire <= self.limit


class SmallestFirst(Queue):
    """pFabric §4.1: the best leaves, the worst is dropped."""

    def add(self, packet):
        self.waiting.append(packet)
        while not self.has_room(0):
            # Of the worst, the latest.
            worst = max(other.rank for other in self.waiting)
            latest = [other for other in self.waiting if other.rank == worst][-1]
            self.waiting.remove(latest)

    def take(self):
        best = min(self.waiting, key=lambda packet: packet.rank)
        earliest = next(packet for packet in self.waiting if packet.transfer is best.transfer)
        self.waiting.remove(earliest)
        return earliest


class StrictPriority(Queue):
    """IEEE 802.1Q: the lowest class leaves first; what does not fit is dropped."""

    def add(self, packet):
        if self.has_room(packet.wire):
            self.waiting.append(packet)

    def take(self):
        first = min(self.waiting, key=lambda packet: packet.rank)
        self.waiting.remove(first)
        return first
