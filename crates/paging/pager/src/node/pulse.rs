//! Timing of pings, and detection of a silent memory node.
//!
//! A node ends a session if the client is silent for a time that the node states. Therefore the client sends some message four times in
//! each such period. Conversely, if a node owes an answer and sends no data, it is stopped or cut off. The client must measure this itself,
//! because the kernel still acknowledges data for a stopped process.
//!
//! This module reads no clock: callers pass the time (monotonic, in nanoseconds).

/// Times of the latest traffic in both directions of a session.
#[derive(Debug)]
pub struct Pulse {
    every_ns: u64,
    patience_ns: u64,
    said_ns: u64,
    /// Time since when the node has owed an answer without any arrival.
    owed_since_ns: Option<u64>,
}

impl Pulse {
    /// Makes the state of a new session. `silence_ms`: the node's limit; 0: the node has no limit. `patience_ns`: the client's limit.
    pub fn new(silence_ms: u32, patience_ns: u64, now_ns: u64) -> Pulse {
        let every_ns = match silence_ms {
            0 => u64::MAX,
            silence_ms => u64::from(silence_ms) * 1_000_000 / 4,
        };
        // Pings must also be frequent enough to reveal a silent node in time.
        let every_ns = every_ns.min(patience_ns / 4);
        Pulse { every_ns, patience_ns, said_ns: now_ns, owed_since_ns: None }
    }

    /// Returns whether it is time to send a message.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.said_ns) >= self.every_ns
    }

    /// Notes that a message was sent.
    pub fn said(&mut self, now_ns: u64) {
        self.said_ns = now_ns;
    }

    /// Notes whether any data arrived, and whether the node owes an answer now.
    pub fn heard(&mut self, any: bool, is_owed: bool, now_ns: u64) {
        self.owed_since_ns = match self.owed_since_ns {
            _ if !is_owed => None,
            Some(since) if !any => Some(since),
            _ => Some(now_ns),
        };
    }

    /// Returns how long the node has been silent if that is at least the client's patience, or `None` otherwise.
    pub fn given_up_ns(&self, now_ns: u64) -> Option<u64> {
        self.owed_since_ns
            .map(|since| now_ns.saturating_sub(since))
            .filter(|silent| *silent >= self.patience_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_is_asked_and_then_given_up() {
        let mut pulse = Pulse::new(400, 1_000_000_000, 0);
        assert!(!pulse.is_due(99_999_999) && pulse.is_due(100_000_000));
        pulse.said(100_000_000);
        pulse.heard(false, true, 100_000_000);
        assert!(!pulse.is_due(150_000_000));
        assert_eq!(pulse.owed_since_ns, Some(100_000_000));
        pulse.heard(false, true, 900_000_000);
        assert_eq!(pulse.given_up_ns(1_099_999_999), None);
        assert_eq!(pulse.given_up_ns(1_100_000_000), Some(1_000_000_000));
        pulse.heard(true, true, 1_100_000_000);
        assert_eq!((pulse.given_up_ns(1_200_000_000), pulse.owed_since_ns), (None, Some(1_100_000_000)));
        pulse.heard(true, false, 1_300_000_000);
        assert_eq!((pulse.given_up_ns(u64::MAX), pulse.owed_since_ns), (None, None));
        assert!(Pulse::new(0, 4_000, 0).is_due(1_000), "we want to hear from a node without a limit");
    }
}
