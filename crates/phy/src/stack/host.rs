//! The stack of a node (§3.2.1). One that asks and one that has memory are the same.

use super::outbox::Outbox;
use crate::block::Block;
use crate::edm::demux::Memory;
use crate::edm::layout::{Control, Kind, MS, MST, N};
use crate::edm::{Assembler, Body, Event, Message, Operation};
use std::collections::{BTreeMap, VecDeque};
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
    /// Cycles after which a read or read-modify-write ends with NULL (§3.3).
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

/// A read that waits for its answer.
#[derive(Debug, Clone)]
struct Awaited {
    ticket: u32,
    bytes: usize,
    data: Vec<u8>,
    deadline: Option<u64>,
}

/// A write, or several under one notification: what is left to send.
#[derive(Debug, Clone)]
struct Announced {
    parts: VecDeque<(u32, u64, Vec<u8>)>,
}

/// The stack of one node.
#[derive(Debug, Clone)]
pub struct Host {
    config: HostConfig,
    assembler: Assembler,
    /// The cycle in which the message under way began.
    began: u64,
    tickets: u32,
    /// By destination: what is active, and what waits for that to end.
    ways: BTreeMap<u16, Way>,
    /// The message state tables, by <destination, message id>.
    awaited: BTreeMap<(u16, u8), Awaited>,
    announced: BTreeMap<(u16, u8), Announced>,
    /// Answers of which a part is not yet granted.
    answers: BTreeMap<(u16, u8), VecDeque<u8>>,
    outbox: Outbox,
    completions: Vec<Completion>,
    /// What came that fits nothing here: late answers, grants of nothing.
    strays: u64,
}

#[derive(Debug, Clone, Default)]
struct Way {
    places: Vec<Place>,
    waiting: VecDeque<(u32, Request)>,
}

/// One of X in the table of what is active.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    is_used: bool,
    /// How often, but for the last use.
    uses: u8,
}

impl Host {
    pub fn new(config: HostConfig) -> Host {
        Host {
            config,
            assembler: Assembler::default(),
            began: 0,
            tickets: 0,
            ways: BTreeMap::new(),
            awaited: BTreeMap::new(),
            announced: BTreeMap::new(),
            answers: BTreeMap::new(),
            outbox: Outbox::default(),
            completions: Vec::new(),
            strays: 0,
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

    /// The block that may go in this cycle.
    pub fn offer(&self, now: u64) -> Option<Block> {
        self.outbox.offer(now)
    }

    /// It went.
    pub fn took(&mut self, now: u64) {
        self.outbox.took(now);
    }

    /// Whether what is now submitted for `dst` is announced at once: less than X are active.
    pub fn is_ready(&self, dst: u16) -> bool {
        let Some(way) = self.ways.get(&dst) else { return true };
        way.waiting.is_empty()
            && way.places.iter().filter(|place| place.is_used).count() < self.config.max_active
    }

    /// Nothing waits to be sent or answered.
    pub fn is_idle(&self) -> bool {
        let nothing_waits = self.ways.values().all(|way| way.waiting.is_empty());
        nothing_waits && self.awaited.is_empty() && self.announced.is_empty() && self.outbox.is_empty()
    }

    pub fn strays(&self) -> u64 {
        self.strays
    }

    pub fn assembler(&self) -> &Assembler {
        &self.assembler
    }

    /// What the line brought in this cycle.
    pub fn handle(&mut self, now: u64, memory: Option<Memory>, store: &mut impl Store) {
        self.time_out(now);
        let event = match memory {
            None => return,
            Some(Memory::Broken) => {
                self.assembler.broken();
                return;
            }
            Some(Memory::Block(block)) => {
                if block.block_type() == Some(MS) {
                    self.began = now;
                }
                self.assembler.handle(block)
            }
        };
        match event {
            Some(Ok(Event::Grant(grant))) => self.grant(now, grant),
            Some(Ok(Event::Message(message))) => {
                // One block on its own may come between those of a message.
                let is_alone = memory.is_some_and(|memory| memory.is_of_type(MST));
                self.message(now, if is_alone { now } else { self.began }, message, store);
            }
            Some(Ok(Event::Notification(_))) => self.strays += 1,
            Some(Err(_)) | None => {}
        }
    }

    /// Lets go what X allows.
    fn admit(&mut self, now: u64, dst: u16) {
        while self.ways.get(&dst).is_some_and(|way| !way.waiting.is_empty()) {
            let Some(id) = self.new_id(dst) else { return };
            let waiting = &mut self.ways.get_mut(&dst).expect("it waits").waiting;
            let (ticket, request) = waiting.pop_front().expect("it waits");
            let from = now + steps::MAKE_NOTIFICATION;
            match request {
                Request::Write { address, data, .. } => {
                    self.announce(from, (dst, id), (ticket, address, data))
                }
                Request::Read { address, bytes, .. } => {
                    let body = Body::Read { address, bytes };
                    self.ask(from, Message { node: dst, id, body }, ticket, usize::from(bytes), now);
                }
                Request::Modify { address, operation, .. } => {
                    let bytes = Operation::response_bytes(operation.opcode()).expect("one of ours");
                    let body = Body::Modify { address, operation };
                    self.ask(from, Message { node: dst, id, body }, ticket, usize::from(bytes), now);
                }
            }
        }
    }

    /// The id of the first place that is free: its number in the low bits, above it how often it was used, so that a
    /// late answer is not taken for another. `None`: X are active.
    fn new_id(&mut self, dst: u16) -> Option<u8> {
        let places = &mut self.ways.entry(dst).or_default().places;
        places.resize(self.config.max_active, Place::default());
        let at = places.iter().position(|place| !place.is_used)?;
        places[at].is_used = true;
        Some(places[at].uses << place_bits(&self.config) | at as u8)
    }

    fn announce(&mut self, from: u64, key: (u16, u8), first: (u32, u64, Vec<u8>)) {
        let mut bytes = first.2.len();
        let mut parts = VecDeque::from([first]);
        let waiting = &mut self.ways.get_mut(&key.0).expect("it was there").waiting;
        let most = self.config.mega.map_or(0, usize::from);
        while let Some((_, Request::Write { data, .. })) = waiting.front()
            && bytes + data.len() <= most
            && let Some((ticket, Request::Write { address, data, .. })) = waiting.pop_front()
        {
            bytes += data.len();
            parts.push_back((ticket, address, data));
        }
        let size = u16::try_from(bytes).expect("a message has at most 65,535 bytes");
        let notification = Control { kind: Kind::Write, node: key.0, id: key.1, size };
        self.outbox.control(from, [notification.block(N)]);
        self.announced.insert(key, Announced { parts });
    }

    fn ask(&mut self, from: u64, request: Message, ticket: u32, bytes: usize, now: u64) {
        let deadline = self.config.timeout.map(|timeout| now + timeout);
        let key = (request.node, request.id);
        self.awaited.insert(key, Awaited { ticket, bytes, data: Vec::new(), deadline });
        let mut blocks = Vec::new();
        request.blocks(&mut blocks);
        self.outbox.control(from, blocks);
    }

    /// §3.2.1: parse, add to the grant queue, read it, make data.
    fn grant(&mut self, now: u64, grant: Control) {
        let from = now + steps::PARSE_GRANT + steps::READ_GRANT_QUEUE + steps::MAKE_DATA;
        let key = (grant.node, grant.id);
        match grant.kind {
            Kind::Write => self.send_write(now, from, key, usize::from(grant.size)),
            _ => self.send_answer(from, key, usize::from(grant.size)),
        }
    }

    fn send_write(&mut self, now: u64, from: u64, key: (u16, u8), mut granted: usize) {
        let Some(announced) = self.announced.get_mut(&key) else {
            self.strays += 1;
            return;
        };
        let mut messages = Vec::new();
        while granted > 0
            && let Some((ticket, address, mut data)) = announced.parts.pop_front()
        {
            let rest = data.split_off(granted.min(data.len()));
            granted -= data.len();
            if rest.is_empty() {
                let outcome = Outcome::Sent;
                self.completions.push(Completion { ticket, outcome, first: from, at: from });
            } else {
                announced.parts.push_front((ticket, address.wrapping_add(data.len() as u64), rest));
            }
            let last = announced.parts.front().is_none_or(|part| part.0 != ticket);
            messages.push(Body::Write { address, last, data });
        }
        let is_over = announced.parts.is_empty();
        for body in messages {
            self.send(from, Message { node: self.config.node, id: key.1, body });
        }
        if is_over {
            self.announced.remove(&key);
            self.release(now, key);
        }
    }

    fn send_answer(&mut self, from: u64, key: (u16, u8), granted: usize) {
        let Some(left) = self.answers.get_mut(&key) else {
            self.strays += 1;
            return;
        };
        let data: Vec<u8> = left.drain(..granted.min(left.len())).collect();
        let last = left.is_empty();
        if last {
            self.answers.remove(&key);
        }
        let body = Body::Response { last, data };
        self.send(from, Message { node: self.config.node, id: key.1, body });
    }

    fn send(&mut self, from: u64, message: Message) {
        let mut blocks = Vec::new();
        message.blocks(&mut blocks);
        self.outbox.data(from, blocks);
    }

    fn message(&mut self, now: u64, began: u64, message: Message, store: &mut impl Store) {
        let key = (message.node, message.id);
        let (first, at) = (began + steps::RECEIVE_DATA, now + steps::RECEIVE_DATA);
        match message.body {
            Body::Read { address, bytes } => {
                let data = store.read(address, usize::from(bytes));
                self.answer(now, key, data);
            }
            Body::Modify { address, operation } => {
                let word = store.read(address, 8).try_into().map_or(0, u64::from_le_bytes);
                let (word, answer) = operation.apply(word);
                store.write(address, &word.to_le_bytes(), at, at);
                self.answer(now, key, answer);
            }
            Body::Write { address, data, .. } => store.write(address, &data, first, at),
            Body::Response { last, data } => self.answered(now, key, last, &data, (first, at)),
        }
    }

    /// The request is the grant of the first chunk (§3.1.1 (4)).
    fn answer(&mut self, now: u64, key: (u16, u8), data: Vec<u8>) {
        let from = now + steps::RECEIVE_REQUEST + steps::READ_GRANT_QUEUE + steps::MAKE_DATA;
        self.answers.insert(key, data.into());
        self.send_answer(from, key, usize::from(self.config.chunk));
    }

    fn answered(&mut self, now: u64, key: (u16, u8), last: bool, data: &[u8], (first, at): (u64, u64)) {
        let Some(awaited) = self.awaited.get_mut(&key) else {
            self.strays += 1;
            return;
        };
        awaited.data.extend(data);
        if !last {
            return;
        }
        let Awaited { ticket, bytes, data, .. } = self.awaited.remove(&key).expect("it was there");
        let outcome = if data.len() == bytes { Outcome::Answer(data) } else { Outcome::Null };
        self.completions.push(Completion { ticket, outcome, first, at });
        self.release(now, key);
    }

    fn time_out(&mut self, now: u64) {
        if self.config.timeout.is_none() {
            return;
        }
        let late = |awaited: &Awaited| awaited.deadline.is_some_and(|deadline| deadline <= now);
        while let Some(key) = self.awaited.iter().find(|(_, awaited)| late(awaited)).map(|(key, _)| *key) {
            let ticket = self.awaited.remove(&key).expect("it was there").ticket;
            self.completions.push(Completion { ticket, outcome: Outcome::Null, first: now, at: now });
            self.release(now, key);
        }
    }

    fn release(&mut self, now: u64, (dst, id): (u16, u8)) {
        let at = usize::from(id) & ((1 << place_bits(&self.config)) - 1);
        let place = &mut self.ways.get_mut(&dst).expect("it was active").places[at];
        *place = Place { is_used: false, uses: place.uses.wrapping_add(1) };
        self.admit(now, dst);
    }
}

/// Bits of an id that name a place.
fn place_bits(config: &HostConfig) -> u32 {
    config.max_active.next_power_of_two().trailing_zeros()
}

impl Request {
    pub fn dst(&self) -> u16 {
        match self {
            Request::Read { dst, .. } | Request::Write { dst, .. } | Request::Modify { dst, .. } => *dst,
        }
    }
}
