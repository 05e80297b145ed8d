//! The stack of a node (§3.2.1). Compute nodes and memory nodes have the same.
//!
//! | module | |
//! |---|---|
//! | [`asking`] | requests: announced, granted, answered, over |
//! | [`serving`] | requests of others: done once, answered |
//! | [`copies`] | lines to two switches, and the first copy |
//!
//! A mirrored node (§3.3) has a line to each of two switches, and sends everything over both. Each switch issues its
//! own grants, which are for its own line. So the copies need not be in step: frames on one line may hold up its copy
//! for any time. The receiver takes of each part of a message the copy that comes first.
//!
//! - A place of the table is free when both copies are through, so that no switch has more than X of a pair, and an id
//!   means one message on both lines.
//! - If the second copy is later than the first by the timeout, that line has lost the path to this node (the node's
//!   own line to that switch may be down, which no other node sees), and from then on the node is asked over the other
//!   line.
//! - A line that shows damage is not used again (§3.3).

mod asking;
mod copies;
mod serving;

use self::asking::{Announced, Awaited, Way};
use self::copies::Lines;
use self::serving::{Answer, Served, Serving};
use super::outbox::Outbox;
use crate::block::Block;
use crate::edm::demux::MemoryBlock;
use crate::edm::layout::{ControlFields, Kind, MS, MST, Start};
use crate::edm::{Assembler, Event, Malformed, MemoryMessage, RmwOperation};
use std::collections::BTreeMap;
use unrack_protocol::edm::steps;

/// A node's parameters.
#[derive(Debug, Clone, Copy)]
pub struct HostConfig {
    pub node: u16,
    /// Most bytes that a request allows of its answer: the scheduler's chunk.
    pub chunk: u16,
    /// X: messages to one destination that are announced and not yet granted, or not yet answered (§3.1.2). At most
    /// 256, since ids have eight bits.
    pub max_active: usize,
    /// Most bytes of one notification for several writes to the same destination; `None`: a notification for each.
    pub mega: Option<u16>,
    /// Cycles after which a read or read-modify-write ends with NULL (§3.3). The timeout must exceed any delay in a
    /// rack that works.
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
    /// Cycles in which the first block (`first`) and the last block (`at`) of the last chunk reached the application.
    pub first: u64,
    pub at: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Data read, or the answer of a read-modify-write.
    Answer(Vec<u8>),
    /// All parts of a write have left: `first` is the cycle of its last chunk's first block.
    Sent,
    /// No answer came within the timeout.
    Null,
}

/// A memory controller, which is also told when writes arrive.
pub trait MemoryController {
    /// Returns bytes of memory.
    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8>;
    /// Writes bytes; `first` and `at` as in [`Completion`].
    fn write(&mut self, address: u64, data: &[u8], first: u64, at: u64);
}

/// The stack of one node.
#[derive(Debug, Clone)]
pub struct HostStack {
    config: HostConfig,
    lines: Vec<Line>,
    /// Lines out of use, since they showed damage.
    out: Lines,
    tickets: u32,
    ways: BTreeMap<u16, Way>,
    /// The message state tables, by <destination, message id>.
    awaited: BTreeMap<(u16, u8), Awaited>,
    announced: BTreeMap<(u16, u8), Announced>,
    /// Answers that are not yet granted completely.
    answers: BTreeMap<(u16, u8), Answer>,
    /// Last requests served, of a mirrored node.
    served: BTreeMap<Serving, Served>,
    completions: Vec<Completion>,
    strays: u64,
    duplicates: u64,
}

/// A node's end of a line.
#[derive(Debug, Clone, Default)]
struct Line {
    assembler: Assembler,
    /// Cycle in which the message under way began, and its source.
    began: u64,
    from: u16,
    outbox: Outbox,
}

impl HostStack {
    /// Returns the stack of a node with one line.
    pub fn new(config: HostConfig) -> HostStack {
        HostStack::with_lines(config, 1)
    }

    /// Returns the stack of a node with a line to each of two switches.
    ///
    /// # Panics
    /// Without a timeout, or with X above 64: an id must tell four uses of its place apart.
    pub fn mirrored(config: HostConfig) -> HostStack {
        assert!(config.timeout.is_some(), "a mirrored node needs a timeout");
        assert!(config.uses_bits() >= 2, "a mirrored node has an X of 64 at most");
        HostStack::with_lines(config, copies::MOST)
    }

    fn with_lines(config: HostConfig, lines: usize) -> HostStack {
        HostStack {
            config,
            lines: vec![Line::default(); lines],
            out: Lines::default(),
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

    /// Takes an application's request in cycle `now`, and returns its number.
    pub fn submit(&mut self, now: u64, request: Request) -> u32 {
        let ticket = self.tickets;
        self.tickets += 1;
        let dst = request.dst();
        self.ways.entry(dst).or_default().waiting.push_back((ticket, request));
        self.admit(now, dst);
        ticket
    }

    /// Takes the requests that have ended.
    pub fn completions(&mut self) -> std::vec::Drain<'_, Completion> {
        self.completions.drain(..)
    }

    /// Returns the block that may go over a line in this cycle.
    pub fn offer(&self, now: u64, line: usize) -> Option<Block> {
        self.lines[line].outbox.offer(now)
    }

    /// Notes that the offered block went.
    pub fn took(&mut self, now: u64, line: usize) {
        self.lines[line].outbox.took(now);
    }

    /// Returns whether a request submitted now for `dst` starts at once: fewer than X are active.
    pub fn is_ready(&self, dst: u16) -> bool {
        self.ways.get(&dst).is_none_or(|way| way.is_ready(self.config.max_active))
    }

    /// Returns whether nothing waits to be sent or answered.
    pub fn is_idle(&self) -> bool {
        let nothing_waits = self.ways.values().all(|way| way.waiting.is_empty());
        let nothing_leaves = self.lines.iter().all(|line| line.outbox.is_empty());
        let nothing_is_unsent = self.announced.values().all(Announced::is_free);
        nothing_waits && self.awaited.is_empty() && nothing_is_unsent && nothing_leaves
    }

    /// Returns the number of arrivals that match nothing here: late answers, grants without a message.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Returns the number of messages that the other line had brought before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns whether messages to `dst` go over all lines of this node.
    pub fn is_mirrored_to(&self, dst: u16) -> bool {
        self.lines_to(dst) == Lines::first(copies::MOST)
    }

    /// Returns the assembler of a line.
    pub fn assembler(&self, line: usize) -> &Assembler {
        &self.lines[line].assembler
    }

    /// Takes a line's memory block of this cycle.
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
                    on.from = Start::parse(block.payload).map_or(on.from, |start| start.node);
                }
                on.assembler.handle(block)
            }
        };
        match event {
            Some(Ok(Event::Grant(grant))) => self.grant(now, line, grant),
            Some(Ok(Event::Message(message))) => {
                // A single-block message may come between the blocks of another.
                let began = if memory.is_of_type(MST) { now } else { self.lines[line].began };
                self.message((now, line), began, message, store);
            }
            Some(Ok(Event::Notification(_))) => self.strays += 1,
            Some(Err(why)) if self.lines.len() > 1 => self.damaged(now, line, why),
            Some(Err(_)) | None => {}
        }
    }

    /// Takes a line out of use that has no signal or shows damage (§3.3): nothing is taken from it, or started on it,
    /// any more.
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
            // The damage is on another node's line: this line brings nothing more of that node.
            Malformed::Marked => self.give_up(now, self.lines[line].from, line),
            _ => self.disable(now, line),
        }
    }

    /// Returns the lines over which a node is asked.
    fn lines_to(&self, node: u16) -> Lines {
        let lost = self.ways.get(&node).map_or(Lines::default(), |way| way.lost);
        Lines::first(self.lines.len()).without(self.out).without(lost)
    }

    fn is_lost(&self, node: u16, line: usize) -> bool {
        self.ways.get(&node).is_some_and(|way| way.lost.has(line))
    }

    /// Handles a grant (§3.2.1): parse, add to the grant queue, read it, make data.
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

    /// Counts a grant that matches nothing. Unused, it leaves a circuit at the switch that the next data would take;
    /// so a node with another line sends no data over this one any more.
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
    /// Returns the bits of an id that name a place; the others count its uses.
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
