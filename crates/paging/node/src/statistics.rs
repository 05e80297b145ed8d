//! Counters of a node, summed over all its sessions.

use crate::greeting::NodeTerms;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use unrack_wire::MOST_PAGES;

/// Number of size classes: messages of 1, 2 to 3, 4 to 7, … pages.
const SIZES: usize = MOST_PAGES.ilog2() as usize + 1;

/// Counters to which all sessions add.
#[derive(Debug, Default)]
pub struct NodeCounters {
    pub(crate) sessions: AtomicU64,
    pub(crate) open_sessions: AtomicU64,
    pub(crate) refused_sessions: AtomicU64,
    /// Sessions that ended because the client violated the protocol.
    pub(crate) faulty_sessions: AtomicU64,
    /// Sessions that ended because the client was silent for too long.
    pub(crate) silent_sessions: AtomicU64,
    pub(crate) stored: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) loaded: AtomicU64,
    pub(crate) forgotten: AtomicU64,
    pub(crate) extents: AtomicU64,
    store_sizes: [AtomicU64; SIZES],
    load_sizes: [AtomicU64; SIZES],
}

/// Values of [`NodeCounters`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statistics {
    pub capacity_pages: u64,
    /// Maximum number of pages that one client may store.
    pub share_pages: u64,
    /// Pages of memory that sessions have reserved, written or been granted.
    pub held_pages: u64,
    pub sessions: u64,
    pub open_sessions: u64,
    pub refused_sessions: u64,
    pub faulty_sessions: u64,
    pub silent_sessions: u64,
    pub stored_pages: u64,
    pub refused_pages: u64,
    pub loaded_pages: u64,
    pub forgotten_pages: u64,
    /// Number of granted extents of shared memory.
    pub extents: u64,
    pub store_messages: Vec<TransferSize>,
    pub load_messages: Vec<TransferSize>,
}

/// Number of messages that carried at least `pages` pages, and fewer than twice as many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferSize {
    pub pages: u64,
    pub messages: u64,
}

/// Adds `n` to a counter.
pub(crate) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

impl NodeCounters {
    /// Counts a store message of `pages` pages.
    pub(crate) fn store(&self, pages: u16) {
        count(&self.store_sizes[size(pages)], 1);
    }

    /// Counts a load message of `pages` pages, and its pages.
    pub(crate) fn load(&self, pages: u16) {
        count(&self.load_sizes[size(pages)], 1);
        count(&self.loaded, pages as u64);
    }

    /// Returns the current values.
    pub(crate) fn snapshot(&self, terms: &NodeTerms) -> Statistics {
        let now = |counter: &AtomicU64| counter.load(Relaxed);
        Statistics {
            capacity_pages: terms.shares.all().most(),
            share_pages: terms.shares.each(),
            held_pages: terms.shares.all().taken(),
            sessions: now(&self.sessions),
            open_sessions: now(&self.open_sessions),
            refused_sessions: now(&self.refused_sessions),
            faulty_sessions: now(&self.faulty_sessions),
            silent_sessions: now(&self.silent_sessions),
            stored_pages: now(&self.stored),
            refused_pages: now(&self.refused),
            loaded_pages: now(&self.loaded),
            forgotten_pages: now(&self.forgotten),
            extents: now(&self.extents),
            store_messages: sizes(&self.store_sizes),
            load_messages: sizes(&self.load_sizes),
        }
    }
}

/// Returns the size class of a message. `pages` must be 1 to [`MOST_PAGES`], which the session has checked.
fn size(pages: u16) -> usize {
    pages.ilog2() as usize
}

fn sizes(counters: &[AtomicU64]) -> Vec<TransferSize> {
    let sizes = counters.iter().enumerate();
    sizes.map(|(log, counter)| TransferSize { pages: 1 << log, messages: counter.load(Relaxed) }).collect()
}

impl std::fmt::Display for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        writeln!(
            f,
            "pages held {} of {}, {} a client at most",
            self.held_pages, self.capacity_pages, self.share_pages
        )?;
        writeln!(
            f,
            "sessions {} ({} open, {} refused, {} faulty, {} silent)",
            self.sessions,
            self.open_sessions,
            self.refused_sessions,
            self.faulty_sessions,
            self.silent_sessions
        )?;
        writeln!(
            f,
            "pages stored {}, refused {}, loaded {}, forgotten {}; extents {}",
            self.stored_pages, self.refused_pages, self.loaded_pages, self.forgotten_pages, self.extents
        )?;
        for (verb, sizes) in [("store", &self.store_messages), ("load", &self.load_messages)] {
            write!(f, "{verb} messages by pages:")?;
            sizes.iter().try_for_each(|size| write!(f, " {}+: {}", size.pages, size.messages))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
