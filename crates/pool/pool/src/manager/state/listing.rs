//! Listing of the manager's state, for people to read.

use super::State;
use crate::SECTION;
use crate::wire::{Denied, Event, ListingEntry, MOST_BYTES, Reply, encode};

impl State {
    /// Returns the entries from index `from` on that fit in one message.
    pub(super) fn list(&self, from: u64) -> Reply {
        const ROOM: usize = MOST_BYTES - 64;
        let mut bytes = 0;
        let mut entries = Vec::new();
        for (at, entry) in self.entries().enumerate().skip(from.try_into().unwrap_or(usize::MAX)) {
            bytes += encode(&entry).len();
            if bytes > ROOM && !entries.is_empty() {
                return Reply::Listed { entries, next: Some(at as u64) };
            }
            entries.push(entry);
        }
        Reply::Listed { entries, next: None }
    }

    /// Asks each client how many bytes of its buffers are in use, except clients that do not read their messages.
    pub(super) fn count(&mut self) -> Result<Reply, Denied> {
        let reading =
            self.clients.values().filter(|client| client.waiting.is_empty()).map(|client| client.peer.id);
        for client in reading.collect::<Vec<_>>() {
            self.event(client, Event::Count, Vec::new());
        }
        Ok(Reply::Done)
    }

    fn entries(&self) -> impl Iterator<Item = ListingEntry> {
        let (all, free) = self.room();
        let pool = ListingEntry::Pool {
            capacity_bytes: u64::from(all) * SECTION,
            free_bytes: u64::from(free) * SECTION,
            backing: self.store.backing.to_string(),
            per_client_bytes: self.holders.quota_bytes(),
        };
        let clients = self.clients.values();
        let segments = self.segments.values().map(|segment| ListingEntry::Segment {
            extent: segment.extent,
            owner: segment.owner,
            // More entries would not fit in a message, and people do not need them.
            granted: segment.grants.iter().take(256).map(|grant| (grant.to, grant.access)).collect(),
        });
        let services = self
            .services
            .iter()
            .map(|(name, service)| ListingEntry::Service { name: name.clone(), by: service.by })
            .chain(self.far_entries());
        let channels = self.channels.iter().map(|(id, channel)| ListingEntry::Channel {
            id: *id,
            service: channel.service.clone(),
            client: channel.client.id,
            server: channel.server.id,
            open: channel.asked.is_none() && channel.client.open && channel.server.open,
            queues: channel.queues,
        });
        let clients = clients.map(|client| ListingEntry::Client {
            peer: client.peer.clone(),
            used_bytes: client.used_bytes,
            quota_used_bytes: self.holders.bytes_of(client.holder),
        });
        std::iter::once(pool)
            .chain(self.host_entries())
            .chain(clients)
            .chain(services)
            .chain(channels)
            .chain(segments)
    }
}
