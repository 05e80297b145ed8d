//! Surroundings of the nodes of one thread: the sending ends of their links, spare packets, and the content of flows.

use crate::content::{self, Checks};
use crate::line::Line;
use crate::node::{Event, NodeServices, Packet, SourceFlow};
use crate::plan::TorusPlan;
use crate::report::{ThreadReport, Told, empty_histogram};
use crate::tap::Tap;
use hdrhistogram::Histogram;
use rtrb::Producer;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use unrack_basis::{SplitMix64, mix};
use unrack_protocol::r2c2::links::LinkStates;
use unrack_protocol::r2c2::map::RackMap;
use unrack_protocol::r2c2::packet::{Broadcast, Data, Hello, Kind};
use unrack_protocol::r2c2::selection::SelectionProblem;
use unrack_units::{Bytes, Time};

/// A packet on a link, and the time at which it arrives at the other end.
pub(crate) struct PacketInFlight {
    pub at: Time,
    pub packet: Packet,
}

/// The sending end of a link.
pub(crate) struct Outlet {
    pub line: Line,
    pub ring: Producer<PacketInFlight>,
    /// Thread that takes packets from the other end.
    pub thread: usize,
}

pub(crate) struct LinkSite {
    plan: Arc<TorusPlan>,
    /// Rack as these nodes know it. `links` has the states of links that nodes reported. `down` has the links known to be down: from these
    /// reports, and from the plan if all nodes are in this process (`is_all`).
    map: RackMap,
    pub links: LinkStates,
    down: Vec<u32>,
    is_all: bool,
    /// Time that reports carry. A node may be called with an earlier time, at which an event was due.
    pub now: Time,
    /// Start of the run, if one has begun. Times of failures are relative to it.
    began: Option<Time>,
    random: SplitMix64,
    /// TAP devices of the gateways among these nodes.
    taps: BTreeMap<u32, Tap>,
    /// Channel to the seeker, for problems together with the node that has each problem.
    seeker: Option<Sender<(u32, Box<SelectionProblem>)>>,
    /// Sending ends by link, only of links that leave nodes of this thread.
    outlets: Vec<Option<Outlet>>,
    spare: Vec<Packet>,
    checks: Checks,
    news: Sender<ThreadReport>,
    /// For each thread, the earliest arrival among the packets put on links to it since this thread last considered waking it.
    pub due: Vec<Time>,
    /// Packets put on links since the start, without keep-alives.
    pub pushed: u64,
    pub queues: Queues,
}

/// Queue lengths of a thread's links.
#[derive(Debug, Clone)]
pub(crate) struct Queues {
    /// Bytes that each data packet found in the queue ahead of it, at each link.
    pub found: Histogram<u64>,
    /// Largest of these values, by link.
    pub most: Vec<u64>,
}

/// Time that a source waits if the thread at a link's other end is late.
const REST: Time = Time::from_us(100);
/// Maximum number of packets kept for reuse.
const MOST_SPARE: usize = 4_096;

impl LinkSite {
    /// Returns the surroundings of thread `number`, which seeds its random numbers. `threads` counts all threads, including the one that
    /// sends to other machines.
    pub(crate) fn new(
        plan: &Arc<TorusPlan>,
        outlets: Vec<Option<Outlet>>,
        (number, threads): (usize, usize),
        is_all: bool,
        news: Sender<ThreadReport>,
        seeker: Option<Sender<(u32, Box<SelectionProblem>)>>,
        taps: BTreeMap<u32, Tap>,
    ) -> LinkSite {
        LinkSite {
            map: RackMap::whole(&plan.setup.graph, plan.setup.params.trees),
            down: Vec::new(),
            now: Time::ZERO,
            began: None,
            is_all,
            links: LinkStates::default(),
            random: SplitMix64::new(mix(plan.seed ^ mix(number as u64))).after(1),
            seeker,
            taps,
            queues: Queues::new(outlets.len()),
            outlets,
            spare: Vec::new(),
            checks: Checks::default(),
            news,
            due: vec![Time::MAX; threads],
            pushed: 0,
            plan: plan.clone(),
        }
    }

    /// Returns the surroundings of one of the nodes.
    pub(crate) fn around(&mut self, node: u32) -> Here<'_> {
        let first = self.plan.setup.graph.links_of(node).start as usize;
        Here { site: self, node, first }
    }

    /// Starts a run at `began`. Returns whether the links known to be down have changed.
    pub(crate) fn begin(&mut self, began: Time) -> bool {
        self.began = Some(began);
        self.discover(began)
    }

    /// Updates the links known to be down. Returns whether they changed, in which case the nodes have to be informed.
    pub(crate) fn discover(&mut self, now: Time) -> bool {
        let mut down = self.links.down(&self.plan.setup.graph);
        if let Some(began) = self.began.filter(|_| self.is_all) {
            down.extend(self.plan.known_down(now.saturating_sub(began)));
        }
        let down: Vec<u32> = down.into_iter().collect();
        if down == self.down {
            return false;
        }
        self.map = self.map.without(|link| down.binary_search(&link).is_ok());
        self.down = down;
        true
    }

    /// Returns the next time at which the outages known from the plan may change.
    pub(crate) fn next_known(&self, now: Time) -> Option<Time> {
        let began = self.began.filter(|_| self.is_all)?;
        let next = self.plan.next_known(now.saturating_sub(began))?;
        Some(Time::from_ps(next.as_ps().saturating_add(began.as_ps())))
    }

    fn loses(&mut self, link: usize, first: Time, last: Time, bytes: u64) -> bool {
        let Some(began) = self.began else { return false };
        let since = |at: Time| at.saturating_sub(began);
        self.plan.loses(link as u32, since(first), since(last), bytes, self.random.next_u64())
    }

    /// Sends a report to the thread that runs flows.
    pub(crate) fn tell(&self, at: Time, told: Told) {
        // Ignore errors, because the receiver is gone if the rack is shutting down.
        let _ = self.news.send(ThreadReport { at, told });
    }
}

impl Queues {
    /// Returns empty counts for `links` links.
    pub(crate) fn new(links: usize) -> Queues {
        Queues { found: empty_histogram(), most: vec![0; links] }
    }
}

/// The surroundings of one node.
pub(crate) struct Here<'a> {
    site: &'a mut LinkSite,
    node: u32,
    first: usize,
}

impl Here<'_> {
    fn outlet(&self, port: u32) -> &Outlet {
        self.site.outlets[self.first + port as usize]
            .as_ref()
            .expect("a link that leaves a node of this thread")
    }
}

impl NodeServices for Here<'_> {
    fn map(&mut self) -> &mut RackMap {
        &mut self.site.map
    }

    fn links(&mut self) -> &mut LinkStates {
        &mut self.site.links
    }

    fn empty(&mut self) -> Packet {
        self.site.spare.pop().unwrap_or_default()
    }

    fn spare(&mut self, mut packet: Packet) {
        if self.site.spare.len() < MOST_SPARE {
            packet.clear();
            self.site.spare.push(packet);
        }
    }

    fn room_at(&self, now: Time, port: u32, bytes: u64) -> Time {
        let Outlet { line, ring, .. } = self.outlet(port);
        // If the ring is full, the thread at the other end is late, and a packet sent now would be lost.
        if ring.is_full() { now + REST } else { line.room_at(now, bytes) }
    }

    fn put(&mut self, now: Time, port: u32, packet: Packet) -> Result<(), Packet> {
        let LinkSite { plan, outlets, queues, .. } = &mut *self.site;
        let link = self.first + port as usize;
        let Outlet { line, ring, .. } = outlets[link].as_mut().expect("a link of this thread");
        let (wire, ahead) = (packet.len() as u64, line.backlog(now));
        if Kind::from_packet(&packet).is_some_and(Kind::is_data) {
            queues.found.saturating_record(ahead);
            queues.most[link] = queues.most[link].max(ahead);
        }
        if ring.is_full() {
            return Err(packet);
        }
        let Some(departure) = line.enqueue(now, wire) else { return Err(packet) };
        let next = if Broadcast::is(&packet) { None } else { Data::next_port(&packet) };
        let ready = match next {
            Some(port) if plan.cut_through => {
                let next = plan.setup.graph.links_of(plan.setup.graph.to(link as u32)).start + port;
                // A faster link must not run out of bits in the middle of a packet. A port that does not exist is refused by the next node.
                let next = plan.link(next.min(plan.setup.graph.links() - 1)).rate.transmit(Bytes::new(wire));
                departure.first.max(departure.last.saturating_sub(next))
            }
            _ => departure.last,
        };
        let latency = if next.is_some() { plan.latency } else { Time::ZERO };
        let at = ready + plan.link(link as u32).propagation + latency;
        if self.site.loses(link, departure.first, departure.last, wire) {
            return Err(packet);
        }
        let is_counted = !Hello::is(&packet);
        let LinkSite { outlets, due, pushed, .. } = &mut *self.site;
        let Outlet { ring, thread, .. } = outlets[link].as_mut().expect("a link of this thread");
        if let Err(rtrb::PushError::Full(crossing)) = ring.push(PacketInFlight { at, packet }) {
            return Err(crossing.packet);
        }
        due[*thread] = due[*thread].min(at);
        *pushed += u64::from(is_counted);
        Ok(())
    }

    fn fill(&mut self, flow: SourceFlow, offset: u64, into: &mut [u8]) {
        content::fill(flow, offset, into);
    }

    fn deliver(&mut self, flow: SourceFlow, offset: u64, bytes: &[u8]) {
        self.site.checks.deliver(flow, offset, bytes);
    }

    fn seek(&mut self, problem: SelectionProblem) {
        // Ignore errors, because the seeker may be gone if the rack is shutting down.
        if let Some(seeker) = &self.site.seeker {
            let _ = seeker.send((self.node, Box::new(problem)));
        }
    }

    fn to_host(&mut self, frame: &[u8]) {
        if let Some(tap) = self.site.taps.get_mut(&self.node) {
            tap.write(frame);
        }
    }

    fn happened(&mut self, now: Time, event: Event) {
        let told = match event {
            Event::Opened { message, flow } => Told::Opened { message, flow },
            Event::Complete { flow } => Told::Complete { flow, arrived: self.site.checks.close(flow) },
            Event::Acknowledged { message, retransmissions } => {
                Told::Over { message, retransmissions, is_there: true }
            }
            Event::GivenUp { message, retransmissions } => {
                Told::Over { message, retransmissions, is_there: false }
            }
        };
        self.site.tell(now.max(self.site.now), told);
    }
}
