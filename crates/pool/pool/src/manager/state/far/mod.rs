//! Channels to processes of other hosts, by messages between managers.
//!
//! The managers of both hosts know a channel between hosts, by the same number. Each manager serves the side of the
//! process on its host, and forwards that process's requests to the manager at the other side. The queue area belongs
//! to the client's host. A segment and its grants are known only to the manager of the segment's owner.
//!
//! A far process may write queue areas and segments of this host that were granted to it. The manager does not reuse
//! that memory until the far manager confirms that the process no longer has any of it mapped ([`Message::Ended`]). If
//! the link to that manager went down, the memory is reused once that manager is ready for the link's next epoch, or
//! its host has ended.
//!
//! | module | idea |
//! |---|---|
//! | [`links`] | links that come up and go down |
//! | [`received`] | messages from the managers of other hosts |
//! | [`sections`] | sections, which all hosts share |

mod links;
mod received;
mod sections;

use super::{Channel, ChannelSide, State};
use crate::hosts::{Host, Link, MOST_MESSAGE, Membership};
use crate::manager::doorbell::Doorbell;
use crate::manager::ledger::ChannelRecord;
use crate::wire::{
    Accepted, Access, Cause, ChannelId, ClientId, Denied, Event, Extent, MOST_NAME, OpenedChannel,
    PeerProcess, RefusedCaller, Reply, Tell, encode,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Position of the first bit of the host number, in the numbers of processes and channels.
const HOST_AT: u32 = 48;
/// Maximum number of services of one host that other hosts know.
const MOST_SERVICES: usize = 4096;
/// Maximum number of channels between the processes of this host and those of one other host.
const MOST_CHANNELS: usize = 4096;

/// The side of a channel that is on another host.
pub(super) struct FarSide {
    pub peer: PeerProcess,
    /// True if the link to that host went down after the channel was opened, so that the channel has ended.
    pub is_lost: bool,
    /// Segments that the far process granted for writing. This host's caches may hold dirty lines of them.
    pub written: Vec<Extent>,
    /// Segments that the far process granted, by offset, and whether each grant is still valid. A withdrawn one stays here until the
    /// process of this host has unmapped the segment.
    pub granted: BTreeMap<u64, bool>,
    /// True once the far process reported that it cannot use the channel.
    pub has_given_up: bool,
}

impl FarSide {
    pub(super) fn new(peer: PeerProcess, is_lost: bool) -> FarSide {
        FarSide { peer, is_lost, written: Vec::new(), granted: BTreeMap::new(), has_given_up: false }
    }
}

/// Other hosts of the device, as known to the manager of this host.
pub(crate) struct FarHosts {
    member: Membership,
    /// Links by host number; `None` for this host.
    links: Vec<Option<Link>>,
    services: BTreeMap<String, (Host, PeerProcess)>,
    /// Grants that the far manager has not confirmed yet, by channel and offset: the client that requested the grant,
    /// and the number of its request.
    passing: BTreeMap<(ChannelId, u64), (ClientId, u32)>,
    silence: Duration,
    /// Doorbell by which the managers of other hosts wake this host's manager, and this manager wakes theirs.
    doorbell: Option<Arc<dyn Doorbell>>,
    /// Hosts that were sent messages after their doorbell was last rung.
    unrung: BTreeSet<Host>,
    /// Channels whose far process must be woken, by host.
    waking: BTreeSet<(Host, ChannelId)>,
}

/// Message from the manager of one host to the manager of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Message {
    Registered {
        service: String,
        by: PeerProcess,
    },
    Unregistered {
        service: String,
    },
    /// A process of the sender's host opens a channel to a service of the receiver's host.
    Offered {
        service: String,
        offer: OpenedChannel,
    },
    /// The service's answer to an offer, with the service's process.
    Answered {
        channel: ChannelId,
        verdict: Result<(PeerProcess, Vec<u8>), RefusedCaller>,
    },
    /// The offer could not be delivered to a service.
    Undelivered {
        channel: ChannelId,
        denied: Denied,
    },
    Granted {
        channel: ChannelId,
        segment: Extent,
        access: Access,
    },
    /// Confirms a grant: the sender has queued the grant for its process, before any later message or reply to that
    /// process.
    Passed {
        channel: ChannelId,
        offset: u64,
    },
    Withdrawn {
        channel: ChannelId,
        offset: u64,
    },
    Unmapped {
        channel: ChannelId,
        offset: u64,
    },
    GaveUp {
        channel: ChannelId,
    },
    /// The process at the sender's side no longer has any memory of the channel mapped.
    Ended {
        channel: ChannelId,
        cause: Cause,
    },
    /// The process at the sender's side of the channel wakes the process at the receiver's side.
    Rung {
        channel: ChannelId,
    },
}

/// Returns the part of a process or channel number that its host assigned.
pub(super) fn local_number(number: u64) -> u64 {
    number & ((1 << HOST_AT) - 1)
}

fn host_in(number: u64) -> Host {
    (number >> HOST_AT) as Host
}

impl FarHosts {
    /// Makes the state of a host that has just joined.
    pub(crate) fn new(
        member: Membership,
        silence: Duration,
        doorbell: Option<Arc<dyn Doorbell>>,
    ) -> FarHosts {
        member.show_doorbell(doorbell.as_ref().map(|doorbell| doorbell.number()));
        let links = (0..member.hosts()).map(|peer| (peer != member.host()).then(|| Link::new(&member, peer)));
        FarHosts {
            links: links.collect(),
            member,
            services: BTreeMap::new(),
            passing: BTreeMap::new(),
            silence,
            doorbell,
            unrung: BTreeSet::new(),
            waking: BTreeSet::new(),
        }
    }

    fn send(&mut self, to: Host, message: &Message) {
        let bytes = encode(message);
        debug_assert!(bytes.len() <= MOST_MESSAGE);
        if let Some(Some(link)) = self.links.get_mut(to) {
            link.send(&self.member, &bytes);
            self.unrung.insert(to);
        }
    }

    /// Forwards wakeups to hosts whose link has no other messages waiting, so that a process that rings too often does
    /// not delay other messages. Then rings the doorbells of hosts that were sent messages.
    fn ring(&mut self) {
        for (host, channel) in std::mem::take(&mut self.waking) {
            match self.links.get(host).and_then(Option::as_ref) {
                Some(link) if link.is_free() => self.send(host, &Message::Rung { channel }),
                Some(link) if link.is_up() => _ = self.waking.insert((host, channel)),
                _ => {}
            }
        }
        for host in std::mem::take(&mut self.unrung) {
            if let (Some(doorbell), Some(number)) = (&self.doorbell, self.member.doorbell_of(host)) {
                doorbell.ring(number);
            }
        }
    }
}

impl State {
    /// Returns the number of this host.
    pub(super) fn host(&self) -> Host {
        self.hosts.as_ref().map_or(0, |hosts| hosts.member.host())
    }

    /// Returns the host of a process.
    pub(super) fn host_of(&self, process: ClientId) -> Host {
        host_in(process.0)
    }

    /// Returns a number that no process or channel of any host has had before.
    pub(super) fn take_number(&mut self) -> u64 {
        self.ledger.take_number() | (self.host() as u64) << HOST_AT
    }

    /// Forwards wakeups, and rings the doorbells of hosts that were sent messages.
    pub(crate) fn ring_hosts(&mut self) {
        self.hosts.iter_mut().for_each(FarHosts::ring);
    }

    /// Returns whether the managers of this host and of another host can wake each other.
    fn can_ring(&self, host: Host) -> bool {
        let rings = |hosts: &FarHosts| hosts.doorbell.is_some() && hosts.member.doorbell_of(host).is_some();
        self.hosts.as_ref().is_some_and(rings)
    }

    /// Arranges that the peer of a channel on another host is woken, at the request of a process of this host.
    pub(super) fn ring_far(&mut self, by: ClientId, id: ChannelId) {
        let us = self.host();
        let Some(channel) = self.channels.get(&id).filter(|channel| !channel.is_lost()) else { return };
        let Some(host) = channel.far_host(us).filter(|_| channel.near_side(us).id == by) else { return };
        if self.can_ring(host) {
            self.hosts.iter_mut().for_each(|hosts| _ = hosts.waking.insert((host, id)));
        }
    }

    /// Returns the process on another host that has registered a service.
    pub(super) fn far_service(&self, name: &str) -> Option<PeerProcess> {
        self.hosts.as_ref()?.services.get(name).map(|(_, by)| by.clone())
    }

    /// Announces a service of this host to the other hosts.
    pub(super) fn announce(&mut self, service: &str, by: ClientId) {
        let by = self.as_seen_from_afar(by);
        self.send_all(&Message::Registered { service: service.to_string(), by });
    }

    /// Announces to the other hosts that a service of this host is gone.
    pub(super) fn unannounce(&mut self, service: &str) {
        self.send_all(&Message::Unregistered { service: service.to_string() });
    }

    fn send_all(&mut self, message: &Message) {
        let Some(hosts) = &mut self.hosts else { return };
        (0..hosts.links.len()).for_each(|host| hosts.send(host, message));
    }

    fn send(&mut self, to: Host, message: &Message) {
        self.hosts.iter_mut().for_each(|hosts| hosts.send(to, message));
    }

    /// Returns the description of a local process that other hosts receive. It identifies the process by its name only.
    fn as_seen_from_afar(&self, id: ClientId) -> PeerProcess {
        let Some(client) = self.clients.get(&id) else {
            return PeerProcess { id, pid: 0, uid: 0, gid: 0, name: "a process".into() };
        };
        let host =
            self.hosts.as_ref().map_or_else(String::new, |hosts| hosts.member.name(hosts.member.host()));
        let peer = &client.peer;
        let mut name = format!("{:?} (process {}, host {host})", peer.name, peer.pid);
        while name.len() > MOST_NAME {
            name.pop();
        }
        PeerProcess { pid: 0, name, ..peer.clone() }
    }

    /// Opens a channel to a service of another host.
    pub(super) fn open_far(
        &mut self,
        by: ClientId,
        number: u32,
        service: String,
        greeting: Vec<u8>,
        passed: &[OwnedFd],
    ) -> Result<(), Denied> {
        let found = self.hosts.as_ref().and_then(|hosts| hosts.services.get(&service));
        let Some((host, peer)) = found.map(|(host, peer)| (*host, peer.clone())) else {
            return Err(Denied::NoService(service));
        };
        self.check_link(peer.id)?;
        if !passed.is_empty() {
            return Err(Denied::DescriptorsAfar);
        }
        let holder = self.clients[&by].holder;
        let (queues, _) = self.take_queues_for(holder)?;
        let id = ChannelId(self.take_number());
        let side = |id| ChannelSide { id, open: true, given_up: false };
        let channel = Channel {
            service: service.clone(),
            client: side(by),
            server: side(peer.id),
            queues,
            holder: Some(holder),
            served: None,
            file: None,
            is_of_before: false,
            asked: Some(number),
            far: Some(FarSide::new(peer, false)),
        };
        if let Err(denied) = self.put(channel.record(id)) {
            self.give_queues(queues, Some(holder));
            return Err(denied);
        }
        self.channels.insert(id, channel);
        let peer = self.as_seen_from_afar(by);
        let offer = OpenedChannel { channel: id, peer, queues, wakeup: 0, rings: false, greeting };
        self.send(host, &Message::Offered { service, offer });
        Ok(())
    }

    /// Forwards a service's answer to the host of the client.
    pub(super) fn answer_far(
        &mut self,
        id: ChannelId,
        verdict: Result<Accepted, RefusedCaller>,
    ) -> Result<Reply, Denied> {
        let channel = self.channels.get_mut(&id).expect("just found");
        let (client, server) = (channel.client.id, channel.server.id);
        if channel.asked.take().is_none() || channel.is_lost() {
            return Err(Denied::NotYours);
        }
        let record = channel.record(id);
        self.put(record).expect("a record that is there can be changed");
        let refused = verdict.is_err();
        let peer = self.as_seen_from_afar(server);
        let verdict = verdict.map(|accepted| (peer, accepted.greeting));
        self.send(self.host_of(client), &Message::Answered { channel: id, verdict });
        if refused {
            self.end_quietly(id, server);
            self.end_quietly(id, client);
        }
        Ok(Reply::Done)
    }

    /// Checks that the link to the host of a process has room for messages.
    pub(super) fn check_link(&self, id: ClientId) -> Result<(), Denied> {
        let host = self.host_of(id);
        let link = self.hosts.as_ref().and_then(|hosts| hosts.links.get(host)?.as_ref());
        match link.is_some_and(Link::has_room) {
            true => Ok(()),
            false => Err(Denied::HostSilent(host as u32)),
        }
    }

    /// Forwards an event to a process of another host.
    pub(super) fn pass_event(&mut self, to: ClientId, event: Event) {
        let message = match event {
            Event::Granted { channel, segment, access } => Message::Granted { channel, segment, access },
            Event::Withdrawn { channel, offset } => Message::Withdrawn { channel, offset },
            Event::Gone { channel, cause: Cause::CannotMap } => Message::GaveUp { channel },
            // Offers, ends and wakeups have separate messages, and only processes of this host are asked for their
            // bytes in use.
            Event::Offered { .. } | Event::Gone { .. } | Event::Rung { .. } | Event::Count => return,
        };
        self.send(self.host_of(to), &message);
    }

    /// Forwards the report of a process that it has unmapped a segment of another host. Returns whether the channel is
    /// one of this process to another host.
    pub(super) fn pass_unmapped(&mut self, by: ClientId, id: ChannelId, offset: u64) -> bool {
        let us = self.host();
        let Some(channel) = self.channels.get_mut(&id) else { return false };
        let Some(host) = channel.far_host(us).filter(|_| channel.near_side(us).id == by) else {
            return false;
        };
        let far = channel.far.as_mut().expect("it has a far host");
        far.granted.remove(&offset);
        let unmapped: Vec<Extent> = far.written.extract_if(.., |extent| extent.offset == offset).collect();
        self.store.write_back(&unmapped);
        self.send(host, &Message::Unmapped { channel: id, offset });
        true
    }

    /// Notifies another host that a local process no longer has any memory of a channel mapped. Before that, lines that
    /// the process may have written are written back. Otherwise a dirty line could be written back later and overwrite
    /// new data of the other host.
    pub(super) fn pass_end(&mut self, id: ChannelId, one: ClientId, cause: Cause) {
        let channel = &self.channels[&id];
        let us = self.host();
        let Some(host) = channel.far_host(us).filter(|_| channel.near_side(us).id == one) else { return };
        let written = channel.far.iter().flat_map(|far| far.written.iter().copied());
        self.store.write_back(&written.chain([channel.queues]).collect::<Vec<_>>());
        if !channel.is_lost() {
            self.send(host, &Message::Ended { channel: id, cause });
        }
    }

    fn channels_to(&self, host: Host) -> Vec<ChannelId> {
        let us = self.host();
        let to = self.channels.iter().filter(|(_, channel)| channel.far_host(us) == Some(host));
        to.map(|(id, _)| *id).collect()
    }

    /// Records a request to grant a segment to a process of another host, and returns whether the reply must wait for
    /// that host. The reply must wait because a buffer that the requesting process names after the reply must not
    /// overtake the grant.
    pub(super) fn awaits_pass(&mut self, by: ClientId, number: u32, id: ChannelId, offset: u64) -> bool {
        let Some(hosts) =
            self.hosts.as_mut().filter(|_| self.channels.get(&id).is_some_and(|one| one.far.is_some()))
        else {
            return false;
        };
        hosts.passing.insert((id, offset), (by, number));
        true
    }

    fn passed(&mut self, id: ChannelId, offset: u64, outcome: Result<Reply, Denied>) {
        let passed = self.hosts.as_mut().and_then(|hosts| hosts.passing.remove(&(id, offset)));
        if let Some((by, number)) = passed {
            self.tell(by, Tell::Reply { number, outcome }, Vec::new());
        }
    }

    /// Denies all pending requests to grant segments by a channel that has ended.
    fn pass_none(&mut self, id: ChannelId) {
        let Some(hosts) = &self.hosts else { return };
        let passing: Vec<u64> =
            hosts.passing.range((id, 0)..=(id, u64::MAX)).map(|((_, offset), _)| *offset).collect();
        let peer =
            self.channels.get(&id).and_then(|channel| channel.far.as_ref()).map(|far| far.peer.clone());
        for offset in passing {
            let gone =
                peer.clone().map_or(Denied::NotYours, |peer| Denied::Gone { peer, cause: Cause::Closed });
            self.passed(id, offset, Err(gone));
        }
    }

    /// Returns the local process of an open channel to another host.
    fn near_of(&self, host: Host, id: ChannelId) -> Option<ClientId> {
        let channel = self.channels.get(&id).filter(|channel| channel.far_host(self.host()) == Some(host))?;
        let near = channel.near_side(self.host());
        (near.open && !channel.is_lost()).then_some(near.id)
    }

    /// Returns the far side of a channel that the previous manager had. The channel has ended.
    pub(super) fn far_of_before(&self, pair: &ChannelRecord) -> Option<FarSide> {
        let us = self.host();
        let far = [pair.client, pair.server].into_iter().find(|id| host_in(id.0) != us)?;
        let name = format!("a process of host {}", host_in(far.0));
        let peer = PeerProcess { id: far, pid: 0, uid: 0, gid: 0, name };
        Some(FarSide::new(peer, true))
    }
}

impl Channel {
    /// Returns whether the channel has ended because the link to the other host went down.
    pub(super) fn is_lost(&self) -> bool {
        self.far.as_ref().is_some_and(|far| far.is_lost)
    }

    /// Returns the other host of a channel between hosts, or `None` for a local channel.
    fn far_host(&self, us: Host) -> Option<Host> {
        self.far.as_ref().map(|_| host_in(self.far_side(us).id.0))
    }

    /// Returns the side of a channel between hosts that is a process of the other host.
    fn far_side(&self, us: Host) -> ChannelSide {
        if host_in(self.client.id.0) == us { self.server } else { self.client }
    }

    /// Returns the side of a channel between hosts that is a process of this host.
    fn near_side(&self, us: Host) -> ChannelSide {
        if host_in(self.client.id.0) == us { self.client } else { self.server }
    }
}
