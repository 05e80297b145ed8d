"""How long an end of a transfer goes on while nothing comes of its timeouts: as long as TCP does (RFC 1122 §4.2.3.5).

An end that has run into a timeout before waits longer by up to a half, by a draw (the finalizer of SplitMix64, of the
salt of the end and the number of its timeouts).
"""

LONGEST = 200_000_000 * 2**15  # last timeout (ps): the fifteenth that doubles, from 200 us
LEAST = 3


def longer(wait, salt, nth):
    if nth == 0:
        return wait
    bits = 2**64 - 1
    drawn = ((salt << 32 | nth) * 0x9E3779B97F4A7C15) & bits
    drawn = ((drawn ^ drawn >> 30) * 0xBF58476D1CE4E5B9) & bits
    drawn = ((drawn ^ drawn >> 27) * 0x94D049BB133111EB) & bits
    return wait + (wait * (drawn >> 32) >> 33)


def salt(seed, name, side=0):
    """`name` is twice the number of the message, and one more for an answer; `side` is 1 for a receiver."""
    bits = 2**32 - 1
    return ((((seed ^ seed >> 32) & bits) * 0x9E3779B1) & bits) ^ ((2 * name) & bits) ^ side


class Silence:
    """Timeouts in a row, of which the first `steady` have the length that the protocol gives them."""

    def __init__(self, first, steady, salt):
        self.first, self.steady, self.salt = first, steady, salt
        self.timeouts = self.ever = 0
        self.has_ended = False

    def end(self):
        """Something new has come."""
        self.timeouts = 0

    def exact(self, first):
        return first * 2 ** max(self.timeouts - self.steady, 0)

    def of(self, first):
        """The wait now, where the first is this long."""
        return longer(self.exact(first), self.salt, self.ever)

    def timeout(self):
        return self.of(self.first)

    def goes_on(self):
        """A timeout: whether to try again."""
        if self.timeouts >= max(self.steady, LEAST) and self.exact(self.first) >= LONGEST:
            self.has_ended = True
        else:
            self.timeouts += 1
            self.ever += 1
        return not self.has_ended
