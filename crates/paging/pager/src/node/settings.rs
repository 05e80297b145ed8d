//! Parameters of a session with a memory node, and the limits that the node states.

use super::address::Address;
use crate::control::NodeCounts;
use core::sync::atomic::AtomicU64;
use unrack_wire::{MOST_IDS, MOST_PAGES, PATIENCE, Welcome};

/// Address of a memory node, and parameters of the session with it.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    pub address: Address,
    /// Number of pages that the node must reserve for this process; if the node cannot, it must refuse the session. 0: none.
    pub reserve_pages: u64,
    /// Longest time in ns that connecting and greeting may take, without the time in which this process is stopped.
    pub timeout_ns: u64,
    /// Counter to which the time waited so far is added, in ns.
    pub waited_ns: Option<&'static AtomicU64>,
    /// Longest time in ns that the node may owe an answer and stay silent before the session ends.
    pub patience_ns: u64,
    /// Counts of what the node sends and receives.
    pub counts: Option<&'static NodeCounts>,
    pub tuning: Tuning,
}

impl NodeSettings {
    /// Makes settings with the usual times and tuning.
    pub fn new(address: Address) -> NodeSettings {
        let (timeout_ns, patience_ns, tuning) =
            (5_000_000_000, PATIENCE.as_nanos() as u64, Tuning::default());
        NodeSettings {
            address,
            reserve_pages: 0,
            timeout_ns,
            waited_ns: None,
            patience_ns,
            counts: None,
            tuning,
        }
    }
}

/// Parameters of a session's queues.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// Number of queued stores at which they are sent without a flush.
    pub batch: usize,
    /// Maximum number of pages in one message; the node has a limit as well.
    pub merge: usize,
    /// Maximum number of pages in flight at once, separately for stores and for loads. It is limited because a load may have to wait for
    /// all of them.
    pub window: usize,
    /// Maximum length of the queue of stores, and of the queue of loads.
    pub queue: usize,
    /// True to compare the rapidhash of every loaded page with that of the stored page.
    pub checksums: bool,
    /// Number of page ids, counted from 0; the node has a limit as well.
    pub most_ids: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { batch: 32, merge: 32, window: 64, queue: 1024, checksums: true, most_ids: MOST_IDS }
    }
}

impl Tuning {
    /// Returns the tuning, reduced to sensible bounds and to the node's limits.
    pub(super) fn within(self, welcome: &Welcome) -> Tuning {
        let most = welcome.most_pages.min(MOST_PAGES) as usize;
        Tuning {
            batch: self.batch.max(1),
            merge: self.merge.clamp(1, most),
            window: self.window.max(1),
            queue: self.queue.clamp(1, u16::MAX as usize),
            most_ids: self.most_ids.min(welcome.most_ids),
            ..self
        }
    }
}

/// Number of pages that a node has, maximum number of pages that one client may store there, and the node's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeLimits {
    pub capacity: u64,
    pub share: u64,
    /// Random number of the node, by which two addresses of one node are recognized; 0: unknown.
    pub identity: u64,
}

impl NodeLimits {
    /// Takes the limits from a node's greeting.
    pub(super) fn new(welcome: &Welcome) -> NodeLimits {
        NodeLimits { capacity: welcome.capacity, share: welcome.share, identity: welcome.identity }
    }
}
