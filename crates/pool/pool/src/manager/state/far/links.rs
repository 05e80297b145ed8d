//! Links to other hosts: what happens to channels when a link comes up or goes down, and the entries for hosts in the
//! listing.

use super::{Channel, Host, Message, State};
use crate::SECTION;
use crate::hosts::{Happened, HostRecord, Link, Membership, Standing};
use crate::wire::{Cause, Denied, Event, HostStanding, ListingEntry, Reply, Tell, decode};
use std::time::{Duration, Instant};

/// Time without a heartbeat after which a host may be declared ended without `--force`. It is twenty heartbeat periods,
/// because even a busy machine lets a running manager make a heartbeat in that time.
const STILL: Duration = Duration::from_secs(1);

impl State {
    /// Shows other hosts that this host serves, and handles their messages. Returns whether any message arrived, or
    /// `None` if this host was declared ended.
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
                // A message that cannot be decoded comes from another release, or from a host that violates the
                // protocol; it is ignored.
                Happened::Message(bytes) => {
                    if let Ok(message) = decode::<Message>(&bytes) {
                        self.far_message(host, message);
                    }
                }
            }
        }
        (!was_ended).then_some(any)
    }

    /// Returns whether a process of this host still has an open side of a channel that was lost because the link to the
    /// given host went down.
    fn has_lost_channel(&self, host: Host, member: &Membership) -> bool {
        self.channels.values().any(|channel| {
            let side = channel.near_side(member.host());
            channel.far_host(member.host()) == Some(host) && channel.is_lost() && side.open
        })
    }

    /// Leaves the group of hosts, if no process of this host uses any part of the pool.
    pub(crate) fn leave_hosts(&mut self) {
        if let Some(hosts) = &mut self.hosts
            && self.clients.is_empty()
            && self.channels.is_empty()
            && self.segments.is_empty()
        {
            hosts.member.leave();
        }
    }

    /// Declares that a host has ended. With `force`, this is done even if the host's heartbeat still moves.
    pub(in crate::manager::state) fn declare_ended(
        &mut self,
        host: u32,
        force: bool,
    ) -> Result<Reply, Denied> {
        let hosts = self.hosts.as_mut().ok_or(Denied::NoHosts)?;
        let of = host as Host;
        if of >= hosts.member.hosts() || of == hosts.member.host() {
            return Err(Denied::NoSuchHost(host));
        }
        let runs = hosts.links[of].as_ref().is_some_and(|link| link.is_heard(STILL));
        if runs && !force && hosts.member.standing(of) == Standing::Serving {
            return Err(Denied::HostRuns(host));
        }
        hosts.member.declare_ended(of);
        Ok(Reply::Done)
    }

    fn link_is_up(&mut self, host: Host) {
        let services = self.services.iter().map(|(name, service)| (name.clone(), service.by));
        for (service, by) in services.collect::<Vec<_>>() {
            let by = self.as_seen_from_afar(by);
            self.send(host, &Message::Registered { service, by });
        }
    }

    /// Notifies the processes of this host that all their channels to another host have ended. Memory that the far
    /// processes may still write is not reused yet.
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

    /// Ends the far sides of all channels that were lost when the link went down, because the far processes can no
    /// longer write their memory.
    fn confirmed(&mut self, host: Host) {
        let us = self.host();
        for id in self.channels_to(host) {
            if self.channels.get(&id).is_some_and(Channel::is_lost) {
                let far = self.channels[&id].far_side(us).id;
                self.end_side(id, far, Cause::HostSilent);
            }
        }
    }

    /// Returns the services of other hosts, for the listing.
    pub(in crate::manager::state) fn far_entries(&self) -> impl Iterator<Item = ListingEntry> {
        let services = self.hosts.iter().flat_map(|hosts| &hosts.services);
        services.map(|(name, (_, by))| ListingEntry::FarService { name: name.clone(), by: by.clone() })
    }

    /// Returns the hosts, for the listing.
    pub(in crate::manager::state) fn host_entries(&self) -> Vec<ListingEntry> {
        let Some(hosts) = &self.hosts else { return Vec::new() };
        let one = |record: HostRecord| {
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
                has_doorbell: hosts.member.doorbell_of(record.host as Host).is_some(),
                claimed_bytes: u64::from(record.sections) * SECTION,
            }
        };
        hosts.member.describe().into_iter().map(one).collect()
    }
}
