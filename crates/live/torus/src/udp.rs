//! Links between machines. Each packet crosses such a link as one datagram ([`Tunnel`]).
//!
//! The sending machine emulates the link's rate and delay, and sends a packet at the time at which it would arrive. The delay of the real
//! network is added to that. Any process may send to the socket. Therefore a datagram is accepted only if it belongs to this rack and comes
//! from the address of the machine at the other end of the link that it names. Beyond loopback, the datagram also carries a seal made with
//! the key that all machines share, and is accepted once ([`unrack_keys::datagram`]). Its content is not encrypted.

use crate::plan::TorusPlan;
use crate::site::PacketInFlight;
use crate::sleep::SleepTime;
use crate::thread::{Clock, NOT_WORTH_SLEEPING, Sleeper, earliest, wake};
use rtrb::{Consumer, Producer};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;
use unrack_keys::datagram::{DatagramOpener, OpenedDatagram, PeerState, SharedKey, new_life};
use unrack_keys::policy::is_loopback;
use unrack_live::Error;
use unrack_protocol::r2c2::packet::{DATA_HEADER, Hello};
use unrack_protocol::r2c2::tunnel::Tunnel;
use unrack_units::Time;

/// The machines of a rack, each with an equal share of its nodes.
#[derive(Debug, Clone)]
pub struct Machines {
    addresses: Vec<SocketAddr>,
    here: usize,
    /// Key that seals datagrams, if they are sealed.
    key: Option<SharedKey>,
}

impl Machines {
    /// Takes the machines' UDP addresses, in the same order on every machine. `here` is the number of this machine.
    ///
    /// # Errors
    /// [`Error::Usage`] if two machines have the same address, or `here` is not one of them.
    pub fn new(addresses: Vec<SocketAddr>, here: usize) -> Result<Machines, Error> {
        let twice = addresses.iter().enumerate().find(|(n, address)| addresses[..*n].contains(address));
        if let Some((_, address)) = twice {
            return Err(Error::Usage(format!("two machines have the address {address}")));
        }
        if here >= addresses.len() {
            let last = addresses.len().saturating_sub(1);
            return Err(Error::Usage(format!("there is no machine {here}: they are 0 to {last}")));
        }
        Ok(Machines { addresses, here, key: None })
    }

    /// Sets the key that seals datagrams, which is the same on all machines. Without a key, all machines must be on loopback, or the user
    /// must have given `insecure`.
    ///
    /// # Errors
    /// [`Error::Usage`] if a key is required.
    pub fn protect(self, key: Option<SharedKey>, insecure: bool) -> Result<Machines, Error> {
        let beyond = self.addresses.iter().find(|address| !is_loopback(**address));
        match beyond.filter(|_| key.is_none() && !insecure) {
            None => Ok(Machines { key, ..self }),
            Some(address) => Err(Error::Usage(format!(
                "{address} is beyond this machine, where datagrams need a key: `unrack keys shared rack.key` makes one; copy \
                 it to all machines, and say --key rack.key on each; or say --insecure to go without"
            ))),
        }
    }

    /// Returns the seals for datagrams to and from each other machine, by its address; empty without a key.
    pub(crate) fn pairs(&self) -> HashMap<SocketAddr, Arc<PeerState>> {
        let Some(key) = &self.key else { return HashMap::new() };
        let life = new_life();
        let pair = |there: usize| PeerState::new(key.clone(), self.here as u32, there as u32, life);
        let others = self.addresses.iter().enumerate().filter(|(there, _)| *there != self.here);
        others.map(|(there, address)| (*address, pair(there))).collect()
    }

    fn machine_of(&self, node: u32, nodes: u32) -> usize {
        (u64::from(node) * self.addresses.len() as u64 / u64::from(nodes)) as usize
    }

    /// Returns the nodes of this machine, if the rack has `nodes` nodes.
    pub fn own(&self, nodes: u32) -> Range<u32> {
        let start = (0..nodes).find(|node| self.machine_of(*node, nodes) == self.here).unwrap_or(nodes);
        let end = (start..nodes).find(|node| self.machine_of(*node, nodes) != self.here).unwrap_or(nodes);
        start..end
    }

    pub(crate) fn address(&self, node: u32, nodes: u32) -> SocketAddr {
        self.addresses[self.machine_of(node, nodes)]
    }

    pub(crate) fn socket(&self) -> Result<UdpSocket, Error> {
        let address = self.addresses[self.here];
        UdpSocket::bind(address)
            .map_err(|why| Error::Lacking(format!("machine {}: no socket at {address}: {why}", self.here)))
    }
}

/// State shared by the two threads of a machine's socket.
#[derive(Debug, Default)]
pub(crate) struct UdpTraffic {
    /// Packets that arrived for a node here (`pushed`), and packets that left (`popped`), without keep-alives.
    pub pushed: AtomicU64,
    pub popped: AtomicU64,
    /// Datagrams that were refused because they did not come from a neighbour of this rack, or came too fast. The next field, `lost`,
    /// counts packets that could not be sent.
    pub refused: AtomicU64,
    pub lost: AtomicU64,
    pub leaves: AtomicBool,
}

/// A link that leaves this machine.
pub(crate) struct RemoteLink {
    pub link: u32,
    pub to: SocketAddr,
    pub inlet: Consumer<PacketInFlight>,
}

/// The thread that sends packets over links that leave this machine.
pub(crate) struct Exit {
    pub lanes: Vec<RemoteLink>,
    /// Seals by address of the other machine; empty if datagrams have no seals.
    pub pairs: HashMap<SocketAddr, Arc<PeerState>>,
    pub socket: UdpSocket,
    pub rack: u64,
    pub clock: Clock,
    pub own: usize,
    pub sleepers: Arc<Vec<Sleeper>>,
    pub traffic: Arc<UdpTraffic>,
}

impl Exit {
    /// Sends packets as they fall due, until the rack ends.
    pub(crate) fn run(mut self) {
        let mut datagram = Vec::new();
        loop {
            self.sleepers[self.own].called.swap(false, Ordering::Acquire);
            if self.traffic.leaves.load(Ordering::Relaxed) {
                return;
            }
            let now = self.clock.now();
            for RemoteLink { link, to, inlet } in &mut self.lanes {
                while inlet.peek().is_ok_and(|crossing| crossing.at <= now)
                    && let Ok(PacketInFlight { packet, .. }) = inlet.pop()
                {
                    datagram.clear();
                    datagram.extend_from_slice(&Tunnel { rack: self.rack, link: *link }.encode());
                    datagram.extend_from_slice(&packet);
                    if let Some(pair) = self.pairs.get(to) {
                        pair.seal(&mut datagram);
                    }
                    // A lost keep-alive does not count, because the other machine may not have started yet.
                    if self.socket.send_to(&datagram, *to).is_err() && !Hello::is(&packet) {
                        self.traffic.lost.fetch_add(1, Ordering::Relaxed);
                    }
                    if !Hello::is(&packet) {
                        self.traffic.popped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            let inlets = || self.lanes.iter().map(|lane| &lane.inlet);
            let next = earliest(inlets());
            if next > self.clock.now() + NOT_WORTH_SLEEPING {
                self.sleepers[self.own].sleep(self.clock, next, || earliest(inlets()));
            }
        }
    }
}

/// A link that comes from another machine.
pub(crate) struct Door {
    pub from: SocketAddr,
    pub ring: Producer<PacketInFlight>,
    /// Thread of the node at the end of the link.
    pub thread: usize,
}

/// The thread that receives packets over links from other machines.
pub(crate) struct UdpReceiver {
    pub doors: HashMap<u32, Door>,
    /// Seals by address of the other machine; empty if datagrams have no seals.
    pub openers: HashMap<SocketAddr, Acquaintance>,
    pub is_sealed: bool,
    pub socket: UdpSocket,
    pub plan: Arc<TorusPlan>,
    pub clock: Clock,
    pub sleepers: Arc<Vec<Sleeper>>,
    pub threads: Arc<OnceLock<Vec<Thread>>>,
    pub traffic: Arc<UdpTraffic>,
}

/// State of the seals of one other machine.
pub(crate) struct Acquaintance {
    pair: Arc<PeerState>,
    opener: DatagramOpener,
    /// Last time at which this process's life number (the start time that identifies it) was announced to that machine.
    told: Option<Time>,
}

/// Shortest time between two announcements of this process's life number to one machine, even if that machine sends many datagrams, or an
/// attacker replays them.
const TELL_AFTER: Time = Time::from_us(10_000);

impl Acquaintance {
    /// Returns the state of a machine to which no life number was announced yet.
    pub(crate) fn new(pair: Arc<PeerState>) -> Acquaintance {
        Acquaintance { opener: DatagramOpener::new(pair.clone()), pair, told: None }
    }

    /// Announces this process's life number by an empty datagram.
    fn tell(&mut self, socket: &UdpSocket, to: SocketAddr, now: Time) {
        if self.told.is_some_and(|told| now < told + TELL_AFTER) {
            return;
        }
        self.told = Some(now);
        let mut datagram = Vec::new();
        self.pair.seal(&mut datagram);
        // If this datagram is lost, the other machine's next packet is refused too, and answered by another announcement.
        let _ = socket.send_to(&datagram, to);
    }

    /// Returns the content of a datagram, which is empty if there is no packet in it; `None` if its seal is refused.
    fn open<'a>(
        &mut self,
        datagram: &'a [u8],
        (socket, from, now): (&UdpSocket, SocketAddr, Time),
    ) -> Option<&'a [u8]> {
        match self.opener.open(datagram) {
            OpenedDatagram::Taken(content) => Some(content),
            OpenedDatagram::ForAnotherLife => {
                self.tell(socket, from, now);
                Some(&[])
            }
            OpenedDatagram::Refused => None,
        }
    }
}

/// Longest time after which the thread notices that it has to end.
const LOOK_AFTER: Duration = Duration::from_millis(200);

impl UdpReceiver {
    /// Receives datagrams until the rack ends.
    pub(crate) fn run(mut self) {
        // If this call fails, the thread ends only with the next datagram.
        let _ = self.socket.set_read_timeout(Some(LOOK_AFTER));
        let mut datagram = vec![0; 1 << 16];
        let rack = self.plan.fingerprint();
        for (address, other) in &mut self.openers {
            other.tell(&self.socket, *address, self.clock.now());
        }
        while !self.traffic.leaves.load(Ordering::Relaxed) {
            let Ok((length, from)) = self.socket.recv_from(&mut datagram) else { continue };
            if self.take(rack, &datagram[..length], from).is_none() {
                self.traffic.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Puts a datagram's packet on its link. Returns `None` if the datagram is not for a node here.
    fn take(&mut self, rack: u64, datagram: &[u8], from: SocketAddr) -> Option<()> {
        let datagram = match self.is_sealed {
            false => datagram,
            true => {
                let around = (&self.socket, from, self.clock.now());
                self.openers.get_mut(&from)?.open(datagram, around)?
            }
        };
        if self.is_sealed && datagram.is_empty() {
            return Some(());
        }
        let (tunnel, packet) = Tunnel::decode(datagram).ok()?;
        let door =
            self.doors.get_mut(&tunnel.link).filter(|door| tunnel.rack == rack && door.from == from)?;
        if packet.len() as u64 > self.plan.setup.most + DATA_HEADER as u64 {
            return None;
        }
        let at = self.clock.now();
        door.ring.push(PacketInFlight { at, packet: packet.to_vec() }).ok()?;
        if !Hello::is(packet) {
            self.traffic.pushed.fetch_add(1, Ordering::Relaxed);
        }
        let time: &SleepTime = &self.sleepers[door.thread].time;
        time.wake(at.as_ps(), || wake(&self.threads, door.thread));
        Some(())
    }
}
