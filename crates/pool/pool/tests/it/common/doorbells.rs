//! Doorbells of hosts that are managers of one machine.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use unrack_pool::manager::doorbell::Doorbell;

/// Doorbells of all hosts of a rack.
#[derive(Debug)]
pub(crate) struct Doorbells(Vec<OwnedFd>);

#[derive(Debug)]
struct One {
    number: u32,
    all: Arc<Doorbells>,
}

impl Doorbells {
    pub(crate) fn new(hosts: u32) -> Arc<Doorbells> {
        let make = |_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
        Arc::new(Doorbells((0..hosts).map(make).collect()))
    }

    /// Returns the doorbell of a host.
    pub(crate) fn of(self: &Arc<Doorbells>, host: u32) -> Arc<dyn Doorbell> {
        Arc::new(One { number: host, all: self.clone() })
    }
}

impl Doorbell for One {
    fn number(&self) -> u32 {
        self.number
    }

    fn ring(&self, number: u32) {
        if let Some(wakeup) = self.all.0.get(number as usize) {
            rustix::io::write(wakeup, &1u64.to_ne_bytes()).expect("an eventfd takes a 1");
        }
    }

    fn wakeup(&self) -> BorrowedFd<'_> {
        self.all.0[self.number as usize].as_fd()
    }

    fn silence(&self) {
        let _ = rustix::io::read(self.wakeup(), &mut [0; 8]);
    }
}
