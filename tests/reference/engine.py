"""Time and events: a heap, first in first out within a picosecond."""

import heapq


class Engine:
    def __init__(self):
        self.now = 0
        self._heap = []
        self._count = 0

    def at(self, time, call, *arguments):
        assert time >= self.now, "scheduled in the past"
        self._count += 1
        heapq.heappush(self._heap, (time, self._count, call, arguments))

    def run(self, is_done):
        while self._heap and not is_done():
            self.now, _, call, arguments = heapq.heappop(self._heap)
            call(*arguments)
