//! Contents of a pool, for people and programs that list it with `unrack pool ls`.

use crate::cache_control::MemoryKind;
use crate::client::{Client, Error};
use crate::wire::{Access, ClientId, HostStanding, ListingEntry, PeerProcess};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use unrack_units::Bytes;

/// State of a pool at one moment, without the process that lists it.
#[derive(Debug, Serialize)]
pub struct Listing {
    pub capacity_bytes: u64,
    pub free_bytes: u64,
    /// Maximum bytes that one client may have.
    pub per_client_bytes: u64,
    pub backing: String,
    pub mode: MemoryKind,
    pub region_sections: u32,
    /// Hosts that share the devices; empty if only this host uses them.
    pub hosts: Vec<Host>,
    pub processes: Vec<Process>,
    pub services: Vec<Service>,
    pub channels: Vec<Channel>,
    pub segments: Vec<Segment>,
}

/// A host that shares the devices.
#[derive(Debug, Serialize)]
pub struct Host {
    pub host: u32,
    pub name: String,
    pub standing: HostStanding,
    /// True for the host on which the listing is made.
    pub is_here: bool,
    /// True while the manager of that host and this host's manager can exchange messages.
    pub is_linked: bool,
    /// True if other hosts can wake the manager of that host, and therefore also its programs.
    pub has_doorbell: bool,
    /// Size of the sections that the host claims, in bytes.
    pub claimed_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct Process {
    #[serde(flatten)]
    pub peer: PeerProcess,
    /// Size of the segments that the process has leased, in bytes.
    pub held_bytes: u64,
    /// Size of the process's buffers in use, in bytes, as the process reports it; `None` if it has not reported yet.
    pub used_bytes: Option<u64>,
    /// Bytes that count against the process's quota. They are the segments and queue areas of all connections of the
    /// process, or of all processes of its user if that is not the manager's user.
    pub quota_used_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct Service {
    pub name: String,
    pub by: ClientId,
    /// Name of the process and its host, if the service is on another host.
    pub far: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Channel {
    pub id: u64,
    pub service: String,
    pub client: ClientId,
    pub server: ClientId,
    /// False if the service has not answered yet, or one side has closed the channel.
    pub open: bool,
    pub queues_offset: u64,
    pub queues_bytes: u64,
}

#[derive(Debug, Serialize)]
pub struct Segment {
    pub offset: u64,
    pub bytes: u64,
    /// Owner of the segment; `None` if the owner is gone but other processes still have the segment mapped.
    pub owner: Option<ClientId>,
    pub granted: Vec<(ClientId, Access)>,
}

impl Listing {
    /// Asks the manager for the state of its pool.
    ///
    /// # Errors
    /// If the manager is gone.
    pub fn read(client: &Client) -> Result<Listing, Error> {
        let welcome = client.pool();
        let mut listing = Listing {
            capacity_bytes: 0,
            free_bytes: 0,
            per_client_bytes: 0,
            backing: String::new(),
            mode: welcome.mode,
            region_sections: welcome.region_sections,
            hosts: Vec::new(),
            processes: Vec::new(),
            services: Vec::new(),
            channels: Vec::new(),
            segments: Vec::new(),
        };
        client.list()?.into_iter().for_each(|listed| listing.add(listed));
        let mut held = BTreeMap::<ClientId, u64>::new();
        for segment in &listing.segments {
            segment.owner.into_iter().for_each(|owner| *held.entry(owner).or_default() += segment.bytes);
        }
        for process in &mut listing.processes {
            process.held_bytes = held.get(&process.peer.id).copied().unwrap_or(0);
        }
        listing.processes.retain(|process| process.peer.id != client.id());
        Ok(listing)
    }

    fn add(&mut self, listed: ListingEntry) {
        match listed {
            ListingEntry::Pool { capacity_bytes, free_bytes, backing, per_client_bytes } => {
                (self.capacity_bytes, self.free_bytes, self.backing) = (capacity_bytes, free_bytes, backing);
                self.per_client_bytes = per_client_bytes;
            }
            ListingEntry::Host { host, name, standing, is_here, is_linked, has_doorbell, claimed_bytes } => {
                let host = Host { host, name, standing, is_here, is_linked, has_doorbell, claimed_bytes };
                self.hosts.push(host);
            }
            ListingEntry::Client { peer, used_bytes, quota_used_bytes } => {
                self.processes.push(Process { peer, held_bytes: 0, used_bytes, quota_used_bytes });
            }
            ListingEntry::Service { name, by } => self.services.push(Service { name, by, far: None }),
            ListingEntry::FarService { name, by } => {
                self.services.push(Service { name, by: by.id, far: Some(by.name) });
            }
            ListingEntry::Channel { id, service, client, server, open, queues } => {
                self.channels.push(Channel {
                    id: id.0,
                    service,
                    client,
                    server,
                    open,
                    queues_offset: queues.offset,
                    queues_bytes: queues.bytes,
                })
            }
            ListingEntry::Segment { extent, owner, granted } => {
                self.segments.push(Segment { offset: extent.offset, bytes: extent.bytes, owner, granted });
            }
        }
    }

    fn name_of(&self, id: ClientId) -> String {
        let found = self.processes.iter().find(|process| process.peer.id == id);
        found.map_or_else(
            || "(gone)".into(),
            |process| format!("{} ({})", process.peer.name, process.peer.pid),
        )
    }
}

/// Formats the listing for people, without empty parts.
impl fmt::Display for Listing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (capacity, free) = (Bytes::new(self.capacity_bytes), Bytes::new(self.free_bytes));
        let quota = Bytes::new(self.per_client_bytes);
        writeln!(out, "{capacity}, {free} free; at most {quota} a client; {}, {}", self.backing, self.mode)?;
        if !self.hosts.is_empty() {
            let [state, claimed, doorbell] = ["state", "claimed", "doorbell"];
            writeln!(out, "\n{:<28}{:>8}{state:>12}{claimed:>12}{doorbell:>10}", "host", "number")?;
        }
        for Host { host, name, standing, is_here, is_linked, has_doorbell, claimed_bytes } in &self.hosts {
            let claimed = Bytes::new(*claimed_bytes).to_string();
            let note = if *is_here || *is_linked { "" } else { ", not linked" };
            let doorbell = if *has_doorbell { "yes" } else { "no" };
            let standing = standing.to_string();
            writeln!(out, "{name:<28}{host:>8}{standing:>12}{claimed:>12}{doorbell:>10}{note}")?;
        }
        if !self.processes.is_empty() {
            let [held, used] = ["held", "used"];
            writeln!(out, "\n{:<28}{:>8}{:>8}{held:>12}{used:>12}{:>8}", "process", "pid", "user", "quota")?;
        }
        for Process { peer, held_bytes, used_bytes, quota_used_bytes } in &self.processes {
            let used = used_bytes.map_or_else(|| "?".into(), |bytes| Bytes::new(bytes).to_string());
            let held = Bytes::new(*held_bytes).to_string();
            let percent = quota_used_bytes.saturating_mul(100) / self.per_client_bytes.max(1);
            let line = format!("{:<28}{:>8}{:>8}{held:>12}{used:>12}", peer.name, peer.pid, peer.uid);
            writeln!(out, "{line}{:>8}", format!("{percent}%"))?;
        }
        if !self.services.is_empty() {
            writeln!(out, "\n{:<28}by", "service")?;
        }
        for Service { name, by, far } in &self.services {
            writeln!(out, "{name:<28}{}", far.clone().unwrap_or_else(|| self.name_of(*by)))?;
        }
        if !self.channels.is_empty() {
            writeln!(out, "\n{:<28}from", "channel to")?;
        }
        for Channel { service, client, open, .. } in &self.channels {
            let state = if *open { "" } else { ", not open" };
            writeln!(out, "{service:<28}{}{state}", self.name_of(*client))?;
        }
        let orphans = self.segments.iter().filter(|segment| segment.owner.is_none());
        let orphans: u64 = orphans.map(|segment| segment.bytes).sum();
        if orphans > 0 {
            let orphans = Bytes::new(orphans);
            writeln!(out, "\n{orphans} were held by processes that are gone; others still have them mapped")?;
        }
        Ok(())
    }
}
