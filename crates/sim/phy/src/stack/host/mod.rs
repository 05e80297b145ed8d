//! Network stack of a node (§3.2.1). Compute nodes and memory nodes have the same stack.
//!
//! | module | |
//! |---|---|
//! | [`asking`] | requests of this node: announced, granted, answered, completed |
//! | [`serving`] | requests of other nodes: executed once, answered |
//! | [`copies`] | lines to two switches, and the first copy |
//!
//! A mirrored node (§3.3) has a line to each of two switches, and sends a copy of everything over each line. Each switch grants the
//! transmissions on its lines independently of the other switch. Therefore the two copies of a message are not synchronous, and frames on
//! one line may delay its copy for any length of time. For each part of a message, the receiver uses the copy that arrives first.
//!
//! - A place in the table of active messages becomes free only when both copies are complete. Therefore neither switch has more than X
//!   messages of a pair of nodes, and an id identifies the same message on both lines.
//! - If the second copy of an answer arrives later than the first by more than the timeout, or not at all, this node assumes that the
//!   second copy's line no longer leads to the peer. (For example, the peer's line to that switch may be down, which other nodes cannot
//!   see.) From then on, requests to the peer use only the other line.
//! - A node does not use a line again once the line has shown damage (§3.3).

mod asking;
mod copies;
mod serving;

use self::asking::{AnnouncedWrite, AwaitedResponse, DestinationQueue};
use self::copies::LineSet;
use self::serving::{NewestRequest, PendingResponse, RequestKey};
use super::outbox::HostOutbox;
use crate::block::Block;
use crate::edm::demux::MemoryBlock;
use crate::edm::layout::{ControlFields, Kind, MS, MST, StartFields};
use crate::edm::{Assembler, Event, Malformed, MemoryMessage, RmwOperation};
use std::collections::BTreeMap;
use unrack_protocol::edm::steps;

/// Parameters of a node.
#[derive(Debug, Clone, Copy)]
pub struct HostConfig {
    pub node: u16,
    /// Chunk size of the switch's scheduler, in bytes. It is also the maximum number of bytes of the answer that a request grants.
    pub chunk: u16,
    /// X, the maximum number of active messages to one destination (§3.1.2). A message is active from its announcement until it is
    /// completely granted or, for a request, answered. X is at most 256, because message ids have eight bits.
    pub max_active: usize,
    /// Maximum total size, in bytes, of several writes to the same destination that one notification announces. With `None`, the node sends
    /// a notification for each write.
    pub mega: Option<u16>,
    /// Number of cycles after which a read or read-modify-write without an answer ends with the answer NULL (§3.3). The timeout must be
    /// longer than any delay in a rack without failures.
    pub timeout: Option<u64>,
}

/// A request of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Read { dst: u16, address: u64, bytes: u16 },
    Write { dst: u16, address: u64, data: Vec<u8> },
    Modify { dst: u16, address: u64, operation: RmwOperation },
}

/// End of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Number that [`HostStack::submit`] returned.
    pub ticket: u32,
    pub outcome: RequestOutcome,
    /// Cycle in which the first block of the last chunk reached the application. The next field, `at`, is the cycle of the last block of
    /// this chunk.
    pub first: u64,
    pub at: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Data that a read returned, or the answer to a read-modify-write.
    Answer(Vec<u8>),
    /// All parts of a write have been sent. `first` is the cycle in which the first block of the write's last chunk was sent.
    Sent,
    /// No answer arrived within the timeout.
    Null,
}

/// Memory controller of a node, which serves reads and gets the data of writes.
pub trait MemoryController {
    /// Returns `bytes` bytes of memory from `address` on.
    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8>;
    /// Writes bytes to memory from `address` on. `first` and `at` are cycles as in [`Completion`].
    fn write(&mut self, address: u64, data: &[u8], first: u64, at: u64);
}

/// Network stack of one node.
#[derive(Debug, Clone)]
pub struct HostStack {
    config: HostConfig,
    lines: Vec<Line>,
    /// Lines that the node no longer uses because they have shown damage.
    out: LineSet,
    tickets: u32,
    ways: BTreeMap<u16, DestinationQueue>,
    /// Message state tables of the requests of this node, by destination and message id. The next field has the writes.
    awaited: BTreeMap<(u16, u8), AwaitedResponse>,
    announced: BTreeMap<(u16, u8), AnnouncedWrite>,
    /// Answers to requests of other nodes that the switch has not completely granted yet.
    answers: BTreeMap<(u16, u8), PendingResponse>,
    /// For a mirrored node, the newest request that it has served for each place in other nodes' tables.
    served: BTreeMap<RequestKey, NewestRequest>,
    completions: Vec<Completion>,
    strays: u64,
    duplicates: u64,
}

/// A node's end of a line.
#[derive(Debug, Clone, Default)]
struct Line {
    assembler: Assembler,
    /// Cycle in which the message that is arriving over this line began. The next field is the source of this message.
    began: u64,
    from: u16,
    outbox: HostOutbox,
}

impl HostStack {
    /// Returns the network stack of a node with one line.
    pub fn new(config: HostConfig) -> HostStack {
        HostStack::with_lines(config, 1)
    }

    /// Returns the network stack of a mirrored node, which has a line to each of two switches.
    ///
    /// # Panics
    /// If there is no timeout, or if X is above 64. Message ids have eight bits, of which at least two must count the uses of a place.
    pub fn mirrored(config: HostConfig) -> HostStack {
        assert!(config.timeout.is_some(), "a mirrored node needs a timeout");
        assert!(config.uses_bits() >= 2, "a mirrored node has an X of 64 at most");
        HostStack::with_lines(config, copies::MOST)
    }

    fn with_lines(config: HostConfig, lines: usize) -> HostStack {
        HostStack {
            config,
            lines: vec![Line::default(); lines],
            out: LineSet::default(),
            tickets: 0,
            ways: BTreeMap::new(),
            awaited: BTreeMap::new(),
            announced: BTreeMap::new(),
            answers: BTreeMap::new(),
            served: BTreeMap::new(),
            completions: Vec::new(),
            strays: 0,
            duplicates: 0,
        }
    }

    /// Accepts a request of an application in cycle `now`. Returns a ticket, which identifies the request in its [`Completion`].
    pub fn submit(&mut self, now: u64, request: Request) -> u32 {
        let ticket = self.tickets;
        self.tickets += 1;
        let dst = request.dst();
        self.ways.entry(dst).or_default().waiting.push_back((ticket, request));
        self.admit(now, dst);
        ticket
    }

    /// Removes and returns the completions of the requests that have ended.
    pub fn completions(&mut self) -> std::vec::Drain<'_, Completion> {
        self.completions.drain(..)
    }

    /// Returns the block that may be sent over a line in this cycle.
    pub fn offer(&self, now: u64, line: usize) -> Option<Block> {
        self.lines[line].outbox.offer(now)
    }

    /// Records that the offered block was sent.
    pub fn took(&mut self, now: u64, line: usize) {
        self.lines[line].outbox.took(now);
    }

    /// Returns whether a request to `dst` that is submitted now would start at once, because fewer than X messages to `dst` are active.
    pub fn is_ready(&self, dst: u16) -> bool {
        self.ways.get(&dst).is_none_or(|way| way.is_ready(self.config.max_active))
    }

    /// Returns whether no block waits to be sent and no request waits for an answer or a grant.
    pub fn is_idle(&self) -> bool {
        let nothing_waits = self.ways.values().all(|way| way.waiting.is_empty());
        let nothing_leaves = self.lines.iter().all(|line| line.outbox.is_empty());
        let nothing_is_unsent = self.announced.values().all(AnnouncedWrite::is_free);
        nothing_waits && self.awaited.is_empty() && nothing_is_unsent && nothing_leaves
    }

    /// Returns the number of received messages and grants that match no request of this node, such as late answers.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Returns the number of received messages whose other copy had arrived over the other line before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns whether this node sends messages to `dst` over all of its lines.
    pub fn is_mirrored_to(&self, dst: u16) -> bool {
        self.lines_to(dst) == LineSet::first(copies::MOST)
    }

    /// Returns the assembler of a line.
    pub fn assembler(&self, line: usize) -> &Assembler {
        &self.lines[line].assembler
    }

    /// Handles the memory block that arrives over a line in this cycle.
    pub fn handle(
        &mut self,
        now: u64,
        line: usize,
        memory: Option<MemoryBlock>,
        store: &mut impl MemoryController,
    ) {
        self.time_out(now);
        let Some(memory) = memory.filter(|_| !self.out.has(line)) else { return };
        let on = &mut self.lines[line];
        let event = match memory {
            MemoryBlock::Broken => on.assembler.broken().map(Err),
            MemoryBlock::Block(block) => {
                if block.block_type() == Some(MS) {
                    on.began = now;
                    on.from = StartFields::parse(block.payload).map_or(on.from, |start| start.node);
                }
                on.assembler.handle(block)
            }
        };
        match event {
            Some(Ok(Event::Grant(grant))) => self.grant(now, line, grant),
            Some(Ok(Event::Message(message))) => {
                // A message that consists of a single block may arrive between the blocks of another message.
                let began = if memory.is_of_type(MST) { now } else { self.lines[line].began };
                self.message((now, line), began, message, store);
            }
            Some(Ok(Event::Notification(_))) => self.strays += 1,
            Some(Err(why)) if self.lines.len() > 1 => self.damaged(now, line, why),
            Some(Err(_)) | None => {}
        }
    }

    /// Stops the use of a line, because the line has no signal or shows damage (§3.3). From then on, the node ignores everything that
    /// arrives over this line, and starts no messages on it.
    pub fn disable(&mut self, now: u64, line: usize) {
        if self.out.has(line) {
            return;
        }
        self.out.add(line);
        self.answers.retain(|_, answer| !answer.close(line));
        let nodes: Vec<u16> = self.ways.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.give_up(now, node, line));
    }

    fn damaged(&mut self, now: u64, line: usize, why: Malformed) {
        match why {
            // The damage is on the link between the message's sender and the switch, so this line will deliver nothing more from that node.
            Malformed::Marked => self.give_up(now, self.lines[line].from, line),
            _ => self.disable(now, line),
        }
    }

    /// Returns the lines over which requests are sent to a node.
    fn lines_to(&self, node: u16) -> LineSet {
        let lost = self.ways.get(&node).map_or(LineSet::default(), |way| way.lost);
        LineSet::first(self.lines.len()).without(self.out).without(lost)
    }

    fn is_lost(&self, node: u16, line: usize) -> bool {
        self.ways.get(&node).is_some_and(|way| way.lost.has(line))
    }

    /// Handles a grant (§3.2.1). The cycles taken are those of the hardware steps: parse the grant, add it to the grant queue, read it from
    /// the queue, and make the data blocks.
    fn grant(&mut self, now: u64, line: usize, grant: ControlFields) {
        let from = now + steps::PARSE_GRANT + steps::READ_GRANT_QUEUE + steps::MAKE_DATA;
        let (key, bytes) = ((grant.node, grant.id), usize::from(grant.size));
        let is_known = match grant.kind {
            Kind::Write => self.send_write((now, line), from, key, bytes),
            _ => self.send_answer(line, from, key, bytes),
        };
        if !is_known {
            self.stray_grant(now, line);
        }
    }

    /// Counts a grant that matches no message of this node. Because the node does not use the grant, the switch keeps the circuit of the
    /// grant open, and would send the node's next data through this circuit by mistake. Therefore a node that has another line sends no
    /// more data over this line.
    fn stray_grant(&mut self, now: u64, line: usize) {
        self.strays += 1;
        if self.lines.len() > 1 {
            self.disable(now, line);
        }
    }

    fn send(&mut self, line: usize, from: u64, message: MemoryMessage) {
        let mut blocks = Vec::new();
        message.blocks(&mut blocks);
        self.lines[line].outbox.data(from, blocks);
    }
}

impl HostConfig {
    /// Returns the number of bits of a message id that contain the number of the place. The other bits count the uses of this place.
    fn place_bits(&self) -> u32 {
        self.max_active.next_power_of_two().trailing_zeros()
    }

    fn uses_bits(&self) -> u32 {
        u8::BITS.saturating_sub(self.place_bits())
    }

    fn place_of(&self, id: u8) -> u8 {
        id & ((1_u16 << self.place_bits()) - 1) as u8
    }
}

impl Request {
    /// Returns the destination.
    pub fn dst(&self) -> u16 {
        match self {
            Request::Read { dst, .. } | Request::Write { dst, .. } | Request::Modify { dst, .. } => *dst,
        }
    }
}
