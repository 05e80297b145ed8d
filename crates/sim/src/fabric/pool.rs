//! Connections that are kept between messages.

use std::collections::BTreeMap;
use unrack_workload::NodeId;

/// Idle connections of each pair of ends.
#[derive(Debug)]
pub(super) struct Pool<K> {
    idle: BTreeMap<(NodeId, NodeId), Vec<K>>,
}

impl<K> Pool<K> {
    /// Creates an empty pool.
    pub(super) fn new() -> Pool<K> {
        Pool { idle: BTreeMap::new() }
    }

    /// Adds an idle connection.
    pub(super) fn put(&mut self, ends: (NodeId, NodeId), connection: K) {
        self.idle.entry(ends).or_default().push(connection);
    }

    /// Removes and returns the connection that was put last: it knows best the present state of the network.
    pub(super) fn take(&mut self, ends: (NodeId, NodeId)) -> Option<K> {
        self.idle.get_mut(&ends)?.pop()
    }
}
