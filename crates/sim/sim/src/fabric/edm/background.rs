//! Ethernet frames on the same links as memory traffic (§3.2.3). Frames get the blocks that memory traffic leaves free.
//!
//! A frame can be preempted after any 66-bit block, so that memory traffic waits at most for the block on the wire. Switches store and
//! forward frames, as layer-2 switches do, because a receiver holds back a frame until its end in any case. The buffers of switches for
//! frames are not limited here.
//!
//! Departure: memory traffic always goes first, which §3.2.3 allows. In the paper's default, the two kinds take turns block by block.
//! Departure: a frame does not start in a gap that is shorter than the few cycles by which blocks of memory traffic are booked ahead.

use super::super::slab::Slab;
use super::bookings::LinkBookings;
use super::config::{EdmConfig, Frames};
use super::{Edm, Event};
use unrack_engine::events::{Core, LinkId, Observer};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::NodeId;
use unrack_workload::random::{DrawPurpose, Generator, below, generator, unit};

/// Bytes around the payload of a frame: preamble 8 B, header 14 B, check sequence 4 B, gap 12 B (IEEE 802.3).
const OVERHEAD: u64 = 8 + 14 + 4 + 12;

/// Latency of layer-2 forwarding (table 1).
const FORWARDING: Time = Time::from_ns(400);

pub(super) struct Background {
    bytes: u64,
    /// Transmission time of a frame.
    length: Time,
    /// Transmission time of a block.
    block: Time,
    mean_gap_ps: f64,
    /// Random generators of each node: one for the times of its frames, and one for their destinations.
    draws: Vec<(Generator, Generator)>,
    /// State of the frames in each direction of a link. There are two entries for each node: up and down.
    fillers: Vec<BackgroundFrames>,
    frames: Slab<Frame>,
}

/// State of the frames in one direction of a link.
#[derive(Clone, Copy, Default)]
struct BackgroundFrames {
    /// End of the last frame, if no more memory traffic comes.
    until: Time,
    /// Start of a block of a frame. Further blocks follow it without a gap.
    since: Time,
    /// Total time by which memory traffic has delayed frames so far.
    displaced: Time,
}

/// A frame on a link.
#[derive(Debug, Clone, Copy)]
struct Frame {
    link: LinkId,
    dst: NodeId,
    /// End of the frame, if the total delay of frames stays at `displaced`.
    end: Time,
    displaced: Time,
}

impl Background {
    /// Creates the traffic of `nodes` nodes with links of this rate.
    pub(super) fn new(frames: &Frames, nodes: u32, rate: Rate, seed: u64) -> Background {
        let block = rate.transmit(Bytes::new(super::BLOCK_BYTES));
        let blocks = (frames.frame.get() + OVERHEAD).div_ceil(super::BLOCK_BYTES);
        let draws = |node| {
            (
                generator(seed, DrawPurpose::Frames, node),
                generator(seed, DrawPurpose::FrameDestinations, node),
            )
        };
        Background {
            bytes: frames.frame.get(),
            length: block * blocks,
            block,
            mean_gap_ps: (block * blocks).as_ps() as f64 / frames.load.get(),
            draws: (0..nodes).map(draws).collect(),
            fillers: vec![BackgroundFrames::default(); 2 * nodes as usize],
            frames: Slab::new(),
        }
    }

    /// Schedules the first frame of each node.
    pub(super) fn start<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        for node in 0..self.draws.len() as u32 {
            self.schedule_next(core, node);
        }
    }

    fn schedule_next<O: Observer>(&mut self, core: &mut Core<Event, O>, node: NodeId) {
        let draw = -(1.0 - unit(&mut self.draws[node as usize].0)).ln();
        let gap = Time::from_ps((draw * self.mean_gap_ps).round() as u64);
        core.schedule(core.now() + gap, Event::NewFrame(node));
    }

    /// Sends a frame from a node whose link is busy with memory traffic until `busy`.
    pub(super) fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, node: NodeId, busy: Time) {
        let others = self.draws.len() as u32 - 1;
        let other = below(&mut self.draws[node as usize].1, others);
        core.background_sent(self.bytes);
        self.queue(core, LinkId::Host(node), other + u32::from(other >= node), busy);
        self.schedule_next(core, node);
    }

    /// Queues a frame on a link that is busy with memory traffic until `busy`.
    pub(super) fn queue<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        link: LinkId,
        dst: NodeId,
        busy: Time,
    ) {
        let (length, now) = (self.length, core.now());
        let filler = self.filler(link);
        if filler.until <= now.max(busy) {
            filler.until = now.max(busy);
            filler.since = filler.until;
        }
        filler.until += length;
        core.occupied(link, length);
        let frame = Frame { link, dst, end: filler.until, displaced: filler.displaced };
        core.schedule(frame.end, Event::FrameEnd(self.frames.insert(frame)));
    }

    /// Returns the link and the destination of a frame, if the whole frame has left. Otherwise, schedules the next check and returns
    /// `None`.
    pub(super) fn left<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        index: u32,
    ) -> Option<(LinkId, NodeId)> {
        let displaced = self.filler(self.frames[index].link).displaced;
        let frame = &mut self.frames[index];
        frame.end += displaced - frame.displaced;
        frame.displaced = displaced;
        if frame.end > core.now() {
            core.schedule(frame.end, Event::FrameEnd(index));
            return None;
        }
        let left = (frame.link, frame.dst);
        self.frames.release(index);
        Some(left)
    }

    /// Returns when blocks of memory traffic that are ready at `at` can start, if no other memory traffic is in the way (`idle`). Delays
    /// the frames on this link by `length`.
    pub(super) fn preempt(&mut self, link: LinkId, at: Time, length: Time, idle: bool) -> Time {
        let block = self.block.as_ps();
        let filler = self.filler(link);
        if filler.until <= at {
            return at;
        }
        let mut start = at;
        if idle && at > filler.since {
            let into = (at - filler.since).as_ps() % block;
            start = if into == 0 { at } else { at + Time::from_ps(block - into) };
        }
        filler.until += length;
        filler.displaced += length;
        filler.since = filler.since.max(start) + length;
        start
    }

    /// Counts a frame that has arrived at its destination.
    pub(super) fn deliver<O: Observer>(&self, core: &mut Core<Event, O>) {
        core.background_arrived(self.bytes);
    }

    fn filler(&mut self, link: LinkId) -> &mut BackgroundFrames {
        let place = match link {
            LinkId::Host(node) => 2 * node,
            LinkId::Port(node) => 2 * node + 1,
        };
        &mut self.fillers[place as usize]
    }
}

impl Edm {
    /// Creates the background frames, drawn with random numbers from this seed.
    pub fn seeded(mut self, config: &EdmConfig, seed: u64) -> Edm {
        let (nodes, rate) = (self.nodes.len() as u32, self.pace.rate());
        self.background = config.background.map(|frames| Background::new(&frames, nodes, rate, seed));
        self
    }

    /// Returns when blocks of memory traffic that are ready at `at` can start. If a block of a frame is on the wire, they start after that
    /// block.
    pub(super) fn preempt(&mut self, link: LinkId, at: Time, length: Time) -> Time {
        let Some(background) = &mut self.background else { return at };
        let idle = match link {
            LinkId::Host(node) => self.nodes[node as usize].up.backlog(at),
            LinkId::Port(node) => self.nodes[node as usize].down.backlog(at),
        };
        background.preempt(link, at, length, idle == Time::ZERO)
    }

    /// Moves a frame one step: to its first link, over that link, to its second link, or over the second link.
    pub(super) fn frame<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        let (Some(background), nodes) = (&mut self.background, &self.nodes) else { return };
        let busy = |lane: &LinkBookings| core.now() + lane.backlog(core.now());
        match event {
            Event::NewFrame(node) => {
                let busy = busy(&nodes[node as usize].up);
                background.send(core, node, busy);
            }
            Event::FrameAtSwitch(dst) => {
                let busy = busy(&nodes[dst as usize].down);
                background.queue(core, LinkId::Port(dst), dst, busy);
            }
            Event::FrameEnd(frame) => {
                let at = core.now() + self.latency.link;
                match background.left(core, frame) {
                    Some((LinkId::Host(_), dst)) => core.schedule(at + FORWARDING, Event::FrameAtSwitch(dst)),
                    Some((LinkId::Port(_), _)) => core.schedule(at, Event::FrameAtNode),
                    None => {}
                }
            }
            Event::FrameAtNode => background.deliver(core),
            _ => {}
        }
    }
}
