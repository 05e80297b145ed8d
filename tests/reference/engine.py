"""Event queue of the reference simulator: a heap ordered by time.

Events of the same picosecond run in this order: new messages; packets from other switches, by the number of the port
through which they left; other events, first in first out; alarms.
"""

import heapq

MESSAGE, HERE, ALARM = -1, 2**32, 2**33


class Engine:
    def __init__(self):
        self.now = 0
        self._heap = []
        self._count = 0

    def at(self, time, call, *arguments, by=HERE):
        assert time >= self.now, "scheduled in the past"
        self._count += 1
        heapq.heappush(self._heap, (time, by, self._count, call, arguments))

    def run(self, is_done):
        while self._heap and not is_done():
            self.now, _, _, call, arguments = heapq.heappop(self._heap)
            call(*arguments)
