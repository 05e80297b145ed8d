//! The ports among which the next hop of a packet is chosen.

use std::ops::Range;

/// Ports by which a switch can forward a packet, or links by which a packet can leave its node. They are two ranges,
/// and the second is usually empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NextHops {
    pub first: Range<u32>,
    pub then: Range<u32>,
}

impl NextHops {
    pub(super) fn only(port: u32) -> NextHops {
        NextHops::among(port..port + 1)
    }

    pub(super) fn among(first: Range<u32>) -> NextHops {
        NextHops { first, then: 0..0 }
    }

    pub(super) fn len(&self) -> u32 {
        (self.first.end - self.first.start) + (self.then.end - self.then.start)
    }

    pub(super) fn nth(&self, n: u32) -> u32 {
        let first = self.first.end - self.first.start;
        if n < first { self.first.start + n } else { self.then.start + (n - first) }
    }

    pub(super) fn ports(self) -> impl Iterator<Item = u32> {
        self.first.chain(self.then)
    }
}
