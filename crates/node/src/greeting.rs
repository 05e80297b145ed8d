//! Who may have a session.

use crate::capacity::{Capacity, Part};
use std::sync::Arc;
use unrack_pager::node::wire::{Hello, MOST_IDS, MOST_PAGES, PAGE, Status, Transport, VERSION, Welcome};

/// What a node offers to those who greet it.
#[derive(Debug, Clone)]
pub struct Terms {
    pub capacity: Arc<Capacity>,
    pub transport: Transport,
    pub extent_pages: u32,
}

impl Terms {
    /// Answers a greeting, with the session's part of the capacity if it may begin.
    pub fn greet(&self, hello: &Hello) -> (Welcome, Option<Part>) {
        let unfit = match () {
            _ if hello.version != VERSION => Some(Status::OtherVersion),
            _ if hello.page_bytes as usize != PAGE => Some(Status::OtherPageSize),
            _ if hello.transport != self.transport as u16 => Some(Status::OtherTransport),
            _ => None,
        };
        if let Some(status) = unfit {
            return (self.answer(status), None);
        }
        match Part::new(&self.capacity, hello.reserve) {
            Some(part) => (self.answer(Status::Welcome), Some(part)),
            None => (self.answer(Status::Full), None),
        }
    }

    pub fn answer(&self, status: Status) -> Welcome {
        Welcome {
            version: VERSION,
            status,
            most_pages: MOST_PAGES,
            capacity: self.capacity.pages(),
            free: self.capacity.free(),
            most_ids: MOST_IDS,
            extent_pages: self.extent_pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_to_refuse_is_named() {
        let capacity = Capacity::new(8);
        let terms = Terms { capacity, transport: Transport::Stream, extent_pages: 0 };
        let hello = Hello::new(Transport::Stream, 8);
        let status = |hello: Hello| terms.greet(&hello).0.status;
        assert_eq!(status(Hello { version: 2, ..hello }), Status::OtherVersion);
        assert_eq!(status(Hello { page_bytes: 65536, ..hello }), Status::OtherPageSize);
        assert_eq!(status(Hello { transport: 1, ..hello }), Status::OtherTransport);
        assert_eq!(status(Hello { reserve: 9, ..hello }), Status::Full);
        let (welcome, part) = terms.greet(&hello);
        assert_eq!((welcome.status, welcome.free, part.is_some()), (Status::Welcome, 0, true));
        assert_eq!(status(Hello { reserve: u64::MAX, ..hello }), Status::Full);
    }
}
