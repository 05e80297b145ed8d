"""Sender and receiver of a stream: RFC 6675 (SACK recovery), RFC 6298 (timeouts), RFC 5681 (NewReno), RFC 8257 (DCTCP).

Windows and sequence numbers count segments. The receiver acknowledges every segment at once.
"""

from silence import longer

OPEN, RECOVERY, LOSS = "open", "recovery", "loss"
DUP_THRESH = 3
MIN_WINDOW = 2.0


class NewReno:
    def __init__(self, case):
        self.window = float(case["initial_window"])
        self.threshold = float("inf")
        self.cut_until = 0

    def acknowledged(self, delivered, marked, una, next_, may_grow):
        if may_grow:
            slow_start = self.window < self.threshold
            self.window += delivered if slow_start else delivered / self.window

    def cut_threshold(self, una, next_):
        """Sets the threshold to half of the data in flight, at most once per window of data. Returns whether it did so."""
        if una < self.cut_until:
            return False
        self.threshold = max((next_ - una) * 0.5, MIN_WINDOW)
        self.cut_until = next_
        return True

    def lost(self, una, next_):
        if self.cut_threshold(una, next_):
            self.window = self.threshold

    def timed_out(self, una, next_):
        self.cut_threshold(una, next_)
        self.window = 1.0


class Dctcp(NewReno):
    def __init__(self, case):
        super().__init__(case)
        self.alpha, self.gain = 1.0, 1 / 16
        self.delivered = self.marked = self.observed_until = 0

    def acknowledged(self, delivered, marked, una, next_, may_grow):
        self.delivered += delivered
        self.marked += delivered if marked else 0
        if una > self.observed_until:
            # DCTCP equation 1, once for each window of data.
            self.alpha = (1 - self.gain) * self.alpha + self.gain * (self.marked / self.delivered)
            self.delivered = self.marked = 0
            self.observed_until = next_
        if not marked:
            super().acknowledged(delivered, marked, una, next_, may_grow)
        elif una > self.cut_until or self.cut_until == 0:
            # Equation 2, once for each window of data.
            self.window = max(self.window * (1 - self.alpha / 2), MIN_WINDOW)
            self.threshold = self.window
            self.cut_until = next_


class Sender:
    def __init__(self, control, segments, first_rto, min_rto, max_rto, salt):
        self.control, self.total = control, segments
        self.una = self.next = 0
        self.sacked = set()
        self.lost_below = self.resent_below = 0
        self.phase, self.until, self.owed = OPEN, 0, False
        self.held_back_at = 0
        self.srtt = None
        self.rttvar = 0
        self.rto, self.backoff = first_rto, 0
        self.salt, self.ever = salt, 0  # `ever`: number of timeouts so far
        self.min_rto, self.max_rto = min_rto, max_rto
        self.deadline = None

    def is_done(self):
        return self.una == self.total

    def pipe(self):
        """Returns the pipe of RFC 6675: the number of sent segments that are not known to have left the network."""
        pipe = 0
        for segment in range(self.una, self.next):
            if segment not in self.sacked:
                pipe += (segment >= self.lost_below) + (segment < self.resent_below)
        return pipe

    def timeout(self):
        exact = min(self.rto << self.backoff, self.max_rto)
        return longer(exact, self.salt, self.ever if self.backoff else 0)

    def acknowledge(self, now, ack):
        if ack["next"] > self.next:
            return
        held_back = self.una <= self.held_back_at
        advanced = ack["next"] > self.una
        delivered = sum(s not in self.sacked for s in range(self.una, ack["next"]))
        self.una = max(self.una, ack["next"])
        self.sacked = {s for s in self.sacked if s >= self.una}
        for start, end in ack["sack"]:
            for segment in range(max(start, self.una), min(end, self.next)):
                delivered += segment not in self.sacked
                self.sacked.add(segment)
        if ack["sack"] and len(self.sacked) >= DUP_THRESH:
            self.lost_below = max(self.lost_below, sorted(self.sacked)[-DUP_THRESH])
        if delivered == 0:
            return
        if self.phase != OPEN and self.una >= self.until:
            self.phase = OPEN
        may_grow = held_back and advanced and self.phase != RECOVERY
        self.control.acknowledged(delivered, ack["marked"], self.una, self.next, may_grow)
        if advanced:
            self.sample(now - ack["echo"])
            self.deadline = now + self.timeout() if self.una < self.next else None
        if self.phase == OPEN and self.lost_below > self.una:
            self.phase, self.until, self.owed = RECOVERY, self.next, True
            self.control.lost(self.una, self.next)

    def sample(self, rtt):
        if self.srtt is None:
            self.srtt, self.rttvar = rtt, rtt // 2
        else:
            self.rttvar = (3 * self.rttvar + abs(self.srtt - rtt)) // 4
            self.srtt = (7 * self.srtt + rtt) // 8
        self.rto = min(max(self.srtt + 4 * self.rttvar, self.min_rto), self.max_rto)
        self.backoff = 0

    def time_out(self, now):
        self.control.timed_out(self.una, self.next)
        self.phase, self.until = LOSS, self.next
        self.lost_below, self.resent_below = self.next, self.una
        self.backoff = min(self.backoff + 1, 32)
        self.ever += 1
        self.deadline = now + self.timeout()

    def hole(self, eager):
        """Returns the next segment to retransmit, or None. With `eager`, this may be a segment that is not known to be lost."""
        limit = self.lost_below
        if eager and self.sacked:
            limit = max(limit, max(self.sacked) + 1)
        segment = max(self.resent_below, self.una)
        while segment in self.sacked:
            segment += 1
        return segment if segment < limit else None

    def is_held_back(self):
        owed = self.phase == RECOVERY and self.owed
        held_back = not owed and self.pipe() >= int(self.control.window)
        if held_back:
            self.held_back_at = self.next
        return held_back

    def is_ready(self):
        if self.is_held_back():
            return False
        holes = self.phase != OPEN and self.hole(self.phase == RECOVERY) is not None
        return self.next < self.total or holes

    def transmit(self, now):
        """Returns the next segment to send, or None, and starts the timer if it does not run."""
        if self.is_held_back():
            return None
        segment = self.pick()
        if segment is not None and self.deadline is None:
            self.deadline = now + self.timeout()
        return segment

    def pick(self):
        # RFC 6675 NextSeg: first lost segments, then new ones, then segments that may be lost.
        if self.phase != OPEN:
            self.owed = False
            segment = self.hole(False)
            if segment is not None:
                self.resent_below = segment + 1
                return segment
        if self.next < self.total:
            self.next += 1
            return self.next - 1
        if self.phase == RECOVERY:
            segment = self.hole(True)
            if segment is not None:
                self.resent_below = segment + 1
            return segment
        return None


class Receiver:
    def __init__(self):
        self.next = 0
        self.beyond = set()

    def take(self, segment, sent, marked):
        """Processes a segment that has arrived, and returns its acknowledgement."""
        if segment >= self.next:
            self.beyond.add(segment)
        while self.next in self.beyond:
            self.beyond.remove(self.next)
            self.next += 1
        return {"next": self.next, "echo": sent, "marked": marked, "sack": self.blocks(segment)}

    def blocks(self, newest):
        """Returns up to three SACK blocks (RFC 2018): first the block of the newest segment, then the highest of the others."""
        blocks = []
        for segment in sorted(self.beyond):
            if blocks and blocks[-1][1] == segment:
                blocks[-1][1] = segment + 1
            else:
                blocks.append([segment, segment + 1])
        first = [b for b in blocks if b[0] <= newest < b[1]]
        return (first + [b for b in reversed(blocks) if b not in first])[:3]
