//! The stack of a node (§3.2.1). One that asks and one that has memory are the same.
//!
//! | module | |
//! |---|---|
//! | [`asking`] | requests: announced, granted, answered, over |
//! | [`serving`] | those of others: done once, answered |
//! | [`copies`] | lines to two switches, and the first copy |
//!
//! A mirrored node (§3.3) has a line to each of two switches, and all that it sends goes over both. Each switch grants for
//! itself, and its grants are for its own line. So nothing hangs on both being in step: frames on one line may hold up
//! its copy for as long as they like. Who receives takes of each part of a message the copy that comes first.
//!
//! - A place of the table is free when both copies are through, so that no switch has more than X of a pair, and an id
//!   means one message on both lines.
//! - If the second copy is later than the first by a timer's time, then that line has lost the way to this node (its own
//!   line to that switch may be down, which nobody else sees), and it is asked over the other one from then on.
//! - A line that shows damage is out of use for good (§3.3).

mod asking;
mod copies;
mod serving;

use self::asking::{Announced, Awaited, Way};
use self::copies::Lines;
use self::serving::{Answer, Served, Serving};
use super::outbox::Outbox;
use crate::block::Block;
use crate::edm::demux::Memory;
use crate::edm::layout::{Control, Kind, MS, MST, Start};
use crate::edm::{Assembler, Event, Malformed, Message, Operation};
use std::collections::BTreeMap;
use unrack_protocol::edm::steps;

/// A node's parameters.
#[derive(Debug, Clone, Copy)]
pub struct HostConfig {
    pub node: u16,
    /// The most that a request allows of its answer: the scheduler's chunk, bytes.
    pub chunk: u16,
    /// X: messages of one destination that are announced and not yet granted, or not yet answered (§3.1.2). At most
    /// 256: their ids have eight bits.
    pub max_active: usize,
    /// Writes that wait for the same destination go under one notification of at most so many bytes.
    pub mega: Option<u16>,
    /// Cycles after which a read or read-modify-write ends with NULL (§3.3). It must be longer than anything takes in a
    /// rack that works.
    pub timeout: Option<u64>,
}

/// What an application asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Read { dst: u16, address: u64, bytes: u16 },
    Write { dst: u16, address: u64, data: Vec<u8> },
    Modify { dst: u16, address: u64, operation: Operation },
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// As [`Host::submit`] named it.
    pub ticket: u32,
    pub outcome: Outcome,
    /// The cycle in which the first block of the last chunk was with the application, and that of the last.
    pub first: u64,
    pub at: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// What was read, or what a read-modify-write answers.
    Answer(Vec<u8>),
    /// All of a write has left: `first` is the cycle of its last chunk's first block.
    Sent,
    /// Nothing came in time.
    Null,
}

/// A memory controller, and what tells when a write comes to it.
pub trait Store {
    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8>;
    /// `first` and `at` as in [`Completion`].
    fn write(&mut self, address: u64, data: &[u8], first: u64, at: u64);
}

/// The stack of one node.
#[derive(Debug, Clone)]
pub struct Host {
    config: HostConfig,
    lines: Vec<Line>,
    /// Lines that showed damage.
    out: Lines,
    tickets: u32,
    ways: BTreeMap<u16, Way>,
    /// The message state tables, by <destination, message id>.
    awaited: BTreeMap<(u16, u8), Awaited>,
    announced: BTreeMap<(u16, u8), Announced>,
    /// Answers of which a part is not yet granted.
    answers: BTreeMap<(u16, u8), Answer>,
    /// What a mirrored node did last.
    served: BTreeMap<Serving, Served>,
    completions: Vec<Completion>,
    strays: u64,
    duplicates: u64,
}

/// The end of a line.
#[derive(Debug, Clone, Default)]
struct Line {
    assembler: Assembler,
    /// The cycle in which the message under way began, and whose it is.
    began: u64,
    from: u16,
    outbox: Outbox,
}

impl Host {
    pub fn new(config: HostConfig) -> Host {
        Host::with_lines(config, 1)
    }

    /// With a line to each of two switches.
    ///
    /// # Panics
    /// Without a timeout, or with X above 64: an id must tell four uses of its place apart.
    pub fn mirrored(config: HostConfig) -> Host {
        assert!(config.timeout.is_some(), "a mirrored node needs a timeout");
        assert!(config.uses_bits() >= 2, "a mirrored node has an X of 64 at most");
        Host::with_lines(config, copies::MOST)
    }

    fn with_lines(config: HostConfig, lines: usize) -> Host {
        Host {
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

    /// An application's request, in cycle `now`; its number.
    pub fn submit(&mut self, now: u64, request: Request) -> u32 {
        let ticket = self.tickets;
        self.tickets += 1;
        let dst = request.dst();
        self.ways.entry(dst).or_default().waiting.push_back((ticket, request));
        self.admit(now, dst);
        ticket
    }

    /// What came to an end.
    pub fn completions(&mut self) -> std::vec::Drain<'_, Completion> {
        self.completions.drain(..)
    }

    /// The block that may go over a line in this cycle.
    pub fn offer(&self, now: u64, line: usize) -> Option<Block> {
        self.lines[line].outbox.offer(now)
    }

    /// It went.
    pub fn took(&mut self, now: u64, line: usize) {
        self.lines[line].outbox.took(now);
    }

    /// Whether what is now submitted for `dst` is announced at once: less than X are active.
    pub fn is_ready(&self, dst: u16) -> bool {
        self.ways.get(&dst).is_none_or(|way| way.is_ready(self.config.max_active))
    }

    /// Nothing waits to be sent or answered.
    pub fn is_idle(&self) -> bool {
        let nothing_waits = self.ways.values().all(|way| way.waiting.is_empty());
        let nothing_leaves = self.lines.iter().all(|line| line.outbox.is_empty());
        let nothing_is_unsent = self.announced.values().all(Announced::is_free);
        nothing_waits && self.awaited.is_empty() && nothing_is_unsent && nothing_leaves
    }

    /// What came that fits nothing here: late answers, grants of nothing.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Messages that the other line had brought before.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Whether what goes to `dst` goes over all lines of this node.
    pub fn is_mirrored_to(&self, dst: u16) -> bool {
        self.lines_to(dst) == Lines::first(copies::MOST)
    }

    pub fn assembler(&self, line: usize) -> &Assembler {
        &self.lines[line].assembler
    }

    /// What a line brought in this cycle.
    pub fn handle(&mut self, now: u64, line: usize, memory: Option<Memory>, store: &mut impl Store) {
        self.time_out(now);
        let Some(memory) = memory.filter(|_| !self.out.has(line)) else { return };
        let on = &mut self.lines[line];
        let event = match memory {
            Memory::Broken => on.assembler.broken().map(Err),
            Memory::Block(block) => {
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
                // One block on its own may come between those of a message.
                let began = if memory.is_of_type(MST) { now } else { self.lines[line].began };
                self.message((now, line), began, message, store);
            }
            Some(Ok(Event::Notification(_))) => self.strays += 1,
            Some(Err(why)) if self.lines.len() > 1 => self.damaged(now, line, why),
            Some(Err(_)) | None => {}
        }
    }

    /// A line that brings no signal, or something damaged (§3.3): nothing is taken from it, or begun on it, any more.
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
            // Another's line: it brings nothing more of that node.
            Malformed::Marked => self.give_up(now, self.lines[line].from, line),
            _ => self.disable(now, line),
        }
    }

    /// Lines over which a node is asked.
    fn lines_to(&self, node: u16) -> Lines {
        let lost = self.ways.get(&node).map_or(Lines::default(), |way| way.lost);
        Lines::first(self.lines.len()).without(self.out).without(lost)
    }

    fn is_lost(&self, node: u16, line: usize) -> bool {
        self.ways.get(&node).is_some_and(|way| way.lost.has(line))
    }

    /// §3.2.1: parse, add to the grant queue, read it, make data.
    fn grant(&mut self, now: u64, line: usize, grant: Control) {
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

    /// A grant that is not used leaves a circuit at the switch which the next data would take. With another line, rather
    /// no data goes over this one.
    fn stray_grant(&mut self, now: u64, line: usize) {
        self.strays += 1;
        if self.lines.len() > 1 {
            self.disable(now, line);
        }
    }

    fn send(&mut self, line: usize, from: u64, message: Message) {
        let mut blocks = Vec::new();
        message.blocks(&mut blocks);
        self.lines[line].outbox.data(from, blocks);
    }
}

impl HostConfig {
    /// Bits of an id that name a place; the others count its uses.
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
    pub fn dst(&self) -> u16 {
        match self {
            Request::Read { dst, .. } | Request::Write { dst, .. } | Request::Modify { dst, .. } => *dst,
        }
    }
}
