//! `wire = "blocks"`: messages as 66-bit blocks in the stacks of the PHY ([`unrack_phy::stack`]), one clock cycle at a time.
//!
//! The stacks are those of the testbed that the hardware in `rtl` is compared with. Therefore everything on a link has its true cost: a
//! notification or grant is one block, a request to read at most 256 B is one block, and a chunk of n bytes is the blocks of its data, an
//! end and, for a write, an address.
//!
//! A message that is submitted during a cycle enters its stack at the beginning of the next cycle. The time until then is not counted, so
//! that a message alone always takes the same time. A message is complete when its last block has arrived, unlike with `wire = "payload"`.
//! PMA, transceivers and propagation take whole cycles, rounded up.
//!
//! The switch takes one notification or request in two of three cycles, as the hardware does. Therefore many nodes with short messages wait
//! for that before they wait for links: at 64 B, more than about six nodes.
//!
//! A read-modify-write is a compare-and-swap, which is answered with one byte, whatever number of bytes the message names.
//!
//! Cycles in which nothing is under way are left out. In all other cycles every port is processed, so that a run takes about as long as its
//! simulated time has cycles, multiplied by the square of the number of ports.

use super::config::{EdmConfig, SchedulingOrder};
use super::event::Event;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use unrack_engine::Largest;
use unrack_engine::events::{Core, LinkId, Observer, WaitReason};
use unrack_engine::network::StarNetwork;
use unrack_phy::edm::{MuxPolicy, RmwOperation};
use unrack_phy::stack::{HostConfig, MemoryController, Request, RequestOutcome, SwitchConfig, Testbed};
use unrack_protocol::edm::GrantPolicy;
use unrack_units::{Bytes, Time};
use unrack_workload::{Kind, Message, MessageId};

/// A star of nodes with the stacks of the PHY.
pub(super) struct BlockStar {
    shape: StarShape,
    bed: Testbed<WriteArrivals>,
    /// Messages that were submitted, and enter their stacks with the next cycle.
    entering: VecDeque<(Time, MessageId)>,
    /// For each node, the message of each ticket of its stack, with the time by which a cycle began later than the message was submitted.
    tickets: Vec<Vec<(MessageId, Time)>>,
    /// Writes that have not arrived completely.
    writes: BTreeMap<MessageId, OpenWrite>,
    /// Number of messages that have not arrived completely.
    open: u32,
    /// Whether a cycle is scheduled.
    is_running: bool,
    /// Times of messages alone, by kind and bytes.
    lone: RefCell<BTreeMap<(Kind, u64), Time>>,
}

/// Parameters of a star, apart from the number of nodes.
#[derive(Debug, Clone, Copy)]
struct StarShape {
    cycle: Time,
    switch: SwitchConfig,
    host: HostConfig,
    /// Cycles of PMA, transceivers and propagation of a link.
    wire: usize,
}

/// A write of which some bytes have not arrived.
#[derive(Debug, Clone, Copy)]
struct OpenWrite {
    left: u64,
    phase: Time,
}

/// Memory that keeps only which parts of writes arrived: the number of the message, bytes, and the cycle of the last block.
#[derive(Debug, Clone, Default)]
struct WriteArrivals(Vec<(u32, u64, u64)>);

/// Bits of an address that are within a message. The bits above are the number of the message, so that parts of a write can be told apart.
const WITHIN: u32 = 16;

impl MemoryController for WriteArrivals {
    fn read(&mut self, _address: u64, bytes: usize) -> Vec<u8> {
        vec![0; bytes]
    }

    fn write(&mut self, address: u64, data: &[u8], _first: u64, at: u64) {
        self.0.push(((address >> WITHIN) as u32, data.len() as u64, at));
    }
}

impl StarShape {
    fn bed(&self, ports: u16) -> Testbed<WriteArrivals> {
        let switch = SwitchConfig { ports, ..self.switch };
        Testbed::with_memory(switch, self.host, MuxPolicy::Fair, self.wire)
    }
}

/// Returns the request to the stack for a message.
fn request(id: MessageId, message: &Message) -> Request {
    let (dst, bytes) = (message.dst as u16, message.bytes as usize);
    match message.kind {
        // An address of 0 lets a request for at most 256 B be one block.
        Kind::Read => Request::Read { dst, address: 0, bytes: bytes as u16 },
        Kind::Write | Kind::Flow => {
            Request::Write { dst, address: u64::from(id.0) << WITHIN, data: vec![0; bytes] }
        }
        Kind::Rmw => {
            // The memory reads zeros, so that nothing is stored, and no write is recorded for it.
            let operation = RmwOperation::CompareSwap { expected: 1, new: 0 };
            Request::Modify { dst, address: MODIFIED << WITHIN, operation }
        }
    }
}

/// Number in place of a message in the addresses of read-modify-writes, whose stores are not parts of writes.
const MODIFIED: u64 = u32::MAX as u64;

impl BlockStar {
    /// Creates a star whose parameters were checked.
    pub(super) fn new(star: &StarNetwork, config: &EdmConfig) -> BlockStar {
        let (cycle, chunk) = (config.cycle, config.chunk.get() as u16);
        let policy = match config.policy {
            SchedulingOrder::Fcfs => GrantPolicy::Fcfs,
            SchedulingOrder::Srpt | SchedulingOrder::ByTail => GrantPolicy::Srpt,
        };
        let switch = SwitchConfig { ports: star.nodes as u16, chunk, policy, cycle, counts_control: true };
        let max_active = config.max_active as usize;
        let host = HostConfig { node: 0, chunk, max_active, mega: None, timeout: None };
        let wire = (config.pma * 2 + star.propagation).as_ps().div_ceil(cycle.as_ps()) as usize;
        let shape = StarShape { cycle, switch, host, wire };
        let mut bed = shape.bed(switch.ports);
        bed.crossings = Some(Vec::new());
        BlockStar {
            shape,
            bed,
            entering: VecDeque::new(),
            tickets: vec![Vec::new(); star.nodes as usize],
            writes: BTreeMap::new(),
            open: 0,
            is_running: false,
            lone: RefCell::default(),
        }
    }

    /// Returns the largest message: sizes in blocks have 16 bits.
    pub(super) fn largest() -> Largest {
        let why = "the size field of a block has 16 bits: use wire = \"payload\"";
        Largest { bytes: Bytes::new(u16::MAX.into()), why: why.into() }
    }

    pub(super) fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        core.sent(core.message(id).payload());
        core.waits(id, || WaitReason::Nothing);
        self.entering.push_back((core.now(), id));
        self.open += 1;
        if !self.is_running {
            self.is_running = true;
            let next = core.now().as_ps() / self.shape.cycle.as_ps() + 1;
            self.bed.skip_to(next);
            core.schedule(self.shape.cycle * next, Event::Cycle);
        }
    }

    pub(super) fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Cycle => self.cycle(core),
            Event::Deliver(id) => {
                core.arrived(core.message(id).payload());
                core.complete(id);
            }
            _ => unreachable!("blocks have only cycles and deliveries"),
        }
    }

    fn cycle<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let now = core.now();
        while let Some(&(submitted, id)) = self.entering.front()
            && submitted < now
        {
            self.entering.pop_front();
            let (message, phase) = (*core.message(id), now - submitted);
            let node = message.src as usize;
            let cycle = self.bed.now();
            self.bed.hosts[node].submit(cycle, request(id, &message));
            self.tickets[node].push((id, phase));
            if !message.kind.is_answered() {
                self.writes.insert(id, OpenWrite { left: message.bytes, phase });
            }
        }
        self.bed.tick();
        self.count_blocks(core);
        self.collect(core);
        match self.open == 0 && self.bed.is_idle() {
            true => self.is_running = false,
            false => core.schedule(now + self.shape.cycle, Event::Cycle),
        }
    }

    /// Counts the time of the blocks that were sent in this cycle.
    fn count_blocks<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        for block in self.bed.crossings.iter_mut().flat_map(|blocks| blocks.drain(..)) {
            let node = u32::from(block.node);
            let link = if block.up { LinkId::Host(node) } else { LinkId::Port(node) };
            core.occupied(link, self.shape.cycle);
        }
    }

    /// Schedules the completion of the messages whose last block arrived in this cycle.
    fn collect<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        let BlockStar { bed, tickets, writes, open, shape, .. } = self;
        for (host, tickets) in bed.hosts.iter_mut().zip(tickets.iter()) {
            for completion in host.completions() {
                if completion.outcome != RequestOutcome::Sent {
                    let (id, phase) = tickets[completion.ticket as usize];
                    core.schedule(shape.cycle * completion.at - phase, Event::Deliver(id));
                    *open -= 1;
                }
            }
        }
        for (id, bytes, at) in bed.memory.iter_mut().flat_map(|memory| memory.0.drain(..)) {
            let id = MessageId(id);
            let Some(write) = writes.get_mut(&id) else { continue };
            write.left -= bytes;
            if write.left == 0 {
                core.schedule(shape.cycle * at - write.phase, Event::Deliver(id));
                writes.remove(&id);
                *open -= 1;
            }
        }
    }

    /// Returns the time of a message alone, which is simulated once for each kind and number of bytes.
    pub(super) fn unloaded(&self, message: &Message) -> Time {
        let key = (message.kind, message.bytes);
        if let Some(time) = self.lone.borrow().get(&key) {
            return *time;
        }
        let alone = Message { src: 0, dst: 1, ..*message };
        let mut bed = self.shape.bed(2);
        bed.hosts[0].submit(0, request(MessageId(0), &alone));
        let mut left = alone.bytes;
        let at = loop {
            bed.tick();
            let answered = bed.hosts[0].completions().find(|end| end.outcome != RequestOutcome::Sent);
            let written = bed.memory[1].0.drain(..).next_back();
            left -= written.map_or(0, |(_, bytes, _)| if alone.kind.is_answered() { 0 } else { bytes });
            match (answered, written) {
                (Some(answer), _) => break answer.at,
                (None, Some((.., at))) if left == 0 => break at,
                _ => {}
            }
        };
        let time = self.shape.cycle * at;
        self.lone.borrow_mut().insert(key, time);
        time
    }
}
