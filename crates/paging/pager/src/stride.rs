//! First touches of successive pages: a thread that touches new pages in sequence gets several pages at once.

use crate::sys::PAGE;

/// Maximum number of pages to provide at once.
pub(crate) const MOST_AHEAD: usize = 16;

/// Pages that a thread received last for a first touch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stride {
    end: usize,
    pages: usize,
}

impl Stride {
    /// Makes the stride of a thread that received `pages` new pages from `address` on.
    pub(crate) fn new(address: usize, pages: usize) -> Stride {
        Stride { end: address + pages * PAGE, pages }
    }

    /// Returns how many new pages to provide for a first touch at `address`. The number doubles each time that the thread continues at the
    /// end of its last pages; otherwise it is 1.
    pub(crate) fn pages_ahead(self, address: usize) -> usize {
        if address == self.end { (2 * self.pages).clamp(1, MOST_AHEAD) } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_double_up_to_a_limit_and_begin_again_elsewhere() {
        let (mut stride, mut at, mut given) = (Stride::default(), 64 * PAGE, Vec::new());
        for _ in 0..6 {
            given.push(stride.pages_ahead(at));
            stride = Stride::new(at, given[given.len() - 1]);
            at += given[given.len() - 1] * PAGE;
        }
        assert_eq!(given, [1, 2, 4, 8, 16, MOST_AHEAD]);
        assert_eq!(stride.pages_ahead(at + PAGE), 1);
        assert_eq!(Stride::new(at, 0).pages_ahead(at), 1, "nothing could be given");
    }
}
