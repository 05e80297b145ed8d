//! Packets of a stream that its program has not yet read.

/// Reading side of a stream. Segments that arrive out of order stay in their buffers until the segments before them
/// have arrived. Duplicates are not read.
#[derive(Default)]
pub struct StreamReading {
    /// Segments that arrived out of order, and their packets, by segment number.
    early: Vec<(u32, u32)>,
    /// Number of packets that were passed to the program and not yet read.
    unread: u32,
    /// Whether the sender has given up. Missing segments will then never arrive; therefore further segments are not
    /// kept.
    given_up: bool,
}

impl StreamReading {
    /// Returns whether a segment that arrives now is useless, because it arrived before or because the sender has given
    /// up. All segments below `next` have arrived.
    pub fn is_useless(&self, number: u32, next: u32) -> bool {
        self.given_up || number < next || self.early.iter().any(|(early, _)| *early == number)
    }

    /// Keeps a segment that arrived for the first time in this packet.
    pub fn keep(&mut self, number: u32, packet: u32) {
        let place = self.early.partition_point(|(early, _)| *early < number);
        self.early.insert(place, (number, packet));
    }

    /// Returns, in order, the packets that can be read now that all segments below `next` have arrived.
    pub fn take(&mut self, next: u32) -> impl Iterator<Item = u32> {
        let in_order = self.early.partition_point(|(early, _)| *early < next);
        self.unread += in_order as u32;
        self.early.drain(..in_order).map(|(_, packet)| packet)
    }

    /// Ends the stream, because the sender has given up. Returns the segments that arrived out of order and will not be
    /// read.
    pub fn give_up(&mut self) -> Vec<(u32, u32)> {
        self.given_up = true;
        std::mem::take(&mut self.early)
    }

    /// Counts a packet that was read. Returns whether no further packet remains to be read for now.
    pub fn read(&mut self) -> bool {
        self.unread -= 1;
        self.unread == 0
    }
}
