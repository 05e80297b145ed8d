//! Packets of a stream that its program has not yet read.

/// Reading side of a stream. Segments that come too early stay in their buffers until those before them have come;
/// duplicates are not read.
#[derive(Default)]
pub struct Reading {
    /// Segments that came too early, and their packets, in order.
    early: Vec<(u32, u32)>,
    /// Number of packets that the program was told to read and has not read yet.
    unread: u32,
    /// The sender has given up: missing segments will not come, so further ones are not kept.
    given_up: bool,
}

impl Reading {
    /// Returns whether nobody reads a segment that comes now, because it came before. All below `next` have come.
    pub fn is_useless(&self, number: u32, next: u32) -> bool {
        self.given_up || number < next || self.early.iter().any(|(early, _)| *early == number)
    }

    /// Keeps a segment that has come for the first time, in this packet.
    pub fn keep(&mut self, number: u32, packet: u32) {
        let place = self.early.partition_point(|(early, _)| *early < number);
        self.early.insert(place, (number, packet));
    }

    /// Returns, in order, the packets that can be read now that all segments below `next` have come.
    pub fn take(&mut self, next: u32) -> impl Iterator<Item = u32> {
        let in_order = self.early.partition_point(|(early, _)| *early < next);
        self.unread += in_order as u32;
        self.early.drain(..in_order).map(|(_, packet)| packet)
    }

    /// Ends the stream, since the sender has given up. Returns the segments that came too early, which are not read.
    pub fn give_up(&mut self) -> Vec<(u32, u32)> {
        self.given_up = true;
        std::mem::take(&mut self.early)
    }

    /// Counts a packet that was read. Returns whether it was the last for now.
    pub fn read(&mut self) -> bool {
        self.unread -= 1;
        self.unread == 0
    }
}
