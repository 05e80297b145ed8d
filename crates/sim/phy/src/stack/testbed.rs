//! Testbed of nodes, links and one or two switches with a common clock. It simulates those parts of figures 4 and 5 that take whole cycles.
//!
//! A block takes [`steps::PCS_CYCLES`] cycles in each PCS. The PMA, the transceivers and the propagation do not take whole cycles. Their
//! time is either added to the simulated time afterwards, as in table 1 of the paper, or approximated by `wire` cycles.

use super::{HostConfig, HostStack, SwitchConfig, SwitchStack, host::MemoryController};
use crate::block::Block;
use crate::edm::{Demux, Mux, MuxPolicy};
use std::collections::{BTreeMap, VecDeque};
use unrack_protocol::edm::steps;

/// Sending end of a link: the multiplexer, and the blocks in flight to the other end.
#[derive(Debug, Clone)]
struct Sender {
    mux: Mux,
    /// Blocks of frames that the encoder has to send. If there are none, the encoder sends idle blocks.
    frames: VecDeque<Block>,
    line: VecDeque<Block>,
}

/// A block that left a multiplexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockInFlight {
    pub cycle: u64,
    /// Index in [`Testbed::stars`].
    pub star: u8,
    pub node: u16,
    /// Whether the block was sent by the node to the switch, and not by the switch to the node.
    pub up: bool,
    pub block: Block,
}

/// Memory controller that stores the data written to it, and records each write.
#[derive(Debug, Clone, Default)]
pub struct RecordingMemory {
    bytes: BTreeMap<u64, u8>,
    /// Writes that arrived, as (address, number of bytes, first cycle, last cycle); see [`MemoryController::write`].
    pub writes: Vec<(u64, usize, u64, u64)>,
}

/// A switch, and the links between this switch and all nodes.
#[derive(Debug, Clone)]
pub struct SwitchedLinks {
    pub switch: SwitchStack,
    up: Vec<Sender>,
    down: Vec<Sender>,
    demux_up: Vec<Demux>,
    demux_down: Vec<Demux>,
    is_cut: Vec<bool>,
    is_dead: bool,
    /// For each node, the block that its decoder got in the last cycle. The next field has the blocks of the decoders at the switch's
    /// ports.
    pub to_node: Vec<Block>,
    pub to_port: Vec<Block>,
}

/// Simulated nodes that are connected by one switch, or by two mirrored switches (§3.3). Each node has memory of type `M`.
#[derive(Debug, Clone)]
pub struct Testbed<M = RecordingMemory> {
    now: u64,
    pub hosts: Vec<HostStack>,
    pub memory: Vec<M>,
    /// Switches with their links: one switch for each line of a node.
    pub stars: Vec<SwitchedLinks>,
    /// If `Some`, record of all blocks, except idle ones, that multiplexers have sent.
    pub crossings: Option<Vec<BlockInFlight>>,
}

/// Block without a valid sync header, which is what a receiver sees on a line without a signal.
const DARK: Block = Block { header: 0, payload: 0 };

impl Sender {
    fn new(policy: MuxPolicy, cycles: usize) -> Sender {
        Sender {
            mux: Mux::new(policy),
            frames: VecDeque::new(),
            line: VecDeque::from(vec![Block::IDLE; cycles]),
        }
    }

    /// Processes one cycle. Returns whether the offered memory block was sent, the block that was sent, and the block that arrives at the
    /// far end.
    fn tick(&mut self, memory: Option<Block>) -> (bool, Block, Block) {
        let frame = self.mux.takes_frame_block().then(|| self.frames.pop_front().unwrap_or(Block::IDLE));
        let sent = self.mux.tick(frame, memory);
        self.line.push_back(sent.block);
        let arrived = self.line.pop_front().expect("it is never empty");
        (sent.took_memory, sent.block, arrived)
    }
}

impl SwitchedLinks {
    fn new(switch: SwitchConfig, policy: MuxPolicy, cycles: usize) -> SwitchedLinks {
        let nodes = usize::from(switch.ports);
        SwitchedLinks {
            switch: SwitchStack::new(switch),
            up: vec![Sender::new(policy, cycles); nodes],
            down: vec![Sender::new(policy, cycles); nodes],
            demux_up: vec![Demux::new(policy); nodes],
            demux_down: vec![Demux::new(policy); nodes],
            is_cut: vec![false; nodes],
            is_dead: false,
            to_node: vec![Block::IDLE; nodes],
            to_port: vec![Block::IDLE; nodes],
        }
    }

    /// Queues blocks of frames at a node's encoder, to be sent to the switch.
    pub fn send_up(&mut self, node: u16, blocks: impl IntoIterator<Item = Block>) {
        self.up[usize::from(node)].frames.extend(blocks);
    }

    /// Queues blocks of frames at the encoder of a switch's port, to be sent to the node.
    pub fn send_down(&mut self, node: u16, blocks: impl IntoIterator<Item = Block>) {
        self.down[usize::from(node)].frames.extend(blocks);
    }

    /// Returns whether the encoder gives a block in the next cycle, for the node's encoder and for that of the node's port at the switch.
    pub fn takes_frame_blocks(&self, node: u16) -> [bool; 2] {
        let node = usize::from(node);
        [&self.up[node], &self.down[node]].map(|sender| sender.mux.takes_frame_block())
    }

    /// Replaces the block that a node sent to the switch last, for example to simulate a bit error.
    pub fn replace_up(&mut self, node: u16, replace: impl FnOnce(Block) -> Block) {
        replace_newest(&mut self.up[usize::from(node)], replace);
    }

    /// Replaces the block that the switch sent to a node last, for example to simulate a bit error.
    pub fn replace_down(&mut self, node: u16, replace: impl FnOnce(Block) -> Block) {
        replace_newest(&mut self.down[usize::from(node)], replace);
    }

    /// Cuts the link between a node and the switch. From now on, neither end receives blocks from the other, and the blocks in flight on
    /// the link are lost.
    pub fn cut(&mut self, node: u16) {
        self.is_cut[usize::from(node)] = true;
    }

    /// Stops the switch permanently.
    pub fn kill(&mut self) {
        self.is_dead = true;
        self.is_cut.fill(true);
    }

    fn is_quiet(&self) -> bool {
        let nothing_left = |sender: &Sender| sender.frames.is_empty();
        let nothing_under_way = |sender: &Sender| sender.line.iter().all(|block| *block == Block::IDLE);
        let is_quiet = |node: usize| {
            let ends = [&self.up[node], &self.down[node]];
            let is_cut = self.is_cut[node];
            ends.iter().all(|end| is_cut || nothing_left(end) && nothing_under_way(end))
        };
        let nothing_kept = self.demux_up.iter().chain(&self.demux_down).all(|demux| demux.kept() == 0);
        nothing_kept && (0..self.up.len()).all(is_quiet)
    }
}

fn replace_newest(sender: &mut Sender, replace: impl FnOnce(Block) -> Block) {
    let newest = sender.line.back_mut().expect("it is never empty");
    *newest = replace(*newest);
}

impl Testbed<RecordingMemory> {
    /// Returns a testbed with one switch. All nodes have the configuration `host`, apart from their numbers.
    pub fn new(switch: SwitchConfig, host: HostConfig, policy: MuxPolicy, wire: usize) -> Testbed {
        Testbed::with_memory(switch, host, policy, wire)
    }

    /// Returns a testbed with two switches. All nodes are mirrored: they send all traffic to both switches.
    pub fn mirrored(switch: SwitchConfig, host: HostConfig, policy: MuxPolicy, wire: usize) -> Testbed {
        let hosts = each_node(switch, host, HostStack::mirrored);
        Testbed::from_parts(hosts, vec![star(switch, policy, wire); 2])
    }
}

impl<M: MemoryController + Default> Testbed<M> {
    /// Returns a testbed with one switch, as [`Testbed::new`] does, whose nodes have this memory.
    pub fn with_memory(switch: SwitchConfig, host: HostConfig, policy: MuxPolicy, wire: usize) -> Testbed<M> {
        let hosts = each_node(switch, host, HostStack::new);
        Testbed::from_parts(hosts, vec![star(switch, policy, wire)])
    }

    fn from_parts(hosts: Vec<HostStack>, stars: Vec<SwitchedLinks>) -> Testbed<M> {
        let memory = hosts.iter().map(|_| M::default()).collect();
        Testbed { now: 0, hosts, memory, stars, crossings: None }
    }

    /// Returns the number of the next cycle.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Leaves out the cycles before `cycle`, in which nothing happens. The testbed must be idle, and no block may be in a switch.
    ///
    /// # Panics
    /// If the testbed is not idle.
    pub fn skip_to(&mut self, cycle: u64) {
        assert!(self.is_idle(), "cycles in which something happens are not left out");
        self.now = self.now.max(cycle);
    }

    /// Processes one cycle.
    pub fn tick(&mut self) {
        let now = self.now;
        for line in 0..self.stars.len() {
            for node in 0..self.hosts.len() {
                self.tick_up(now, line, node);
                self.tick_down(now, line, node);
            }
            let star = &mut self.stars[line];
            if !star.is_dead {
                star.switch.tick(now);
            }
        }
        self.now += 1;
    }

    /// Returns whether no message and no frame is in transit.
    pub fn is_idle(&self) -> bool {
        self.hosts.iter().all(HostStack::is_idle) && self.stars.iter().all(SwitchedLinks::is_quiet)
    }

    fn tick_up(&mut self, now: u64, line: usize, node: usize) {
        let star = &mut self.stars[line];
        let (took, sent, arrived) = star.up[node].tick(self.hosts[node].offer(now, line));
        if took {
            self.hosts[node].took(now, line);
        }
        let received = star.demux_up[node].tick(if star.is_cut[node] { DARK } else { arrived });
        star.to_port[node] = received.to_decoder;
        if star.demux_up[node].wrong().any() {
            star.switch.disable(now, node as u16);
        }
        if let Some(memory) = received.memory {
            star.switch.handle(now, node as u16, memory);
        }
        self.note(now, line, node, true, sent);
    }

    fn tick_down(&mut self, now: u64, line: usize, node: usize) {
        let star = &mut self.stars[line];
        let port = node as u16;
        let (took, sent, arrived) = star.down[node].tick(star.switch.offer(now, port));
        if took {
            star.switch.took(now, port);
        }
        let received = star.demux_down[node].tick(if star.is_cut[node] { DARK } else { arrived });
        star.to_node[node] = received.to_decoder;
        let has_other = self.stars.len() > 1;
        if has_other && self.stars[line].demux_down[node].wrong().any() {
            self.hosts[node].disable(now, line);
        }
        self.hosts[node].handle(now, line, received.memory, &mut self.memory[node]);
        self.note(now, line, node, false, sent);
    }

    fn note(&mut self, cycle: u64, line: usize, node: usize, up: bool, block: Block) {
        if let Some(crossings) = self.crossings.as_mut().filter(|_| block != Block::IDLE) {
            crossings.push(BlockInFlight { cycle, star: line as u8, node: node as u16, up, block });
        }
    }
}

fn each_node(
    switch: SwitchConfig,
    host: HostConfig,
    make: impl Fn(HostConfig) -> HostStack,
) -> Vec<HostStack> {
    (0..switch.ports).map(|node| make(HostConfig { node, ..host })).collect()
}

fn star(switch: SwitchConfig, policy: MuxPolicy, wire: usize) -> SwitchedLinks {
    SwitchedLinks::new(switch, policy, 2 * steps::PCS_CYCLES as usize + wire)
}

impl MemoryController for RecordingMemory {
    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        let at = |offset| self.bytes.get(&address.wrapping_add(offset)).copied().unwrap_or(0);
        (0..bytes as u64).map(at).collect()
    }

    fn write(&mut self, address: u64, data: &[u8], first: u64, at: u64) {
        self.bytes.extend((0..).map(|offset| address.wrapping_add(offset)).zip(data.iter().copied()));
        self.writes.push((address, data.len(), first, at));
    }
}
