//! Services of a pool, and the clients connected to them.

use crate::ends::QueueLayout;
use serde::Serialize;
use std::fmt;
use unrack_pool::wire::{ClientId, ListingEntry, PeerProcess};
use unrack_pool::{Client, Error};

/// All services of a pool.
#[derive(Debug, Serialize)]
pub struct ServiceListing {
    pub services: Vec<ListedService>,
}

/// One service.
#[derive(Debug, Serialize)]
pub struct ListedService {
    pub name: String,
    pub server: Option<PeerProcess>,
    pub connections: Vec<ListedConnection>,
}

/// A client that is connected to a service by a pair of queues.
#[derive(Debug, Serialize)]
pub struct ListedConnection {
    pub client: Option<PeerProcess>,
    /// False if the server has not accepted the connection yet.
    pub open: bool,
    /// Offset of the queues in the pool.
    pub queues_offset: u64,
    /// Number of calls that may be in flight at a time.
    pub slots: usize,
}

impl ServiceListing {
    /// Requests the list from the manager of the pool.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn read(pool: &Client) -> Result<ServiceListing, Error> {
        Ok(ServiceListing::from_listed(&pool.list()?))
    }

    fn from_listed(listed: &[ListingEntry]) -> ServiceListing {
        let peer = |id: ClientId| {
            listed.iter().find_map(|one| match one {
                ListingEntry::Client { peer, .. } if peer.id == id => Some(peer.clone()),
                _ => None,
            })
        };
        let connections = |name: &str| {
            let of_service = listed.iter().filter_map(|one| match one {
                ListingEntry::Channel { service, client, open, queues, .. } if service == name => {
                    Some(ListedConnection {
                        client: peer(*client),
                        open: *open,
                        queues_offset: queues.offset,
                        slots: QueueLayout::fitting(queues.bytes as usize).map_or(0, QueueLayout::lines),
                    })
                }
                _ => None,
            });
            of_service.collect()
        };
        let services = listed.iter().filter_map(|one| match one {
            ListingEntry::Service { name, by } => {
                Some(ListedService { name: name.clone(), server: peer(*by), connections: connections(name) })
            }
            _ => None,
        });
        ServiceListing { services: services.collect() }
    }
}

impl fmt::Display for ServiceListing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |peer: &Option<PeerProcess>| {
            peer.as_ref().map_or("somebody who left".into(), PeerProcess::to_string)
        };
        if self.services.is_empty() {
            return writeln!(out, "no services");
        }
        for service in &self.services {
            writeln!(out, "{}  by {}", service.name, who(&service.server))?;
            for connection in &service.connections {
                let state = if connection.open { "" } else { ", not accepted yet" };
                let ListedConnection { slots, queues_offset, .. } = connection;
                let client = who(&connection.client);
                writeln!(out, "  {client}: {slots} calls at a time, queues at {queues_offset:#x}{state}")?;
            }
        }
        Ok(())
    }
}
