"""Retries of one end of a transfer while it gets no response: an end gives up after as long as TCP does (RFC 1122 §4.2.3.5).

After its first timeout, an end prolongs each wait by a pseudo-random share of up to a half. The share is drawn with the
finalizer of SplitMix64 from the end's salt and the number of its timeouts.
"""

LONGEST = 200_000_000 * 2**15  # last timeout (ps): 200 us, doubled fifteen times
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
    """Returns the salt of an end. `name` is twice the message's number, plus 1 for an answer; `side` is 1 for a receiver."""
    bits = 2**32 - 1
    return ((((seed ^ seed >> 32) & bits) * 0x9E3779B1) & bits) ^ ((2 * name) & bits) ^ side


class Silence:
    """Consecutive timeouts of an end. The first `steady` ones have the length of the protocol; each later one doubles."""

    def __init__(self, first, steady, salt):
        self.first, self.steady, self.salt = first, steady, salt
        self.timeouts = self.ever = 0
        self.has_ended = False

    def end(self):
        """Resets the count of consecutive timeouts, because new data or a new acknowledgement has arrived."""
        self.timeouts = 0

    def exact(self, first):
        return first * 2 ** max(self.timeouts - self.steady, 0)

    def of(self, first):
        """Returns the length of the current wait, if the first wait has the length `first`."""
        return longer(self.exact(first), self.salt, self.ever)

    def timeout(self):
        return self.of(self.first)

    def goes_on(self):
        """Records a timeout, and returns whether the end tries again."""
        if self.timeouts >= max(self.steady, LEAST) and self.exact(self.first) >= LONGEST:
            self.has_ended = True
        else:
            self.timeouts += 1
            self.ever += 1
        return not self.has_ended
