//! What the nodes of one thread have around them: the sending ends of their links, spare packets, what flows carry.

use super::content::{self, Checks};
use super::line::Line;
use super::node::{Around, Event, FlowKey, Maps, Packet};
use super::plan::Plan;
use super::report::{News, Told, empty_histogram};
use hdrhistogram::Histogram;
use rtrb::Producer;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use unrack_protocol::r2c2::packet::{Broadcast, Data, Kind};
use unrack_units::Time;

/// A packet on a link, and when it is at its other end.
pub(crate) struct Crossing {
    pub at: Time,
    pub packet: Packet,
}

/// The sending end of a link.
pub(crate) struct Outlet {
    pub line: Line,
    pub ring: Producer<Crossing>,
    /// Which thread takes what comes out.
    pub thread: usize,
}

pub(crate) struct Site {
    plan: Arc<Plan>,
    pub maps: Maps,
    /// By link; only those that leave nodes of this thread.
    outlets: Vec<Option<Outlet>>,
    spare: Vec<Packet>,
    checks: Checks,
    news: Sender<News>,
    /// By thread, when what was put on links to it is due first.
    pub due: Vec<Time>,
    pub pushed: u64,
    pub queues: Queues,
}

/// How long the queues of a thread's links were.
#[derive(Debug, Clone)]
pub(crate) struct Queues {
    /// Bytes found ahead by each data packet at each link.
    pub found: Histogram<u64>,
    /// By link, the most bytes that were there with a packet that joined them.
    pub most: Vec<u64>,
}

/// How long a source waits when a thread does not come after.
const REST: Time = Time::from_us(100);
/// Packets that are kept to be written again, at the most.
const MOST_SPARE: usize = 4_096;

impl Site {
    pub fn new(plan: &Arc<Plan>, outlets: Vec<Option<Outlet>>, threads: usize, news: Sender<News>) -> Site {
        Site {
            maps: Maps::new(plan),
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

    /// As one of its nodes sees it.
    pub fn around(&mut self, node: u32) -> Here<'_> {
        let first = self.plan.graph.links_of(node).start as usize;
        Here { site: self, first }
    }

    pub fn tell(&self, at: Time, told: Told) {
        // Nobody listens any more: the rack is going down.
        let _ = self.news.send(News { at, told });
    }
}

impl Queues {
    pub fn new(links: usize) -> Queues {
        Queues { found: empty_histogram(), most: vec![0; links] }
    }
}

/// The surroundings of one node.
pub(crate) struct Here<'a> {
    site: &'a mut Site,
    first: usize,
}

impl Here<'_> {
    fn outlet(&self, port: u32) -> &Outlet {
        self.site.outlets[self.first + port as usize]
            .as_ref()
            .expect("a link that leaves a node of this thread")
    }
}

impl Around for Here<'_> {
    fn maps(&mut self) -> &mut Maps {
        &mut self.site.maps
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
        // The thread at the other end is late: what is sent now would be lost.
        if ring.is_full() { now + REST } else { line.room_at(now, bytes) }
    }

    fn put(&mut self, now: Time, port: u32, packet: Packet) -> Result<(), Packet> {
        let Site { plan, outlets, due, pushed, queues, .. } = &mut *self.site;
        let link = self.first + port as usize;
        let Outlet { line, ring, thread } = outlets[link].as_mut().expect("a link of this thread");
        let (wire, ahead) = (packet.len() as u64, line.backlog(now));
        if Kind::of(&packet).is_some_and(Kind::is_data) {
            queues.found.saturating_record(ahead);
        }
        if ring.is_full() {
            return Err(packet);
        }
        let Some(departure) = line.enqueue(now, wire) else { return Err(packet) };
        queues.most[link] = queues.most[link].max(ahead + wire);
        let goes_on = !Broadcast::is(&packet) && Data::hops_left(&packet) > 0;
        let ready = if goes_on && plan.cut_through { departure.first } else { departure.last };
        let at = ready + plan.link.propagation + if goes_on { plan.latency } else { Time::ZERO };
        if let Err(rtrb::PushError::Full(crossing)) = ring.push(Crossing { at, packet }) {
            return Err(crossing.packet);
        }
        due[*thread] = due[*thread].min(at);
        *pushed += 1;
        Ok(())
    }

    fn fill(&mut self, flow: FlowKey, offset: u64, into: &mut [u8]) {
        content::fill(flow, offset, into);
    }

    fn deliver(&mut self, flow: FlowKey, offset: u64, bytes: &[u8]) {
        self.site.checks.deliver(flow, offset, bytes);
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
        self.site.tell(now, told);
    }
}
