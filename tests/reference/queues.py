"""Queues of switch ports: they hold the waiting packets in order of arrival, and select the next packet to leave."""


class Queue:
    def __init__(self, limit):
        self.limit = limit
        self.waiting = []

    def all(self):
        return self.waiting

    def can_send(self):
        return bool(self.waiting)

    def passes(self, packet):
        """Returns whether a packet leaves at once if it arrives at a free port at which no packet that may leave is waiting."""
        return True

    def marks(self, ahead):
        return False

    def has_room(self, wire):
        return sum(packet.wire for packet in self.waiting) + wire <= self.limit


class SmallestFirst(Queue):
    """Queue of pFabric §4.1: the packet with the best rank leaves first, and the one with the worst rank is dropped."""

    def add(self, packet):
        self.waiting.append(packet)
        while not self.has_room(0):
            # Drop the latest of the packets with the worst rank.
            worst = max(other.rank for other in self.waiting)
            latest = [other for other in self.waiting if other.rank == worst][-1]
            self.waiting.remove(latest)

    def take(self):
        best = min(self.waiting, key=lambda packet: packet.rank)
        earliest = next(packet for packet in self.waiting if packet.transfer is best.transfer)
        self.waiting.remove(earliest)
        return earliest


class StrictPriority(Queue):
    """Queue of IEEE 802.1Q: the lowest class leaves first, and an arriving packet that does not fit is dropped."""

    def add(self, packet):
        if self.has_room(packet.wire):
            self.waiting.append(packet)

    def take(self):
        first = min(self.waiting, key=lambda packet: packet.rank)
        self.waiting.remove(first)
        return first
