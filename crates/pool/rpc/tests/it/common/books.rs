//! Totals of what a pool's manager lists: anything that a client left behind shows as a difference.

use std::time::{Duration, Instant};
use unrack_pool::Client;
use unrack_pool::wire::ListingEntry;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Books {
    taken_bytes: u64,
    segments: usize,
    grants: usize,
    clients: usize,
    services: usize,
    channels: usize,
}

impl Books {
    pub(crate) fn of(observer: &Client) -> Books {
        let mut books = Books::default();
        for one in observer.list().expect("the manager is there") {
            match one {
                ListingEntry::Pool { capacity_bytes, free_bytes, .. } => {
                    books.taken_bytes = capacity_bytes - free_bytes;
                }
                ListingEntry::Client { .. } => books.clients += 1,
                ListingEntry::Segment { granted, .. } => {
                    books.segments += 1;
                    books.grants += granted.len();
                }
                ListingEntry::Service { .. } => books.services += 1,
                ListingEntry::Host { .. } | ListingEntry::FarService { .. } => {}
                ListingEntry::Channel { .. } => books.channels += 1,
            }
        }
        books
    }

    /// Waits until all is as before: clients that leave are cleaned up after with a delay.
    pub(crate) fn come_back(self, observer: &Client, after: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let now = Books::of(observer);
            if now == self {
                return;
            }
            assert!(Instant::now() < end, "after {after}: {now:?}, before: {self:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
