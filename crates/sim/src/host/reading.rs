//! What of a stream its program has not yet read.

/// Segments that come too early stay in their buffers until those before them have come; copies are not read.
#[derive(Default)]
pub(crate) struct Reading {
    /// Segments and packets that came too early.
    early: Vec<(u32, u32)>,
    /// Packets that the program is told to read.
    unread: u32,
    /// The sender has given up: what is missing will not come, so what comes is not kept.
    given_up: bool,
}

impl Reading {
    /// Whether nobody reads a segment that comes now, of a stream of which all below `next` has: it came before.
    pub fn is_useless(&self, number: u32, next: u32) -> bool {
        self.given_up || number < next || self.early.iter().any(|(early, _)| *early == number)
    }

    /// A segment has come that had not, in this packet.
    pub fn keep(&mut self, number: u32, packet: u32) {
        let place = self.early.partition_point(|(early, _)| *early < number);
        self.early.insert(place, (number, packet));
    }

    /// Now all below `next` has come: the packets that can be read, in order.
    pub fn take(&mut self, next: u32) -> impl Iterator<Item = u32> {
        let in_order = self.early.partition_point(|(early, _)| *early < next);
        self.unread += in_order as u32;
        self.early.drain(..in_order).map(|(_, packet)| packet)
    }

    /// The sender has given up. What came too early is not read.
    pub fn give_up(&mut self) -> Vec<(u32, u32)> {
        self.given_up = true;
        std::mem::take(&mut self.early)
    }

    /// A packet was read. Whether that was the last there is.
    pub fn read(&mut self) -> bool {
        self.unread -= 1;
        self.unread == 0
    }
}
