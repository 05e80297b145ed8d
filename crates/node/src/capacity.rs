//! How much memory all sessions together may hold, and each one's part of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Pages of the whole node. Only a number: `Relaxed` will do.
#[derive(Debug)]
pub struct Capacity {
    pages: u64,
    taken: AtomicU64,
}

impl Capacity {
    pub fn new(pages: u64) -> Arc<Capacity> {
        Arc::new(Capacity { pages, taken: AtomicU64::new(0) })
    }

    pub fn pages(&self) -> u64 {
        self.pages
    }

    pub fn free(&self) -> u64 {
        self.pages - self.taken.load(Relaxed)
    }

    fn take(&self, pages: u64) -> bool {
        let more = |taken: u64| taken.checked_add(pages).filter(|taken| *taken <= self.pages);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn give(&self, pages: u64) {
        let before = self.taken.fetch_sub(pages, Relaxed);
        assert!(before >= pages, "more pages given back than were taken");
    }
}

/// What one session has of the capacity: a reservation first, then page by page. Returned when dropped.
#[derive(Debug)]
pub struct Part {
    capacity: Arc<Capacity>,
    reserved: u64,
    held: u64,
}

impl Part {
    /// `None`: less than `reserved` is free, or nothing is.
    pub fn new(capacity: &Arc<Capacity>, reserved: u64) -> Option<Part> {
        let part = || Part { capacity: capacity.clone(), reserved, held: 0 };
        (capacity.free() > 0 && capacity.take(reserved)).then(part)
    }

    pub fn held(&self) -> u64 {
        self.held
    }

    /// Room for so many more pages, all or nothing.
    pub fn take(&mut self, pages: u64) -> bool {
        let before = self.held.max(self.reserved);
        let after = (self.held + pages).max(self.reserved);
        let room = self.capacity.take(after - before);
        self.held += pages * room as u64;
        room
    }

    pub fn give(&mut self, pages: u64) {
        let before = self.held.max(self.reserved);
        self.held -= pages;
        self.capacity.give(before - self.held.max(self.reserved));
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.capacity.give(self.held.max(self.reserved));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_is_used_first_and_everything_comes_back() {
        let capacity = Capacity::new(10);
        let mut first = Part::new(&capacity, 4).unwrap();
        assert_eq!(capacity.free(), 6);
        assert!(first.take(5));
        assert_eq!(capacity.free(), 5);
        first.give(3);
        assert_eq!((capacity.free(), first.held()), (6, 2));
        assert!(Part::new(&capacity, 7).is_none());
        let mut second = Part::new(&capacity, 6).unwrap();
        assert!(Part::new(&capacity, 0).is_none(), "nothing is free");
        assert!(!second.take(7) && second.take(6));
        drop((first, second));
        assert_eq!(capacity.free(), 10);
    }
}
