//! Network stack of an EDM switch (§3.2.2). The switch classifies the blocks that arrive at a port by their type. Notifications and
//! requests wait for the scheduler. Data crosses the switch through a circuit, which is the path from a source port to a destination port
//! that a grant has set up.
//!
//! The behaviour matches that of the hardware (`rtl/edm/switch.sv`). All data from one port crosses the switch in one queue. A port sends
//! the data of the other ports in turn, one message at a time. One demand enters the scheduler per cycle, from each port in turn, but no
//! demand enters in the last cycle of an iteration.

use super::outbox::{Queue, QueueOrder, due};
use crate::block::Block;
use crate::edm::check::Check;
use crate::edm::demux::MemoryBlock;
use crate::edm::layout::{ControlFields, G, Kind, MS, MST, MT, Short, StartFields};
use crate::edm::mux::opens_message;
use crate::edm::{Assembler, Body, Event, MemoryMessage, RmwOperation};
use std::collections::VecDeque;
use unrack_protocol::edm::{Demand, Grant, GrantPolicy, Scheduler, SchedulerConfig, scheduler, steps};
use unrack_units::Time;

/// Parameters of a switch.
#[derive(Debug, Clone, Copy)]
pub struct SwitchConfig {
    pub ports: u16,
    /// Maximum number of bytes that one grant allows.
    pub chunk: u16,
    pub policy: GrantPolicy,
    /// Period of the PCS clock. The scheduler has the same clock, because PCS and scheduler are on one FPGA in the testbed of the paper
    /// (§4.1).
    pub cycle: Time,
    /// Whether the scheduler accounts for the time that control blocks take on a link (`docs/decisions/0004-edm-at-high-load.md`). The
    /// hardware does not.
    pub counts_control: bool,
}

/// Numbers of messages and blocks that arrived at ports although a correct node does not send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Violations {
    /// Blocks of data without a grant, or beyond the granted number of bytes.
    pub ungranted: u64,
    /// Notifications and requests that are addressed to no existing node or to their own source, or that have size 0. All grants count too,
    /// because only a switch may send them.
    pub senseless: u64,
    /// Messages whose sender stopped sending before the end of the message.
    pub silent: u64,
}

/// A circuit that a grant has set up and over which the switch still expects data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    pub dst: u16,
    pub bytes: u32,
}

/// A message of which only a part has crossed its circuit so far.
#[derive(Debug, Clone, Copy)]
struct PassingMessage {
    dst: u16,
    /// Cycle of its last block.
    heard: u64,
    /// CRC over the part of the message that has crossed so far.
    check: Check,
}

#[derive(Debug, Clone, Default)]
struct Port {
    assembler: Assembler,
    /// Circuits from this port over which data is still expected, in the order of their grants.
    circuits: VecDeque<Circuit>,
    /// Data message that is currently crossing.
    passing: Option<PassingMessage>,
    /// Data blocks received at this port. Each entry has the first cycle in which the block may leave, the block's destination port, and
    /// the block.
    forward: VecDeque<(u64, u16, Block)>,
    /// Cycle in which a block last left the queue `forward`. At most one may leave per cycle.
    gave: Option<u64>,
    /// Demands received at this port, each with the first cycle in which the scheduler may take it.
    demands: VecDeque<(u64, Demand)>,
    /// Grants and requests that wait to be sent through this port, each with the first cycle in which it may leave.
    control: VecDeque<(u64, Block)>,
    order: QueueOrder,
    /// Source port of the data that last left through this port. The next field is whether a message from that source port is still open
    /// here.
    from: usize,
    is_within: bool,
    /// Whether the link of this port has shown damage (§3.3). If so, the switch ignores everything that arrives over it.
    disabled: bool,
}

/// A message that waits in the scheduler for grants.
#[derive(Debug, Clone)]
struct WaitingMessage {
    id: u8,
    kind: Kind,
    /// If the message is the answer to a request, this request, which the switch forwards as the first grant of the answer.
    request: Option<MemoryMessage>,
}

/// Network stack of one switch.
#[derive(Debug, Clone)]
pub struct SwitchStack {
    config: SwitchConfig,
    ports: Vec<Port>,
    scheduler: Scheduler,
    /// Demand that enters the scheduler in the next cycle. The next field is the port from which the last demand came.
    entering: Option<Demand>,
    turn: usize,
    /// Last cycle of the scheduler's latest iteration. No demand enters the scheduler in this cycle.
    ends: Option<u64>,
    waiting: Vec<Option<WaitingMessage>>,
    unused: Vec<u32>,
    grants: Vec<Grant>,
    violations: Violations,
    /// Number of cycles without a block after which the sender of an open message counts as silent; see [`SwitchStack::watch`].
    silence: Option<u64>,
}

/// Number of blocks of a chunk in addition to the blocks of its data: one for the start and end of the message, and one for the address of
/// a write.
const FRAMING_BLOCKS: u64 = 2;

impl SwitchStack {
    /// Returns an idle switch.
    pub fn new(config: SwitchConfig) -> SwitchStack {
        let scheduler = Scheduler::new(SchedulerConfig {
            ports: u32::from(config.ports),
            chunk: u32::from(config.chunk),
            policy: config.policy,
            pairs_in_order: true,
            iteration: config.cycle * scheduler::ITERATION_CYCLES,
            block: config.cycle,
            framing: config.cycle * FRAMING_BLOCKS,
            control: if config.counts_control { config.cycle } else { Time::ZERO },
        });
        SwitchStack {
            config,
            ports: vec![Port::default(); usize::from(config.ports)],
            scheduler,
            entering: None,
            turn: 0,
            ends: None,
            waiting: Vec::new(),
            unused: Vec::new(),
            grants: Vec::new(),
            violations: Violations::default(),
            silence: None,
        }
    }

    /// Makes the switch watch for silent senders: from now on, it ends a message if the message's sender sends no block of it for more than
    /// `silence` cycles. The switch also marks all messages that it ends, so that their receivers do not blame their own links. A sender
    /// that works correctly is silent for at most one cycle, because at most a frame takes turns with the message. (The hardware neither
    /// watches nor marks.)
    pub fn watch(&mut self, silence: u64) {
        self.silence = Some(silence);
    }

    /// Returns the block that may leave `port` in this cycle.
    pub fn offer(&self, now: u64, port: u16) -> Option<Block> {
        self.leaving(now, port).map(|(block, ..)| block)
    }

    /// Records that the offered block has left.
    pub fn took(&mut self, now: u64, port: u16) {
        let (block, queue, from) = self.leaving(now, port).expect("only what was offered is taken");
        let leaves = &mut self.ports[usize::from(port)];
        leaves.order.went(block, queue);
        if queue == Queue::Control {
            leaves.control.pop_front();
            return;
        }
        leaves.from = from;
        leaves.is_within = opens_message(block, leaves.is_within);
        self.ports[from].forward.pop_front();
        self.ports[from].gave = Some(now);
    }

    /// Returns the block that may leave through `port` in this cycle, and the queue in which it waits. For data, the third value is the
    /// port at which the block arrived.
    fn leaving(&self, now: u64, port: u16) -> Option<(Block, Queue, usize)> {
        let leaves = &self.ports[usize::from(port)];
        let head = |from: usize| {
            let head = self.ports[from].forward.front().filter(|_| self.ports[from].gave != Some(now));
            head.filter(|(due, dst, _)| *due <= now && *dst == port).map(|(.., block)| (from, *block))
        };
        let ports = self.ports.len();
        let mut turns = (leaves.from + 1..=leaves.from + ports).map(|from| from % ports);
        let data = if leaves.is_within { head(leaves.from) } else { turns.find_map(head) };
        let (block, queue) = leaves.order.choose(due(&leaves.control, now), data.map(|(_, block)| block))?;
        Some((block, queue, data.map_or(leaves.from, |(from, _)| from)))
    }

    /// Returns the numbers of messages and blocks that arrived although correct nodes do not send them.
    pub fn violations(&self) -> Violations {
        self.violations
    }

    /// Returns the circuits from a source port over which the switch still expects data.
    pub fn circuits(&self, port: u16) -> impl Iterator<Item = Circuit> {
        self.ports[usize::from(port)].circuits.iter().copied()
    }

    /// Returns the number of data blocks that wait to leave through `port`.
    pub fn queued(&self, port: u16) -> usize {
        self.ports.iter().flat_map(|from| &from.forward).filter(|(_, dst, _)| *dst == port).count()
    }

    /// Handles a memory block that arrives at `port` in this cycle.
    pub fn handle(&mut self, now: u64, port: u16, memory: MemoryBlock) {
        let at = usize::from(port);
        if self.ports[at].disabled {
            return;
        }
        let MemoryBlock::Block(block) = memory else {
            return self.disable(now, port);
        };
        // The switch also checks data that only crosses it, because only the first receiver of a damaged block can determine whose link is
        // damaged.
        match self.ports[at].assembler.handle(block) {
            Some(Err(_)) => self.disable(now, port),
            event => {
                if let Some(dst) = self.circuit(now, port, block) {
                    self.forward(now, port, dst, block);
                } else if let Some(Ok(event)) = &event {
                    self.event(now, port, event);
                }
            }
        }
    }

    /// Stops the use of a port, because the port's link shows damage (§3.3). If a message from this port is crossing the switch, the switch
    /// ends it as an invalid message.
    pub fn disable(&mut self, now: u64, port: u16) {
        self.ports[usize::from(port)].disabled = true;
        self.abandon(now, port);
    }

    /// Returns whether a port is out of use.
    pub fn is_disabled(&self, port: u16) -> bool {
        self.ports[usize::from(port)].disabled
    }

    /// Ends a cycle, after the caller has handled all ports: the scheduler takes demands and issues grants.
    pub fn tick(&mut self, now: u64) {
        self.end_silent(now);
        let time = self.config.cycle * now;
        if let Some(demand) = self.entering.take() {
            self.scheduler.handle_demand(time, demand);
        }
        self.match_ports(now, time);
        if self.ends != Some(now) {
            self.enter(now);
        }
    }

    fn end_silent(&mut self, now: u64) {
        let Some(silence) = self.silence else { return };
        for port in 0..self.config.ports {
            if self.ports[usize::from(port)].passing.is_some_and(|passing| now - passing.heard > silence) {
                self.violations.silent += 1;
                self.abandon(now, port);
            }
        }
    }

    fn match_ports(&mut self, now: u64, time: Time) {
        if self.scheduler.poll_at().is_none_or(|at| at > time) {
            return;
        }
        let mut grants = std::mem::take(&mut self.grants);
        self.scheduler.run(time, &mut grants);
        if !grants.is_empty() {
            self.ends = Some(now + scheduler::ITERATION_CYCLES - 1);
        }
        grants.drain(..).for_each(|grant| self.grant(grant));
        self.grants = grants;
    }

    /// Chooses the demand that enters the scheduler in the next cycle.
    fn enter(&mut self, now: u64) {
        let ports = self.ports.len();
        let mut turns = (self.turn + 1..=self.turn + ports).map(|port| port % ports);
        let is_due = |port: &usize| self.ports[*port].demands.front().is_some_and(|(due, _)| *due <= now);
        if let Some(port) = turns.find(is_due) {
            self.turn = port;
            self.entering = self.ports[port].demands.pop_front().map(|(_, demand)| demand);
        }
    }

    /// Returns the destination port of a block, or `None` if the block is not data or has no circuit.
    fn circuit(&mut self, now: u64, port: u16, block: Block) -> Option<u16> {
        let at = usize::from(port);
        let bytes = match block.block_type() {
            Some(MS) => StartFields::parse(block.payload)
                .and_then(|start| matches!(start.kind, Kind::Write | Kind::Response).then_some(start.size))?,
            Some(MST) => match Short::parse(block.payload)? {
                Short::Response { length, .. } => u16::from(length),
                Short::Read { .. } => return None, // on its own: also between the blocks of a message
            },
            Some(MT) => return self.ports[at].passing.take().map(|passing| passing.dst),
            None => {
                let passing = self.ports[at].passing.as_mut()?;
                (passing.heard, passing.check) = (now, passing.check.block(block.payload));
                return Some(passing.dst);
            }
            Some(_) => return None,
        };
        if self.ports[at].passing.is_some() {
            self.violations.ungranted += 1;
            self.abandon(now, port);
            return None;
        }
        let granted = self.ports[at].circuits.front_mut().filter(|way| way.bytes >= u32::from(bytes));
        let Some(circuit) = granted else {
            self.violations.ungranted += 1;
            return None;
        };
        let dst = circuit.dst;
        circuit.bytes -= u32::from(bytes);
        if circuit.bytes == 0 {
            self.ports[at].circuits.pop_front();
        }
        let passing = || PassingMessage { dst, heard: now, check: Check::START.block(block.payload) };
        self.ports[at].passing = (block.block_type() == Some(MS)).then(passing);
        Some(dst)
    }

    fn forward(&mut self, now: u64, port: u16, dst: u16, block: Block) {
        let from = now + steps::CLASSIFY + steps::FORWARD;
        self.ports[usize::from(port)].forward.push_back((from, dst, block));
    }

    /// Ends the message from this port that is crossing the switch. The switch sends an end with an invalid check, so that the receiver
    /// rejects the message and no other message has to wait behind it.
    fn abandon(&mut self, now: u64, port: u16) {
        if let Some(PassingMessage { dst, check, .. }) = self.ports[usize::from(port)].passing.take() {
            let end = u64::from(MT);
            let end = if self.silence.is_some() { check.mark(end) } else { end };
            self.forward(now, port, dst, Block::control(end));
        }
    }

    fn event(&mut self, now: u64, port: u16, event: &Event) {
        let demand = match *event {
            Event::Notification(ControlFields { kind: Kind::Write, node, id, size }) => {
                Some((port, node, u32::from(size), WaitingMessage { id, kind: Kind::Write, request: None }))
            }
            Event::Message(ref message) => answer_bytes(message).map(|bytes| {
                let waiting = WaitingMessage { id: message.id, kind: Kind::Response, request: None };
                let dst = message.node;
                let request = Some(MemoryMessage { node: port, ..message.clone() });
                (dst, port, bytes, WaitingMessage { request, ..waiting })
            }),
            _ => None,
        };
        let is_one = |(src, dst, ..): &(u16, u16, u32, WaitingMessage)| {
            src != dst && (*src).max(*dst) < self.config.ports
        };
        let Some((src, dst, bytes, waiting)) = demand.filter(is_one) else {
            self.violations.senseless += 1;
            return;
        };
        let request = waiting.request.as_ref().filter(|_| self.config.counts_control).map_or(0, |request| {
            let mut blocks = Vec::new();
            request.blocks(&mut blocks);
            blocks.len() as u64
        });
        let token = self.keep(waiting);
        let (src, dst, request) = (u32::from(src), u32::from(dst), self.config.cycle * request);
        let demand = Demand { src, dst, bytes: bytes.into(), token, request };
        self.ports[usize::from(port)].demands.push_back((now + steps::CLASSIFY, demand));
    }

    fn keep(&mut self, waiting: WaitingMessage) -> u32 {
        let token = self.unused.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        self.waiting[token as usize] = Some(waiting);
        token
    }

    /// Sets up the circuit of a grant. Queues the grant for the sender, either as a /G/ block or, for the first chunk of an answer, as the
    /// request itself (§3.1.1 (4)).
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
            None => blocks.push(ControlFields { kind, node: dst, id, size }.block(G)),
        }
        port.control.extend(blocks.into_iter().map(|block| (from, block)));
    }
}

/// Returns the number of bytes of the answer to a request, or `None` if the message is not a request that has an answer.
fn answer_bytes(message: &MemoryMessage) -> Option<u32> {
    match &message.body {
        Body::Read { bytes, .. } => Some(u32::from(*bytes)),
        Body::Modify { operation, .. } => RmwOperation::response_bytes(operation.opcode()).map(u32::from),
        Body::Write { .. } | Body::Response { .. } => None,
    }
}
