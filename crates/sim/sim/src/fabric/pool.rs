//! Connections that are kept between messages.

use std::collections::BTreeMap;
use unrack_workload::Endpoints;

/// Idle connections, by their endpoints.
#[derive(Debug)]
pub(super) struct Pool<K> {
    idle: BTreeMap<Endpoints, Vec<K>>,
}

impl<K> Pool<K> {
    /// Creates an empty pool.
    pub(super) fn new() -> Pool<K> {
        Pool { idle: BTreeMap::new() }
    }

    /// Adds an idle connection.
    pub(super) fn put(&mut self, ends: Endpoints, connection: K) {
        self.idle.entry(ends).or_default().push(connection);
    }

    /// Removes and returns the connection that became idle last, because its view of the network is the most recent.
    pub(super) fn take(&mut self, ends: Endpoints) -> Option<K> {
        self.idle.get_mut(&ends)?.pop()
    }
}
