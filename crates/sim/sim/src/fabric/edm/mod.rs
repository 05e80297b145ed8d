//! `edm`: memory messages in the Ethernet PHY of a star, scheduled by the switch (EDM §3).
//!
//! The steps of one message (their latencies are in [`unrack_protocol::edm::steps`]):
//! - Write: a notification block goes up to the switch; the scheduler matches it; a grant block goes down to the sender; the data goes up,
//!   through the circuit, and down to the receiver. Each chunk needs one grant.
//! - Read or read-modify-write: the request goes up, and waits in the switch as its own notification. When it is matched, it goes down to
//!   the memory node, where it serves as the grant for the first chunk of the answer. Further chunks are granted by grant blocks.
//!
//! A flow is carried as a write.
//!
//! # When a message is complete
//!
//! Table 1's totals are sums of pipeline stages and include no transmission time, not even that of the 64 B moved. We interpret them as the
//! arrival of the first block of the last DDR4 burst (64 B, §3.1.4) of the message. Therefore the completion time is that pipeline, plus
//! the transmission of everything before the last burst. However, ports are occupied for the whole l/B of a chunk.
//!
//! # What is on the wire
//!
//! A block carries 8 bytes in the time of 64 bits at the link's rate, because the factor 66/64 of the line code is included in the baud
//! rate (25.78 GBd at 25 Gb/s). A request takes as many blocks as its bytes need. A chunk of l bytes takes ceil(l/8) blocks, which is the
//! l/B of §3.1.1 (7). A notification or grant takes the time of its 33 bits, as calculated in §3.1.4 (6 % of 64 B).
//!
//! Departure: on a real link, /N/ and /G/ are separate blocks, each 12.5 % of 64 B. With such blocks, writes of 64 B alone would offer more
//! than a link carries at a load of 0.89, and no bound of §4.3.1 could hold.
//!
//! Departure: the framing of a chunk (/MS/ and /MT/, address and message id) takes no time, because the scheduler of §3.1.1 does not count
//! it either. The size field of a notification is as wide as the message needs (§3.1.4 has 16 bits). Departure: the scenario's switch
//! latency is not used, because EDM bypasses the packet pipeline and its switch takes the times of table 1.
//!
//! All this is the default, `wire = "payload"`. With `wire = "blocks"`, everything is carried as 66-bit blocks by the stacks of the PHY:
//! see [`blocks`].
//!
//! # What can be lost
//!
//! Messages are lost only by [faults](unrack_engine::faults). The paper has no retransmission (§3.3), so a message that loses a block,
//! notification or grant is lost. A read ends with a NULL response when its timer expires. A write, or a read without a timer, never ends,
//! and stays one of the X active messages forever. A corrupted block disables its link for the rest of the run.
//!
//! # What it costs
//!
//! A 64 B message takes five events: announced, matched, sent, forwarded, delivered. The other steps take no events, because their lengths
//! are constants. Each further chunk takes two events, because only the last chunk is delivered. Three more events are saved because all
//! bookings of a link come a constant time ahead. Of the time of a run (star 144, 64 B, load 0.8), a third is spent in the steps below, a
//! fifth each in the scheduler and the event queue, and much of the rest in the first accesses to the tables of results. The state per pair
//! of ports grows fastest: with 512 nodes it no longer fits in the cache, and a message takes three times as long.

mod background;
mod batch;
mod blocks;
mod bookings;
mod config;
mod event;
mod fate;
mod host;
mod latency;
mod seen;

pub use config::{BLOCK_BYTES, BURST_BYTES, CONTROL_BITS, EdmConfig, Frames, SchedulingOrder, WireContent};
pub use event::{Chunk, Event};

use self::background::Background;
use self::batch::Batches;
use self::blocks::BlockStar;
use self::bookings::LinkBookings;
use self::fate::Fates;
use self::host::Announcements;
use self::latency::StepSums;
use crate::acted::unless_acted;
use crate::contract::Registered;
use crate::cost::Cost;
use crate::site::FabricSite;
use unrack_engine::error::SetupError;
use unrack_engine::events::{
    Core, Hop, LinkId, Mechanism, ObservedPacket, Observer, PacketKind, Tied, WaitReason,
};
use unrack_engine::network::{Pace, StarNetwork};
use unrack_engine::run::Run;
use unrack_engine::{Fabric, Largest};
use unrack_protocol::edm::{Demand, Grant, Scheduler};
use unrack_rack::{Networks, Profile, Protocol};
use unrack_units::{Bytes, Time, Warning};
use unrack_workload::{Kind, Message, MessageId};

/// EDM on a star.
pub struct Edm {
    nodes: Vec<Node>,
    announcements: Announcements,
    scheduler: Scheduler,
    /// Time at which the scheduler runs next; `None` if the scheduler is idle.
    armed: Option<Time>,
    grants: Vec<Grant>,
    pace: Pace,
    block: Time,
    /// Transmission time of a notification or grant.
    control: Time,
    chunk: u64,
    latency: StepSums,
    /// Time for which a read-modify-write keeps a memory node busy.
    atomic: Time,
    /// State of batches; `None` if messages are not batched.
    batches: Option<Batches>,
    /// Fates of messages; `None` if no message can be lost.
    fates: Option<Fates>,
    /// Ethernet frames on the same links; `None` if there are none.
    background: Option<Background>,
    has_started: bool,
    /// The stacks of the PHY, if they carry the messages; nothing above is used then.
    blocks: Option<Box<BlockStar>>,
}

/// Link of one node.
#[derive(Clone, Copy, Default)]
struct Node {
    up: LinkBookings,
    down: LinkBookings,
    /// Time of the last entry in the host's grant queue, which is FIFO.
    granted: Time,
    /// End of the last read-modify-write at this node.
    memory_free: Time,
}

impl Tied for Event {}

impl Edm {
    /// Creates EDM on a star.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn new(star: &StarNetwork, config: &EdmConfig) -> Result<Edm, SetupError> {
        config.check(star)?;
        let block = star.rate.transmit(Bytes::new(BLOCK_BYTES));
        Ok(Edm {
            nodes: vec![Node::default(); star.nodes as usize],
            announcements: Announcements::new(star.nodes, config.max_active),
            scheduler: Scheduler::new(config.scheduler(star, block)),
            armed: None,
            grants: Vec::new(),
            pace: star.pace(),
            block,
            control: config::control(star),
            chunk: config.chunk.get(),
            latency: StepSums::new(config, star.propagation),
            atomic: config.atomic,
            batches: config.mega.map(|most| Batches::new(most.get())),
            background: config.background.map(|frames| Background::new(&frames, star.nodes, star.rate, 0)),
            has_started: false,
            blocks: (config.wire == WireContent::Blocks).then(|| Box::new(BlockStar::new(star, config))),
            fates: config.read_timeout.map(|timeout| Fates::new(star.nodes, Some(timeout))),
        })
    }

    /// Returns the time for which `bytes` occupy a link.
    fn occupancy(&self, bytes: u64) -> Time {
        self.block * bytes.div_ceil(BLOCK_BYTES)
    }

    /// Returns the transmission time of everything before the last burst of `bytes`.
    fn lead(&self, bytes: u64) -> Time {
        self.block * (bytes.saturating_sub(1) / BURST_BYTES * (BURST_BYTES / BLOCK_BYTES))
    }

    /// Announces a message (§3.1.1): a write by a notification, and a read or read-modify-write by its request.
    fn announce<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let request = u64::from(message.request);
        let length = if message.kind.is_answered() { self.occupancy(request) } else { self.control };
        let ready = self.preempt(LinkId::Host(message.src), core.now() + self.latency.host_ahead, length);
        let start = self.nodes[message.src as usize].up.control(ready, length);
        core.sent(request);
        let at = start + self.lead(request) + self.latency.to_scheduler;
        core.hop(LinkId::Host(message.src), length, || {
            let asks = message.kind.is_answered();
            let kind = if asks { PacketKind::Request } else { PacketKind::Notification };
            let packet = ObservedPacket::new(kind, message.src, message.dst);
            let hop = self.hop(LinkId::Host(message.src), id, packet, request, (ready, start, length));
            Hop { serial: self.lead(request), onward: at, ..hop }
        });
        core.waits(id, || WaitReason::Notification);
        if let Some(fates) = &mut self.fates {
            fates.announced(id);
            if self.loses(LinkId::Host(message.src), start, length) {
                let kind = if request > 0 { PacketKind::Request } else { PacketKind::Notification };
                return self.lose(core, id, kind, request);
            }
        }
        core.schedule(at, Event::Demand(id));
    }

    fn demand<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        core.waits(id, || WaitReason::Grant);
        let message = core.message(id);
        let demand = Demand {
            src: message.data_src(),
            dst: message.data_dst(),
            bytes: match &self.batches {
                Some(batches) => batches.bytes(id, message),
                None => message.bytes,
            },
            token: id.0,
            request: if message.kind.is_answered() {
                self.occupancy(u64::from(message.request))
            } else {
                Time::ZERO
            },
        };
        self.scheduler.handle_demand(core.now(), demand);
        self.arm(core);
    }

    /// Schedules the next run of the scheduler, unless an earlier run is scheduled.
    fn arm<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let Some(at) = self.scheduler.poll_at() else {
            return;
        };
        let at = at.max(core.now());
        if self.armed.is_none_or(|armed| at < armed) {
            self.armed = Some(at);
            core.schedule(at, Event::Schedule);
        }
    }

    fn schedule<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        if self.armed != Some(core.now()) {
            return; // superseded by an earlier time
        }
        self.armed = None;
        let mut grants = std::mem::take(&mut self.grants);
        self.scheduler.run(core.now(), &mut grants);
        for grant in grants.drain(..) {
            self.grant(core, grant);
        }
        self.grants = grants;
        self.arm(core);
    }

    /// Sends a grant block down to the sender of the data, or the buffered request in place of the first grant (§3.1.1 (4)).
    fn grant<O: Observer>(&mut self, core: &mut Core<Event, O>, grant: Grant) {
        let id = MessageId(grant.token);
        let message = core.message(id);
        let request = u64::from(message.request);
        let by_request = grant.first && message.kind.is_answered();
        let (length, on_wire_to_send) = match by_request {
            true => (self.occupancy(request), self.lead(request) + self.latency.request_to_send),
            false => (self.control, self.latency.grant_to_send),
        };
        let message = *message;
        let at = self.preempt(LinkId::Port(grant.src), grant.at + self.latency.granted, length);
        let node = &mut self.nodes[grant.src as usize];
        let start = node.down.control(at, length);
        node.granted = node.granted.max(start + on_wire_to_send);
        let mut send_at = node.granted;
        if message.kind.is_answered() {
            // §3.2.1: a read-modify-write is not preempted by other requests.
            send_at = send_at.max(node.memory_free);
            if by_request && message.kind == Kind::Rmw {
                send_at += self.atomic;
                node.memory_free = send_at;
            }
        }
        let chunk = Chunk { id, bytes: grant.bytes as u16, last: grant.last };
        core.hop(LinkId::Port(grant.src), length, || {
            let kind = if by_request { PacketKind::Request } else { PacketKind::Grant };
            let packet = ObservedPacket::new(kind, grant.dst, grant.src);
            let payload = if by_request { request } else { 0 };
            let hop = self.hop(LinkId::Port(grant.src), id, packet, payload, (at, start, length));
            Hop { serial: self.lead(payload), onward: start + on_wire_to_send, ..hop }
        });
        if self.loses(LinkId::Port(grant.src), start, length) {
            return match by_request {
                true => self.lose(core, id, PacketKind::Request, request),
                false => self.lose(core, id, PacketKind::Grant, 0),
            };
        }
        core.schedule(send_at, Event::Send(chunk));
        if by_request {
            core.arrived(request);
        }
    }

    fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, chunk: Chunk) {
        let message = *core.message(chunk.id);
        let bytes = u64::from(chunk.bytes);
        let length = self.occupancy(bytes);
        let ready =
            self.preempt(LinkId::Host(message.data_src()), core.now() + self.latency.host_ahead, length);
        let start = self.nodes[message.data_src() as usize].up.data(ready, length);
        core.sent(bytes);
        let at = start + self.latency.to_forward;
        core.hop(LinkId::Host(message.data_src()), length, || {
            let packet = ObservedPacket::new(PacketKind::Data, message.data_src(), message.data_dst());
            let hop = self.hop(LinkId::Host(packet.src), chunk.id, packet, bytes, (ready, start, length));
            Hop { onward: at + self.latency.switch_ahead, ..hop }
        });
        match self.loses(LinkId::Host(message.data_src()), start, length) {
            true => self.lose(core, chunk.id, PacketKind::Data, bytes),
            false => core.schedule(at, Event::Forward(chunk)),
        }
        if chunk.last {
            core.waits(chunk.id, || WaitReason::Nothing);
        }
        if chunk.last && !message.kind.is_answered() {
            self.release(core, chunk.id);
        }
    }

    fn forward<O: Observer>(&mut self, core: &mut Core<Event, O>, chunk: Chunk) {
        let message = core.message(chunk.id);
        let bytes = u64::from(chunk.bytes);
        let (src, dst, at) = (message.data_src(), message.data_dst(), core.now() + self.latency.switch_ahead);
        let length = self.occupancy(bytes);
        let at = self.preempt(LinkId::Port(dst), at, length);
        let down = &mut self.nodes[dst as usize].down;
        let ahead = self.pace.bytes_in(down.backlog(at));
        let start = down.data(at, length);
        core.queued(dst, ahead);
        core.hop(LinkId::Port(dst), length, || {
            let packet = ObservedPacket::new(PacketKind::Data, src, dst);
            let hop = self.hop(LinkId::Port(dst), chunk.id, packet, bytes, (at, start, length));
            let serial = self.lead(bytes);
            Hop { serial, onward: start + serial + self.latency.to_receiver, ..hop }
        });
        if self.loses(LinkId::Port(dst), start, length) {
            return self.lose(core, chunk.id, PacketKind::Data, bytes);
        }
        core.arrived(bytes);
        if self.fates.as_ref().is_some_and(|fates| fates.is_lost(chunk.id)) {
            return;
        }
        let at = start + self.latency.to_receiver;
        if let Some(mut batches) = self.batches.take() {
            batches.pass(core, chunk.id, bytes, |core, member, end| {
                core.schedule(at + self.lead(end), Event::Deliver(member));
            });
            self.batches = Some(batches);
        } else if chunk.last {
            core.schedule(at + self.lead(bytes), Event::Deliver(chunk.id));
        }
    }

    fn deliver<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        core.complete(id);
        if core.message(id).kind.is_answered() {
            self.release(core, id);
        }
    }

    /// Gives up a read whose timer has expired (§3.3): the application gets a NULL response without data.
    fn time_out<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        if core.is_open(id) {
            core.give_up(id);
            self.release(core, id);
        }
    }

    /// Ends the active state of a message, so that another message of its pair may be announced.
    fn release<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        if let Some(fates) = &mut self.fates
            && !fates.released(id)
        {
            return;
        }
        while let Some(next) = self.announcements.release(core.message(id)) {
            if !core.is_open(next) {
                continue; // timed out while it waited, so the next message gets its place
            }
            if let Some(batches) = &mut self.batches {
                batches.collect(core, next, &mut self.announcements);
            }
            return self.announce(core, next);
        }
    }
}

impl Registered for Edm {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "edm",
        about: "scheduled by the switch, inside the Ethernet PHY",
        networks: Networks::Star,
        no_shared_buffer: Some("the switch of `edm` queues no data (EDM §3.1)"),
        ..Profile::SWITCHED
    });
    // For each pair: queues of the scheduler (16 bytes) and of announcements (9 bytes).
    const COST: Cost = Cost { port: 100.0, pair: 25.0, open: 60.0, overhead: 6.0, ..Cost::NONE };
    type Params = EdmConfig;

    fn build(site: &FabricSite, params: &EdmConfig) -> Result<Edm, SetupError> {
        let config = params.for_tail(site.heavy_tailed);
        let edm = Edm::new(&site.network.as_star("edm")?, &config)?;
        Ok(edm.with_faults(&site.network.topology, &config)?.seeded(&config, site.seed))
    }

    fn never_acted(_params: &EdmConfig, run: &Run) -> Vec<Warning> {
        let text = "edm never reached X: no message waited to be announced, so that `fabric.max_active` had no effect";
        unless_acted(run, Mechanism::ActiveLimit, "active", text)
    }
}

impl Fabric for Edm {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        if let Some(blocks) = &mut self.blocks {
            return blocks.submit(core, id);
        }
        if let (Some(background), false) = (&mut self.background, self.has_started) {
            background.start(core);
        }
        self.has_started = true;
        let timeout = self.fates.as_ref().and_then(|fates| fates.timeout);
        if let Some(timeout) = timeout.filter(|_| core.message(id).kind.is_answered()) {
            core.schedule(core.now() + timeout, Event::Timeout(id));
        }
        if self.announcements.admit(id, core.message(id)) {
            self.announce(core, id);
        } else {
            core.acted(Mechanism::ActiveLimit);
            core.waits(id, || WaitReason::Turn);
        }
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        if let Some(blocks) = &mut self.blocks {
            return blocks.handle(core, event);
        }
        match event {
            Event::Cycle => unreachable!("only the stacks of the PHY have cycles"),
            Event::Demand(id) => self.demand(core, id),
            Event::Schedule => self.schedule(core),
            Event::Send(chunk) => self.send(core, chunk),
            Event::Forward(chunk) => self.forward(core, chunk),
            Event::Deliver(id) => self.deliver(core, id),
            Event::Timeout(id) => self.time_out(core, id),
            Event::NewFrame(_) | Event::FrameEnd(_) | Event::FrameAtSwitch(_) | Event::FrameAtNode => {
                self.frame(core, event);
            }
        }
    }

    /// Returns the pipeline time of table 1 plus the transmission time of everything before the last burst.
    fn unloaded(&self, message: &Message) -> Time {
        if let Some(blocks) = &self.blocks {
            return blocks.unloaded(message);
        }
        let l = &self.latency;
        let common = l.host_ahead + l.to_scheduler + l.switch_ahead + l.host_ahead;
        let circuit = l.to_forward + l.switch_ahead + l.to_receiver;
        let asked = match message.kind.is_answered() {
            true => self.lead(u64::from(message.request)) * 2 + l.request_to_send,
            false => l.grant_to_send,
        };
        let atomic = if message.kind == Kind::Rmw { self.atomic } else { Time::ZERO };
        common + asked + atomic + circuit + self.last_chunk_after_first(message)
    }

    fn largest(&self) -> Option<Largest> {
        self.blocks.as_ref().map(|_| BlockStar::largest())
    }
}

impl Edm {
    /// Returns the time from the start of the first chunk to the start of the last burst, without other traffic.
    fn last_chunk_after_first(&self, message: &Message) -> Time {
        let before = (message.bytes - 1) / self.chunk;
        let last = message.bytes - before * self.chunk;
        if before == 0 {
            return self.lead(last);
        }
        // The time between grants is l/B or one iteration, whichever is longer. The first chunk of an answer was granted by the request,
        // which takes one cycle more than a grant.
        let wire = self.occupancy(self.chunk);
        let grant = wire.max(self.scheduler.config().iteration);
        let extra = match message.kind {
            Kind::Read | Kind::Rmw => self.latency.request_to_send - self.latency.grant_to_send,
            Kind::Write | Kind::Flow => Time::ZERO,
        };
        (wire * before).max((grant * before).saturating_sub(extra)) + self.lead(last)
    }
}
