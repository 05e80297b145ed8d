//! Connections that are kept between messages.

use std::collections::BTreeMap;
use unrack_workload::NodeId;

/// Those that no message uses, of each pair of ends.
#[derive(Debug)]
pub(super) struct Pool<K> {
    idle: BTreeMap<(NodeId, NodeId), Vec<K>>,
}

impl<K> Pool<K> {
    pub fn new() -> Pool<K> {
        Pool { idle: BTreeMap::new() }
    }

    pub fn put(&mut self, ends: (NodeId, NodeId), connection: K) {
        self.idle.entry(ends).or_default().push(connection);
    }

    /// The one that was put last: it knows best how the network is now.
    pub fn take(&mut self, ends: (NodeId, NodeId)) -> Option<K> {
        self.idle.get_mut(&ends)?.pop()
    }
}
