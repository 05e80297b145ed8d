//! The stack of a switch (§3.2.2): what a port brings is classified by its type; notifications and requests wait for
//! the scheduler; data goes over the circuit that its grant set up.

use super::outbox::Outbox;
use crate::block::Block;
use crate::edm::demux::Memory;
use crate::edm::layout::{Control, G, Kind, MS, MST, MT, Short, Start};
use crate::edm::message::{body_length, data_blocks};
use crate::edm::{Assembler, Body, Event, Message, Operation};
use std::collections::VecDeque;
use unrack_protocol::edm::{Demand, Grant, Policy, Scheduler, SchedulerConfig, scheduler, steps};
use unrack_units::Time;

/// A switch's parameters.
#[derive(Debug, Clone, Copy)]
pub struct SwitchConfig {
    pub ports: u16,
    /// The most that one grant allows, bytes.
    pub chunk: u16,
    pub policy: Policy,
    /// Period of the PCS clock, which the scheduler has too: on the testbed both are on one FPGA (§4.1).
    pub cycle: Time,
}

/// What a port brought that it should not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Violations {
    /// Data that no grant allowed, or more than it allowed.
    pub ungranted: u64,
    /// Notifications and requests to nobody, to oneself, or of no size; grants.
    pub senseless: u64,
}

/// A circuit that was granted and on which data is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    pub dst: u16,
    pub bytes: u32,
}

#[derive(Debug, Clone, Default)]
struct Port {
    assembler: Assembler,
    /// Granted and not yet used up, in the order of their grants.
    circuits: VecDeque<Circuit>,
    /// The data message under way here: where it goes, and how many blocks may come before its end.
    passing: Option<(u16, usize)>,
    outbox: Outbox,
    /// It brought something damaged (§3.3): nothing that it brings is taken any more.
    disabled: bool,
}

/// What waits in the scheduler under a number.
#[derive(Debug, Clone)]
struct Waiting {
    id: u8,
    kind: Kind,
    /// The request that is the first grant.
    request: Option<Message>,
}

/// The stack of one switch.
#[derive(Debug, Clone)]
pub struct Switch {
    config: SwitchConfig,
    ports: Vec<Port>,
    scheduler: Scheduler,
    /// Demands on their way to the head of the scheduler's list.
    arriving: VecDeque<(u64, Demand)>,
    waiting: Vec<Option<Waiting>>,
    unused: Vec<u32>,
    grants: Vec<Grant>,
    violations: Violations,
}

/// Blocks of a chunk beside those of its bytes: start or end, and a write's address.
const FRAMING_BLOCKS: u64 = 2;

impl Switch {
    pub fn new(config: SwitchConfig) -> Switch {
        let scheduler = Scheduler::new(SchedulerConfig {
            ports: u32::from(config.ports),
            chunk: u32::from(config.chunk),
            policy: config.policy,
            pairs_in_order: true,
            iteration: config.cycle * scheduler::ITERATION_CYCLES,
            block: config.cycle,
            framing: config.cycle * FRAMING_BLOCKS,
            control: config.cycle,
        });
        Switch {
            config,
            ports: vec![Port::default(); usize::from(config.ports)],
            scheduler,
            arriving: VecDeque::new(),
            waiting: Vec::new(),
            unused: Vec::new(),
            grants: Vec::new(),
            violations: Violations::default(),
        }
    }

    /// The block that may leave `port` in this cycle.
    pub fn offer(&self, now: u64, port: u16) -> Option<Block> {
        self.ports[usize::from(port)].outbox.offer(now)
    }

    /// It left.
    pub fn took(&mut self, now: u64, port: u16) {
        self.ports[usize::from(port)].outbox.took(now);
    }

    pub fn violations(&self) -> Violations {
        self.violations
    }

    pub fn circuits(&self, port: u16) -> impl Iterator<Item = Circuit> {
        self.ports[usize::from(port)].circuits.iter().copied()
    }

    /// Blocks of data that wait to leave `port`.
    pub fn queued(&self, port: u16) -> usize {
        self.ports[usize::from(port)].outbox.queued()
    }

    /// What `port` brought in this cycle.
    pub fn handle(&mut self, now: u64, port: u16, memory: Memory) {
        let at = usize::from(port);
        if self.ports[at].disabled {
            return;
        }
        let Memory::Block(block) = memory else {
            return self.disable(port);
        };
        // What passes is checked too: whose link is damaged, only its first receiver can tell.
        let event = self.ports[at].assembler.handle(block);
        match self.circuit(port, block) {
            Route::Circuit(dst) => {
                let from = now + steps::CLASSIFY + steps::FORWARD;
                self.ports[usize::from(dst)].outbox.data(u32::from(port), from, block);
            }
            Route::Here => {
                if let Some(Ok(event)) = &event {
                    self.event(now, port, event);
                }
            }
            Route::Drop => {}
        }
        if let Some(Err(_)) = event {
            self.disable(port);
        }
    }

    /// §3.3: a link that shows damage is taken out of use. What was under way from it ends as no message.
    pub fn disable(&mut self, port: u16) {
        self.ports[usize::from(port)].disabled = true;
        self.abandon(port);
    }

    pub fn is_disabled(&self, port: u16) -> bool {
        self.ports[usize::from(port)].disabled
    }

    /// Once a cycle, after all ports: demands become grants.
    pub fn tick(&mut self, now: u64) {
        let time = self.config.cycle * now;
        while let Some((at, demand)) = self.arriving.front().copied()
            && at <= now
        {
            self.arriving.pop_front();
            self.scheduler.handle_demand(time, demand);
        }
        if self.scheduler.poll_at().is_none_or(|at| at > time) {
            return;
        }
        let mut grants = std::mem::take(&mut self.grants);
        self.scheduler.run(time, &mut grants);
        grants.drain(..).for_each(|grant| self.grant(grant));
        self.grants = grants;
    }

    /// Where a block goes: data over its circuit, the rest to the notification queue.
    fn circuit(&mut self, port: u16, block: Block) -> Route {
        let at = usize::from(port);
        let starts = match block.block_type() {
            Some(MS) => Start::parse(block.payload).and_then(|start| match start.kind {
                Kind::Write | Kind::Response => Some((start.size, body_length(&start).map(data_blocks))),
                _ => None,
            }),
            Some(MST) => match Short::parse(block.payload) {
                Some(Short::Response { length, .. }) => Some((u16::from(length), None)),
                _ => return Route::Here, // on its own: also between the blocks of a message
            },
            _ => return self.pass_on(port, block),
        };
        self.abandon(port);
        let Some((bytes, data_blocks)) = starts else { return Route::Here };
        let Some(circuit) = self.ports[at].circuits.front_mut().filter(|way| way.bytes >= u32::from(bytes))
        else {
            self.violations.ungranted += 1;
            return Route::Drop;
        };
        let dst = circuit.dst;
        circuit.bytes -= u32::from(bytes);
        if circuit.bytes == 0 {
            self.ports[at].circuits.pop_front();
        }
        self.ports[at].passing = data_blocks.map(|blocks| (dst, blocks));
        Route::Circuit(dst)
    }

    /// Data, or the end, of what is under way.
    fn pass_on(&mut self, port: u16, block: Block) -> Route {
        let passing = &mut self.ports[usize::from(port)].passing;
        let Some((dst, left)) = passing else { return Route::Here };
        let dst = *dst;
        if block.block_type() == Some(MT) {
            *passing = None;
            return Route::Circuit(dst);
        }
        if !block.is_data() {
            return Route::Here;
        }
        if *left == 0 {
            self.abandon(port);
            return Route::Drop;
        }
        *left -= 1;
        Route::Circuit(dst)
    }

    /// The message under way at this port will not end.
    fn abandon(&mut self, port: u16) {
        if let Some((dst, _)) = self.ports[usize::from(port)].passing.take() {
            self.ports[usize::from(dst)].outbox.abandon(u32::from(port));
        }
    }

    fn event(&mut self, now: u64, port: u16, event: &Event) {
        let demand = match *event {
            Event::Notification(Control { kind: Kind::Write, node, id, size }) => {
                Some((port, node, u32::from(size), Waiting { id, kind: Kind::Write, request: None }))
            }
            Event::Message(ref message) => answer_bytes(message).map(|bytes| {
                let waiting = Waiting { id: message.id, kind: Kind::Response, request: None };
                let dst = message.node;
                let request = Some(Message { node: port, ..message.clone() });
                (dst, port, bytes, Waiting { request, ..waiting })
            }),
            _ => None,
        };
        let is_one =
            |(src, dst, ..): &(u16, u16, u32, Waiting)| src != dst && (*src).max(*dst) < self.config.ports;
        let Some((src, dst, bytes, waiting)) = demand.filter(is_one) else {
            self.violations.senseless += 1;
            return;
        };
        let request = waiting.request.as_ref().map_or(0, |request| {
            let mut blocks = Vec::new();
            request.blocks(&mut blocks);
            blocks.len() as u64
        });
        let token = self.keep(waiting);
        let (src, dst, request) = (u32::from(src), u32::from(dst), self.config.cycle * request);
        // §3.1.2: one cycle to the head of the list.
        self.arriving.push_back((now + steps::CLASSIFY + 1, Demand { src, dst, bytes, token, request }));
    }

    fn keep(&mut self, waiting: Waiting) -> u32 {
        let token = self.unused.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        self.waiting[token as usize] = Some(waiting);
        token
    }

    /// A circuit, and a /G/ block or the request that stands for it (§3.1.1 (4)).
    fn grant(&mut self, grant: Grant) {
        let from = grant.at.as_ps().div_ceil(self.config.cycle.as_ps()) + steps::MAKE_GRANT;
        let kept = self.waiting[grant.token as usize].as_mut().expect("granted until its last");
        let (id, kind, request) = (kept.id, kept.kind, kept.request.take());
        if grant.last {
            self.waiting[grant.token as usize] = None;
            self.unused.push(grant.token);
        }
        let (dst, size) = (grant.dst as u16, grant.bytes as u16);
        let port = &mut self.ports[grant.src as usize];
        port.circuits.push_back(Circuit { dst, bytes: grant.bytes });
        let mut blocks = Vec::new();
        match request {
            Some(request) => request.blocks(&mut blocks),
            None => blocks.push(Control { kind, node: dst, id, size }.block(G)),
        }
        port.outbox.control(from, blocks);
    }
}

enum Route {
    Circuit(u16),
    Here,
    Drop,
}

/// Bytes of the answer to a request; `None` if it is none.
fn answer_bytes(message: &Message) -> Option<u32> {
    match &message.body {
        Body::Read { bytes, .. } => Some(u32::from(*bytes)),
        Body::Modify { operation, .. } => Operation::response_bytes(operation.opcode()).map(u32::from),
        Body::Write { .. } | Body::Response { .. } => None,
    }
}
