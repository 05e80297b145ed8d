//! Channels to processes of other hosts, by messages between managers.
//!
//! A channel between hosts is known to both managers, with the same number: each has the side of its own process, and
//! passes on what that process asks for to the manager of the other side. The queue area is of the client's host.
//! A segment and its grants are known to its owner's manager alone.
//!
//! What a far process may write here, queue areas and segments that were granted to it, is not used for anything else
//! until the far manager says that the process has nothing mapped any more ([`Message::Ended`]); or, if the link to
//! it went down, until that manager is ready for the link's next epoch, or its host has ended.

use super::{Channel, Side, State};
use crate::SECTION;
use crate::hosts::{Happened, Host, Link, MOST_MESSAGE, Member, Standing};
use crate::manager::ledger::Pair;
use crate::wire::{
    Accepted, Access, Cause, ChannelId, ClientId, Denied, Event, Extent, HostStanding, ListingEntry,
    MOST_GREETING, MOST_NAME, OpenedChannel, PeerProcess, RefusedCaller, Reply, Tell, decode, encode,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Bit at which the number of a host begins in the numbers of its processes and channels.
const HOST_AT: u32 = 48;
/// Most services of one host that others know of.
const MOST_SERVICES: usize = 4096;
/// Most channels that the processes of one host may have open to another.
const MOST_CHANNELS: usize = 4096;

/// Other side of a channel, on another host.
pub(super) struct FarSide {
    pub peer: PeerProcess,
    /// True if the link to that host went down after the channel was opened: it is over.
    pub is_lost: bool,
    /// Segments that the far process granted to be written: lines of them may be dirty in this host's caches.
    pub written: Vec<Extent>,
}

/// Other hosts of the device, as this one's manager knows them.
pub(crate) struct Hosts {
    member: Member,
    /// Links by host; `None` for this one.
    links: Vec<Option<Link>>,
    services: BTreeMap<String, (Host, PeerProcess)>,
    /// Requests to grant a segment that the far process has not been told of: by channel and offset, who asked, and its
    /// number.
    passing: BTreeMap<(ChannelId, u64), (ClientId, u32)>,
    silence: Duration,
}

/// Message from one manager to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Message {
    Registered {
        service: String,
        by: PeerProcess,
    },
    Unregistered {
        service: String,
    },
    /// A process opens a channel to a service of the receiver's host.
    Offered {
        service: String,
        offer: OpenedChannel,
    },
    /// The service's answer to an offer, and its process.
    Answered {
        channel: ChannelId,
        verdict: Result<(PeerProcess, Vec<u8>), RefusedCaller>,
    },
    /// The offer reached no service.
    Undelivered {
        channel: ChannelId,
        denied: Denied,
    },
    Granted {
        channel: ChannelId,
        segment: Extent,
        access: Access,
    },
    /// The process that a segment was granted to is told of it before all that it is told or asks from now on.
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
    /// The sender's side of the channel has nothing mapped any more.
    Ended {
        channel: ChannelId,
        cause: Cause,
    },
}

/// Returns the number that a process or channel has on its own host.
pub(super) fn local_number(number: u64) -> u64 {
    number & ((1 << HOST_AT) - 1)
}

fn host_in(number: u64) -> Host {
    (number >> HOST_AT) as Host
}

impl Hosts {
    /// Makes the state of a host that has just joined.
    pub(crate) fn new(member: Member, silence: Duration) -> Hosts {
        let links = (0..member.hosts()).map(|peer| (peer != member.host()).then(|| Link::new(&member, peer)));
        Hosts { links: links.collect(), member, services: BTreeMap::new(), passing: BTreeMap::new(), silence }
    }

    fn send(&mut self, to: Host, message: &Message) {
        let bytes = encode(message);
        debug_assert!(bytes.len() <= MOST_MESSAGE);
        if let Some(Some(link)) = self.links.get_mut(to) {
            link.send(&self.member, &bytes);
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

    /// Returns a number that no process or channel of any host had before.
    pub(super) fn take_number(&mut self) -> u64 {
        self.ledger.take_number() | (self.host() as u64) << HOST_AT
    }

    /// Takes adjacent sections, from those that all hosts share if there are several.
    pub(super) fn take_sections(&mut self, count: u32) -> Option<Extent> {
        if let Some(extent) = self.sections.take(count) {
            return Some(extent);
        }
        let first = self.hosts.as_mut().filter(|_| count > 0)?.member.take(count)?;
        self.sections.add(first, count);
        self.sections.take(count)
    }

    /// Takes exactly these sections, which the manager before had taken.
    pub(super) fn take_sections_at(&mut self, extent: Extent) -> bool {
        if let Some(hosts) = &self.hosts {
            let sections = extent.offset / SECTION..extent.end().div_ceil(SECTION);
            if !sections.clone().all(|section| u32::try_from(section).is_ok_and(|one| hosts.member.has(one)))
            {
                return false;
            }
            sections.for_each(|section| self.sections.add_missing(section as u32));
        }
        self.sections.take_at(extent)
    }

    /// Returns sections that were taken.
    pub(super) fn give_sections(&mut self, extent: Extent) {
        self.sections.give(extent);
        self.release_free();
    }

    /// Takes a queue area.
    pub(super) fn take_queue_area(&mut self) -> Option<Extent> {
        self.sections.take_queues().or_else(|| {
            let first = self.hosts.as_mut()?.member.take(1)?;
            self.sections.add(first, 1);
            self.sections.take_queues()
        })
    }

    /// Takes exactly this queue area, which the manager before had taken.
    pub(super) fn take_queue_area_at(&mut self, extent: Extent) -> bool {
        if let Some(hosts) = &self.hosts {
            let section = extent.offset / SECTION;
            if !u32::try_from(section).is_ok_and(|section| hosts.member.has(section)) {
                return false;
            }
            if !self.sections.has_queues_in(section * SECTION) {
                self.sections.add_missing(section as u32);
            }
        }
        self.sections.take_queues_at(extent)
    }

    /// Returns a queue area that was taken.
    pub(super) fn give_queue_area(&mut self, extent: Extent) {
        self.sections.give_queues(extent);
        self.release_free();
    }

    /// Gives sections of which nothing is used back to all hosts.
    fn release_free(&mut self) {
        let Some(hosts) = &mut self.hosts else { return };
        for run in self.sections.remove_free() {
            hosts.member.give(run);
        }
    }

    /// Returns the sections that there are, and those that are free.
    pub(super) fn room(&self) -> (u32, u32) {
        match &self.hosts {
            Some(hosts) => hosts.member.room(),
            None => (self.sections.capacity(), self.sections.free()),
        }
    }

    /// Returns the denial of a request for sections.
    pub(super) fn full(&self, asked: u32) -> Denied {
        let (all, free) = self.room();
        Denied::Full { asked, free, all }
    }

    /// Gives up what a manager before had claimed, and nothing of its processes uses.
    pub(crate) fn release_unused(&mut self) {
        let Some(hosts) = &mut self.hosts else { return };
        let whole = |extent: Extent| extent.offset / SECTION..extent.end().div_ceil(SECTION);
        let segments = self.segments.values().map(|segment| segment.extent);
        let queues = self.channels.values().map(|channel| channel.queues);
        let used: BTreeSet<u32> = segments
            .chain(queues)
            .flat_map(whole)
            .filter_map(|section| u32::try_from(section).ok())
            .collect();
        hosts.member.give_all_but(&used);
    }

    /// Looks at the other hosts, and shows them that this one serves. Returns whether messages passed; `None` if this
    /// host was declared ended.
    pub(crate) fn look_at_hosts(&mut self, now: Instant) -> Option<bool> {
        let Some(mut hosts) = self.hosts.take() else { return Some(false) };
        hosts.member.beat(now);
        let was_ended = hosts.member.learn_if_time(now);
        let mut happened = Vec::new();
        for (host, link) in hosts.links.iter_mut().enumerate() {
            let Some(link) = link else { continue };
            let is_clean = || !self.has_lost_channel(host, &hosts.member);
            happened.extend(
                link.look(&hosts.member, now, hosts.silence, is_clean).into_iter().map(|one| (host, one)),
            );
        }
        self.hosts = Some(hosts);
        let any = happened.iter().any(|(_, one)| matches!(one, Happened::Message(_)));
        for (host, one) in happened {
            match one {
                Happened::Up => self.link_is_up(host),
                Happened::Down => self.link_is_down(host),
                Happened::Confirmed => self.confirmed(host),
                // A message that cannot be read is of another release, or of a host that breaks the rules.
                Happened::Message(bytes) => {
                    if let Ok(message) = decode::<Message>(&bytes) {
                        self.far_message(host, message);
                    }
                }
            }
        }
        (!was_ended).then_some(any)
    }

    /// Returns whether a process of this host has a channel to a host that the link to it no longer knows.
    fn has_lost_channel(&self, host: Host, member: &Member) -> bool {
        self.channels.values().any(|channel| {
            let side = channel.near_side(member.host());
            channel.far_host(member.host()) == Some(host) && channel.is_lost() && side.open
        })
    }

    /// Leaves the other hosts, if nothing is in use here.
    pub(crate) fn leave_hosts(&mut self) {
        if let Some(hosts) = &mut self.hosts
            && self.clients.is_empty()
            && self.channels.is_empty()
            && self.segments.is_empty()
        {
            hosts.member.leave();
        }
    }

    /// Declares that a host has ended.
    pub(super) fn declare_ended(&mut self, host: u32) -> Result<Reply, Denied> {
        let hosts = self.hosts.as_mut().ok_or(Denied::NoHosts)?;
        let of = host as Host;
        if of >= hosts.member.hosts() || of == hosts.member.host() {
            return Err(Denied::NoSuchHost(host));
        }
        hosts.member.declare_ended(of);
        Ok(Reply::Done)
    }

    /// Returns the process on another host that has registered a service.
    pub(super) fn far_service(&self, name: &str) -> Option<PeerProcess> {
        self.hosts.as_ref()?.services.get(name).map(|(_, by)| by.clone())
    }

    /// Tells the other hosts of a service of this one.
    pub(super) fn announce(&mut self, service: &str, by: ClientId) {
        let by = self.as_seen_from_afar(by);
        self.send_all(&Message::Registered { service: service.to_string(), by });
    }

    /// Tells the other hosts that a service of this one is gone.
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

    /// Returns a process of this host as other hosts know it: by name only.
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
        let side = |id| Side { id, open: true, given_up: false };
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
            far: Some(FarSide { peer, is_lost: false, written: Vec::new() }),
        };
        if let Err(denied) = self.put(channel.record(id)) {
            self.give_queues(queues, Some(holder));
            return Err(denied);
        }
        self.channels.insert(id, channel);
        let peer = self.as_seen_from_afar(by);
        let offer = OpenedChannel { channel: id, peer, queues, bell: 0, greeting };
        self.send(host, &Message::Offered { service, offer });
        Ok(())
    }

    /// Passes a service's answer on to the host of the client.
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

    /// Checks that messages pass to the host of a process.
    pub(super) fn check_link(&self, id: ClientId) -> Result<(), Denied> {
        let host = self.host_of(id);
        let link = self.hosts.as_ref().and_then(|hosts| hosts.links.get(host)?.as_ref());
        match link.is_some_and(Link::has_room) {
            true => Ok(()),
            false => Err(Denied::HostSilent(host as u32)),
        }
    }

    /// Passes an event on to a process of another host.
    pub(super) fn pass_event(&mut self, to: ClientId, event: Event) {
        let message = match event {
            Event::Granted { channel, segment, access } => Message::Granted { channel, segment, access },
            Event::Withdrawn { channel, offset } => Message::Withdrawn { channel, offset },
            Event::Gone { channel, cause: Cause::CannotMap } => Message::GaveUp { channel },
            // Offers and ends have messages of their own, and only processes of this host are counted.
            Event::Offered { .. } | Event::Gone { .. } | Event::Count => return,
        };
        self.send(self.host_of(to), &message);
    }

    /// Passes on that a process has unmapped a segment of another host; returns whether it may be one.
    pub(super) fn pass_unmapped(&mut self, by: ClientId, id: ChannelId, offset: u64) -> bool {
        let us = self.host();
        let Some(channel) = self.channels.get_mut(&id) else { return false };
        let Some(host) = channel.far_host(us).filter(|_| channel.near_side(us).id == by) else {
            return false;
        };
        let far = channel.far.as_mut().expect("it has a far host");
        let unmapped: Vec<Extent> = far.written.extract_if(.., |extent| extent.offset == offset).collect();
        self.store.write_back(&unmapped);
        self.send(host, &Message::Unmapped { channel: id, offset });
        true
    }

    /// Passes on that a process of this host has nothing mapped any more of a channel to another. What it may have
    /// written is written back before: a dirty line that is written back later would undo what the other host writes
    /// there.
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

    fn link_is_up(&mut self, host: Host) {
        let services = self.services.iter().map(|(name, service)| (name.clone(), service.by));
        for (service, by) in services.collect::<Vec<_>>() {
            let by = self.as_seen_from_afar(by);
            self.send(host, &Message::Registered { service, by });
        }
    }

    /// Ends all channels to a host for the processes here. What the far processes may write stays as it is.
    fn link_is_down(&mut self, host: Host) {
        let us = self.host();
        self.hosts.iter_mut().for_each(|hosts| hosts.services.retain(|_, (of, _)| *of != host));
        for id in self.channels_to(host) {
            let channel = self.channels.get_mut(&id).expect("it was listed");
            let far = channel.far.as_mut().expect("it is to another host");
            if std::mem::replace(&mut far.is_lost, true) {
                continue;
            }
            let near = channel.near_side(us);
            let is_client = channel.client.id == near.id;
            self.pass_none(id);
            match self.channels.get_mut(&id).expect("it was listed").asked.take() {
                Some(number) if is_client => {
                    let outcome = Err(Denied::HostSilent(host as u32));
                    self.tell(near.id, Tell::Reply { number, outcome }, Vec::new());
                    self.end_quietly(id, near.id);
                }
                _ if near.open => {
                    self.event(near.id, Event::Gone { channel: id, cause: Cause::HostSilent }, Vec::new());
                }
                _ => {}
            }
        }
    }

    /// Ends the far sides of all channels that went down: nothing can be written by them any more.
    fn confirmed(&mut self, host: Host) {
        let us = self.host();
        for id in self.channels_to(host) {
            if self.channels.get(&id).is_some_and(Channel::is_lost) {
                let far = self.channels[&id].far_side(us).id;
                self.end_side(id, far, Cause::HostSilent);
            }
        }
    }

    fn channels_to(&self, host: Host) -> Vec<ChannelId> {
        let us = self.host();
        let to = self.channels.iter().filter(|(_, channel)| channel.far_host(us) == Some(host));
        to.map(|(id, _)| *id).collect()
    }

    /// Handles a message of another host's manager, which is untrusted input.
    fn far_message(&mut self, host: Host, message: Message) {
        match message {
            Message::Registered { service, by } => self.far_registered(host, service, by),
            Message::Unregistered { service } => {
                let Some(hosts) = &mut self.hosts else { return };
                if hosts.services.get(&service).is_some_and(|(of, _)| *of == host) {
                    hosts.services.remove(&service);
                }
            }
            Message::Offered { service, offer } => self.far_offered(host, service, offer),
            Message::Answered { channel, verdict } => self.far_answered(host, channel, verdict),
            Message::Undelivered { channel, denied } => self.far_denied(host, channel, denied),
            Message::Granted { channel: id, segment, access } => {
                self.far_granted(host, id, segment, access);
                self.send(host, &Message::Passed { channel: id, offset: segment.offset });
            }
            Message::Passed { channel, offset } => {
                if self.channels.get(&channel).is_some_and(|known| known.far_host(self.host()) == Some(host))
                {
                    self.passed(channel, offset, Ok(Reply::Done));
                }
            }
            Message::Withdrawn { channel, offset } => {
                let Some(near) = self.near_of(host, channel) else { return };
                self.event(near, Event::Withdrawn { channel, offset }, Vec::new());
            }
            Message::Unmapped { channel, offset } => {
                let us = self.host();
                let known = self.channels.get(&channel).filter(|known| known.far_host(us) == Some(host));
                let Some(far) = known.map(|known| known.far_side(us).id) else { return };
                // Of a segment that still has its owner, the grant is in force.
                if self.segments.get(&offset).is_some_and(|segment| segment.owner.is_none()) {
                    self.drop_grants_in(offset..=offset, channel, far);
                }
            }
            Message::GaveUp { channel } => {
                let Some(near) = self.near_of(host, channel) else { return };
                self.event(near, Event::Gone { channel, cause: Cause::CannotMap }, Vec::new());
            }
            Message::Ended { channel, cause } => {
                let us = self.host();
                let known = self.channels.get(&channel).filter(|known| known.far_host(us) == Some(host));
                if let Some(far) = known.map(|known| known.far_side(us).id) {
                    self.pass_none(channel);
                    self.end_side(channel, far, cause);
                }
            }
        }
    }

    fn far_granted(&mut self, host: Host, id: ChannelId, segment: Extent, access: Access) {
        let is_theirs = self.hosts.as_ref().is_some_and(|hosts| hosts.member.is_of(host, segment));
        let Some(near) = self.near_of(host, id).filter(|_| is_theirs) else { return };
        if access == Access::Write {
            let far = self.channels.get_mut(&id).and_then(|channel| channel.far.as_mut());
            far.expect("it is to another host").written.push(segment);
        }
        self.event(near, Event::Granted { channel: id, segment, access }, Vec::new());
    }

    /// Notes that a process asked to grant a segment to one of another host; returns whether the answer comes later:
    /// whoever names a granted buffer afterwards must not be ahead of the grant.
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

    /// Answers all requests to grant segments by a channel that is over.
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

    /// Returns the process of this host at one side of an open channel to another host.
    fn near_of(&self, host: Host, id: ChannelId) -> Option<ClientId> {
        let channel = self.channels.get(&id).filter(|channel| channel.far_host(self.host()) == Some(host))?;
        let near = channel.near_side(self.host());
        (near.open && !channel.is_lost()).then_some(near.id)
    }

    fn far_registered(&mut self, host: Host, service: String, by: PeerProcess) {
        let Some(hosts) = &mut self.hosts else { return };
        let taken = hosts.services.get(&service).is_some_and(|(of, _)| *of < host);
        let count = hosts.services.values().filter(|(of, _)| *of == host).count();
        if host_in(by.id.0) == host && super::is_name(&service) && !taken && count < MOST_SERVICES {
            hosts.services.insert(service, (host, PeerProcess { pid: 0, ..by }));
        }
    }

    /// Offers a caller of another host to a service of this one.
    fn far_offered(&mut self, host: Host, service: String, offer: OpenedChannel) {
        let id = offer.channel;
        if let Err(denied) = self.take_offer(host, &service, offer) {
            self.send(host, &Message::Undelivered { channel: id, denied });
        }
    }

    fn take_offer(&mut self, host: Host, service: &str, offer: OpenedChannel) -> Result<(), Denied> {
        let hosts = self.hosts.as_ref().ok_or(Denied::NoHosts)?;
        let is_theirs = host_in(offer.channel.0) == host
            && host_in(offer.peer.id.0) == host
            && hosts.member.is_of(host, offer.queues)
            && offer.queues.bytes == self.sections.queue_bytes()
            && offer.greeting.len() <= MOST_GREETING;
        if !is_theirs
            || self.channels.contains_key(&offer.channel)
            || self.channels_to(host).len() >= MOST_CHANNELS
        {
            return Err(Denied::NotYours);
        }
        let server = self.services.get(service).ok_or_else(|| Denied::NoService(service.to_string()))?.by;
        self.check_reads(server)?;
        let served = self.clients[&server].holder;
        self.holders.take(served, super::Thing::Served)?;
        let peer = PeerProcess { pid: 0, ..offer.peer };
        let side = |id| Side { id, open: true, given_up: false };
        let channel = Channel {
            service: service.to_string(),
            client: side(peer.id),
            server: side(server),
            queues: offer.queues,
            holder: None,
            served: Some(served),
            file: None,
            is_of_before: false,
            asked: Some(0),
            far: Some(FarSide { peer: peer.clone(), is_lost: false, written: Vec::new() }),
        };
        if let Err(denied) = self.put(channel.record(offer.channel)) {
            self.holders.give(served, super::Thing::Served);
            return Err(denied);
        }
        self.channels.insert(offer.channel, channel);
        let offer = OpenedChannel { peer, bell: 0, ..offer };
        self.event(server, Event::Offered { service: service.to_string(), offer }, Vec::new());
        Ok(())
    }

    /// Passes a far service's answer on to the client that asked.
    fn far_answered(
        &mut self,
        host: Host,
        id: ChannelId,
        verdict: Result<(PeerProcess, Vec<u8>), RefusedCaller>,
    ) {
        let Some((near, number)) = self.asked_of(host, id) else { return };
        match verdict {
            Ok((peer, greeting)) if greeting.len() <= MOST_GREETING => {
                let channel = self.channels.get_mut(&id).expect("it was asked for");
                let peer = PeerProcess { id: channel.server.id, pid: 0, ..peer };
                channel.far.as_mut().expect("it is to another host").peer = peer.clone();
                let (queues, record) = (channel.queues, channel.record(id));
                self.put(record).expect("a record that is there can be changed");
                let opened = OpenedChannel { channel: id, peer, queues, bell: 0, greeting };
                self.tell(near, Tell::Reply { number, outcome: Ok(Reply::Opened(opened)) }, Vec::new());
            }
            Ok(_) => self.refuse(id, near, number, Denied::LongGreeting),
            Err(refused) => self.refuse(id, near, number, Denied::Refused(refused)),
        }
    }

    fn far_denied(&mut self, host: Host, id: ChannelId, denied: Denied) {
        if let Some((near, number)) = self.asked_of(host, id) {
            self.refuse(id, near, number, denied);
        }
    }

    /// Takes the request that opened a channel and is not answered: its process, and its number.
    fn asked_of(&mut self, host: Host, id: ChannelId) -> Option<(ClientId, u32)> {
        let us = self.host();
        let channel = self.channels.get_mut(&id)?;
        let near = channel.near_side(us);
        if channel.far_host(us) != Some(host) || channel.client.id != near.id || channel.is_lost() {
            return None;
        }
        Some((near.id, channel.asked.take()?))
    }

    fn refuse(&mut self, id: ChannelId, near: ClientId, number: u32, denied: Denied) {
        let far = self.channels[&id].server.id;
        self.end_quietly(id, far);
        self.end_quietly(id, near);
        self.tell(near, Tell::Reply { number, outcome: Err(denied) }, Vec::new());
    }

    /// Returns the far side of a channel that a manager before had: it is over.
    pub(super) fn far_of_before(&self, pair: &Pair) -> Option<FarSide> {
        let us = self.host();
        let far = [pair.client, pair.server].into_iter().find(|id| host_in(id.0) != us)?;
        let name = format!("a process of host {}", host_in(far.0));
        let peer = PeerProcess { id: far, pid: 0, uid: 0, gid: 0, name };
        Some(FarSide { peer, is_lost: true, written: Vec::new() })
    }

    /// Returns the services of other hosts, for the listing.
    pub(super) fn far_entries(&self) -> impl Iterator<Item = ListingEntry> {
        let services = self.hosts.iter().flat_map(|hosts| &hosts.services);
        services.map(|(name, (_, by))| ListingEntry::FarService { name: name.clone(), by: by.clone() })
    }

    /// Returns the hosts, for the listing.
    pub(super) fn host_entries(&self) -> Vec<ListingEntry> {
        let Some(hosts) = &self.hosts else { return Vec::new() };
        let one = |record: crate::hosts::HostRecord| {
            let link = hosts.links.get(record.host as Host).and_then(Option::as_ref);
            let is_here = record.host as Host == hosts.member.host();
            let standing = match record.standing {
                _ if record.is_ended => HostStanding::Ended,
                Standing::Left | Standing::Absent => HostStanding::Left,
                Standing::Serving if is_here || link.is_some_and(|link| link.is_heard(hosts.silence)) => {
                    HostStanding::Serving
                }
                Standing::Serving => HostStanding::Silent,
            };
            ListingEntry::Host {
                host: record.host,
                name: record.name,
                standing,
                is_here,
                is_linked: link.is_some_and(Link::is_up),
                claimed_bytes: u64::from(record.sections) * SECTION,
            }
        };
        hosts.member.describe().into_iter().map(one).collect()
    }
}

impl Channel {
    /// Returns whether the channel is over because the link to the other host went down.
    pub(super) fn is_lost(&self) -> bool {
        self.far.as_ref().is_some_and(|far| far.is_lost)
    }

    /// Returns the other host, if the channel is to one.
    fn far_host(&self, us: Host) -> Option<Host> {
        self.far.as_ref().map(|_| host_in(self.far_side(us).id.0))
    }

    /// Returns the side that is a process of another host; of a channel between hosts.
    fn far_side(&self, us: Host) -> Side {
        if host_in(self.client.id.0) == us { self.server } else { self.client }
    }

    /// Returns the side that is a process of this host.
    fn near_side(&self, us: Host) -> Side {
        if host_in(self.client.id.0) == us { self.client } else { self.server }
    }
}
