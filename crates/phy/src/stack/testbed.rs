//! Nodes, links and a switch in one clock: what of figures 4 and 5 is cycles.
//!
//! A block takes [`steps::PCS_CYCLES`] in each PCS. PMA, transceivers and the way between are not whole cycles: they
//! are added to the sum afterwards, as table 1 does, or given as `wire` cycles.

use super::{Host, HostConfig, Switch, SwitchConfig, host::Store};
use crate::block::Block;
use crate::edm::{Demux, Mux, Policy};
use std::collections::{BTreeMap, VecDeque};
use unrack_protocol::edm::steps;

/// One end of a link: the multiplexer, and the line to the other end.
#[derive(Debug, Clone)]
struct Sender {
    mux: Mux,
    /// What the encoder has to send; then idle.
    frames: VecDeque<Block>,
    line: VecDeque<Block>,
}

/// Where a block crossed a multiplexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    pub cycle: u64,
    pub node: u16,
    /// From the node to the switch.
    pub up: bool,
    pub block: Block,
}

/// Memory that holds what was written.
#[derive(Debug, Clone, Default)]
pub struct Bytes {
    bytes: BTreeMap<u64, u8>,
    /// (address, bytes, first, at) of each write that came.
    pub writes: Vec<(u64, usize, u64, u64)>,
}

/// A star of nodes.
#[derive(Debug, Clone)]
pub struct Testbed {
    now: u64,
    pub hosts: Vec<Host>,
    pub memory: Vec<Bytes>,
    pub switch: Switch,
    up: Vec<Sender>,
    down: Vec<Sender>,
    demux_up: Vec<Demux>,
    demux_down: Vec<Demux>,
    /// What the decoders of nodes and of the switch's ports got in the last cycle.
    pub to_node: Vec<Block>,
    pub to_port: Vec<Block>,
    /// What left each multiplexer, idle apart, if anybody wants to know.
    pub crossings: Option<Vec<Crossing>>,
}

impl Sender {
    fn new(policy: Policy, cycles: usize) -> Sender {
        Sender {
            mux: Mux::new(policy),
            frames: VecDeque::new(),
            line: VecDeque::from(vec![Block::IDLE; cycles]),
        }
    }

    /// One cycle; whether memory's block went, and what came out of the far end.
    fn tick(&mut self, memory: Option<Block>) -> (bool, Block, Block) {
        let frame = self.mux.takes_frame_block().then(|| self.frames.pop_front().unwrap_or(Block::IDLE));
        let sent = self.mux.tick(frame, memory);
        self.line.push_back(sent.block);
        let arrived = self.line.pop_front().expect("it is never empty");
        (sent.took_memory, sent.block, arrived)
    }
}

impl Testbed {
    /// `host` for every node, with its own number.
    pub fn new(switch: SwitchConfig, host: HostConfig, policy: Policy, wire: usize) -> Testbed {
        let nodes = usize::from(switch.ports);
        let cycles = 2 * steps::PCS_CYCLES as usize + wire;
        let each = |node: u16| Host::new(HostConfig { node, ..host });
        Testbed {
            now: 0,
            hosts: (0..switch.ports).map(each).collect(),
            memory: vec![Bytes::default(); nodes],
            switch: Switch::new(switch),
            up: vec![Sender::new(policy, cycles); nodes],
            down: vec![Sender::new(policy, cycles); nodes],
            demux_up: vec![Demux::new(policy); nodes],
            demux_down: vec![Demux::new(policy); nodes],
            to_node: vec![Block::IDLE; nodes],
            to_port: vec![Block::IDLE; nodes],
            crossings: None,
        }
    }

    /// The cycle that is next.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Blocks of frames that a node's encoder sends from now on.
    pub fn send_up(&mut self, node: u16, blocks: impl IntoIterator<Item = Block>) {
        self.up[usize::from(node)].frames.extend(blocks);
    }

    /// The same at the switch's port.
    pub fn send_down(&mut self, node: u16, blocks: impl IntoIterator<Item = Block>) {
        self.down[usize::from(node)].frames.extend(blocks);
    }

    /// Whether the encoders of a node, and of its port, give a block in the coming cycle.
    pub fn takes_frame_blocks(&self, node: u16) -> [bool; 2] {
        let node = usize::from(node);
        [&self.up[node], &self.down[node]].map(|sender| sender.mux.takes_frame_block())
    }

    /// Takes the newest block of a node's line to the switch for another.
    pub fn replace_up(&mut self, node: u16, replace: impl FnOnce(Block) -> Block) {
        let newest = self.up[usize::from(node)].line.back_mut().expect("it is never empty");
        *newest = replace(*newest);
    }

    /// One cycle.
    pub fn tick(&mut self) {
        let now = self.now;
        for node in 0..self.hosts.len() {
            self.tick_up(now, node);
            self.tick_down(now, node);
        }
        self.switch.tick(now);
        self.now += 1;
    }

    /// Whether no message and no frame is anywhere.
    pub fn is_idle(&self) -> bool {
        let quiet = |sender: &Sender| {
            sender.frames.is_empty() && sender.line.iter().all(|block| *block == Block::IDLE)
        };
        let nothing_kept = self.demux_up.iter().chain(&self.demux_down).all(|demux| demux.kept() == 0);
        nothing_kept && self.hosts.iter().all(Host::is_idle) && self.up.iter().chain(&self.down).all(quiet)
    }

    fn tick_up(&mut self, now: u64, node: usize) {
        let (took, sent, arrived) = self.up[node].tick(self.hosts[node].offer(now));
        if took {
            self.hosts[node].took(now);
        }
        self.note(now, node, true, sent);
        let received = self.demux_up[node].tick(arrived);
        self.to_port[node] = received.to_decoder;
        if self.demux_up[node].wrong().any() {
            self.switch.disable(now, node as u16);
        }
        if let Some(memory) = received.memory {
            self.switch.handle(now, node as u16, memory);
        }
    }

    fn tick_down(&mut self, now: u64, node: usize) {
        let port = node as u16;
        let (took, sent, arrived) = self.down[node].tick(self.switch.offer(now, port));
        if took {
            self.switch.took(now, port);
        }
        self.note(now, node, false, sent);
        let received = self.demux_down[node].tick(arrived);
        self.to_node[node] = received.to_decoder;
        self.hosts[node].handle(now, received.memory, &mut self.memory[node]);
    }

    fn note(&mut self, cycle: u64, node: usize, up: bool, block: Block) {
        if let Some(crossings) = self.crossings.as_mut().filter(|_| block != Block::IDLE) {
            crossings.push(Crossing { cycle, node: node as u16, up, block });
        }
    }
}

impl Store for Bytes {
    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        let at = |offset| self.bytes.get(&address.wrapping_add(offset)).copied().unwrap_or(0);
        (0..bytes as u64).map(at).collect()
    }

    fn write(&mut self, address: u64, data: &[u8], first: u64, at: u64) {
        self.bytes.extend((0..).map(|offset| address.wrapping_add(offset)).zip(data.iter().copied()));
        self.writes.push((address, data.len(), first, at));
    }
}
