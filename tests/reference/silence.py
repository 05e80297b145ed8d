"""How long an end of a transfer goes on while nothing comes of its timeouts: as long as TCP does (RFC 1122 §4.2.3.5)."""

LONGEST = 200_000_000 * 2**15  # last timeout (ps): the fifteenth that doubles, from 200 us
LEAST = 3


class Silence:
    """Timeouts in a row, of which the first `steady` have the length that the protocol gives them."""

    def __init__(self, first, steady):
        self.first, self.steady = first, steady
        self.timeouts = 0
        self.has_ended = False

    def end(self):
        """Something new has come."""
        self.timeouts = 0

    def timeout(self):
        return self.first * 2 ** max(self.timeouts - self.steady, 0)

    def goes_on(self):
        """A timeout: whether to try again."""
        if self.timeouts >= max(self.steady, LEAST) and self.timeout() >= LONGEST:
            self.has_ended = True
        else:
            self.timeouts += 1
        return not self.has_ended
