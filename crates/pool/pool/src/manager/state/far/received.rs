//! Messages from the managers of other hosts, which are untrusted input.

use super::{Channel, ChannelSide, FarSide, Host, MOST_CHANNELS, MOST_SERVICES, Message, State, host_in};
use crate::manager::state::holders::Holding;
use crate::manager::state::is_name;
use crate::wire::{
    Access, Cause, ChannelId, ClientId, Denied, Event, Extent, MOST_GREETING, OpenedChannel, PeerProcess,
    RefusedCaller, Reply, Tell,
};

impl State {
    /// Handles a message from the manager of another host, which is untrusted input.
    pub(super) fn far_message(&mut self, host: Host, message: Message) {
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
                let far = self.channels.get_mut(&channel).and_then(|channel| channel.far.as_mut());
                let valid = far.and_then(|far| far.granted.get_mut(&offset));
                if valid.is_some_and(|valid| std::mem::replace(valid, false)) {
                    self.event(near, Event::Withdrawn { channel, offset }, Vec::new());
                }
            }
            Message::Unmapped { channel, offset } => {
                let us = self.host();
                let known = self.channels.get(&channel).filter(|known| known.far_host(us) == Some(host));
                let Some(far) = known.map(|known| known.far_side(us).id) else { return };
                // If the segment still has its owner, the grant remains in force.
                if self.segments.get(&offset).is_some_and(|segment| segment.owner.is_none()) {
                    self.drop_grants_in(offset..=offset, channel, far);
                }
            }
            Message::Rung { channel } => {
                let Some(near) = self.near_of(host, channel) else { return };
                if self.check_reads(near).is_ok() {
                    self.event(near, Event::Rung { channel }, Vec::new());
                }
            }
            Message::GaveUp { channel } => {
                let Some(near) = self.near_of(host, channel) else { return };
                let far = self.channels.get_mut(&channel).and_then(|channel| channel.far.as_mut());
                if far.is_some_and(|far| !std::mem::replace(&mut far.has_given_up, true)) {
                    self.event(near, Event::Gone { channel, cause: Cause::CannotMap }, Vec::new());
                }
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

    /// Passes a grant on to the process of this host. The manager of another host is not trusted to keep to the limits of a process of this
    /// host: a repeated grant is ignored. A grant beyond the limit, or to a process that does not read its events, is refused, and the
    /// process is notified that the channel is of no use any more.
    fn far_granted(&mut self, host: Host, id: ChannelId, segment: Extent, access: Access) {
        let is_theirs = self.hosts.as_ref().is_some_and(|hosts| hosts.member.is_of(host, segment));
        let Some(near) = self.near_of(host, id).filter(|_| is_theirs) else { return };
        let most = self.holders.limits().grants as usize;
        let is_slow = self.check_reads(near).is_err();
        let channel = self.channels.get_mut(&id).expect("it has a near side");
        let far = channel.far.as_mut().expect("it is to another host");
        if far.granted.contains_key(&segment.offset) {
            return;
        }
        if is_slow || far.granted.len() >= most {
            if !std::mem::replace(&mut far.has_given_up, true) {
                self.event(near, Event::Gone { channel: id, cause: Cause::CannotMap }, Vec::new());
            }
            return;
        }
        far.granted.insert(segment.offset, true);
        if access == Access::Write {
            far.written.push(segment);
        }
        self.event(near, Event::Granted { channel: id, segment, access }, Vec::new());
    }

    fn far_registered(&mut self, host: Host, service: String, by: PeerProcess) {
        let Some(hosts) = &mut self.hosts else { return };
        let taken = hosts.services.get(&service).is_some_and(|(of, _)| *of < host);
        let count = hosts.services.values().filter(|(of, _)| *of == host).count();
        if host_in(by.id.0) == host && is_name(&service) && !taken && count < MOST_SERVICES {
            hosts.services.insert(service, (host, shown(by)));
        }
    }

    /// Offers a caller of another host to a service of this host.
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
        self.holders.take(served, Holding::Served)?;
        let peer = shown(offer.peer.clone());
        let side = |id| ChannelSide { id, open: true, given_up: false };
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
            far: Some(FarSide::new(peer.clone(), false)),
        };
        if let Err(denied) = self.put(channel.record(offer.channel)) {
            self.holders.give(served, Holding::Served);
            return Err(denied);
        }
        self.channels.insert(offer.channel, channel);
        let rings = self.can_ring(host);
        let offer = OpenedChannel { peer, wakeup: 0, rings, ..offer };
        self.event(server, Event::Offered { service: service.to_string(), offer }, Vec::new());
        Ok(())
    }

    /// Forwards the answer of a service on another host to the client that asked.
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
                let peer = PeerProcess { id: channel.server.id, ..shown(peer) };
                channel.far.as_mut().expect("it is to another host").peer = peer.clone();
                let (queues, record) = (channel.queues, channel.record(id));
                self.put(record).expect("a record that is there can be changed");
                let rings = self.can_ring(host);
                let opened = OpenedChannel { channel: id, peer, queues, wakeup: 0, rings, greeting };
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

    /// Takes the unanswered request that opened a channel, and returns its client and its number.
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
}

/// Returns a process of another host as this host shows it: its number means nothing here, and its name is printed on terminals.
fn shown(peer: PeerProcess) -> PeerProcess {
    let name = peer.name.chars().filter(|letter| !letter.is_control()).collect();
    PeerProcess { pid: 0, name, ..peer }
}
