//! What is inside hosts: memory, CXL ports, DMA engines, virtual NICs, cores, a cache (DRack §4, §5).
//!
//! A fabric of packets hands over what a node sends ([`Hosts::send`]) and what has come to a NIC
//! ([`Hosts::arrive`]), and is told by [`Hosts::poll`] when a packet may go on a wire, when the network's stack has it,
//! and when the program has read it. Like a protocol's core this has no clock: it asks to be called again
//! ([`Output::At`]).
//!
//! | module | idea |
//! |---|---|
//! | [`timeline`] | a link or a memory that serves one transfer at a time |
//! | [`interleave`] | which part of a transfer is in which memory |
//! | [`memory`] | ways between cores, NICs and memories, and loads of many lines at once |
//! | [`buffers`] | sections of the pool, divided into buffers |
//! | [`cache`] | the DRAM cache of a host |
//! | [`queues`] | virtual NICs: what is posted, what has come, when to interrupt |
//! | [`cores`] | who handles packets, one task after the other |
//! | [`programs`] | what programs load while they compute |
//! | [`reading`] | what of a stream its program has not yet read |
//! | [`plan`] | the numbering of hosts, queues and cores |
//! | [`sparse`] | things that are made when they are first changed |
//!
//! A packet's way: a core handles it (*send*), posts it and rings the NIC's bell; the DMA engine reads descriptors and
//! data; the wire. At the other end the engine writes it to a receive buffer, and its completion beside it; a batch of those raises
//! an interrupt; a core handles each packet (*stack*: it loads the header from wherever the buffer is), and TCP is
//! told; the program loads what is in order (*read*). Within a rack, a reference to the data passes instead: one line
//! that is stored in the receiver's memory.
//!
//! An event is about a packet, not a line: a transfer books each memory and link that it crosses once
//! for all its lines there ([`memory`]).

mod buffers;
mod cache;
mod cores;
mod interleave;
mod memory;
mod plan;
mod programs;
mod queues;
mod reading;
mod sparse;
mod timeline;
mod work;

use self::buffers::{Buffers, Stock};
use self::cache::Cache;
use self::cores::{Core, Task};
use self::memory::{Agent, Memory};
pub use self::plan::Inside;
pub(crate) use self::plan::Plan;
use self::programs::Programs;
use self::queues::{Receive, Transmit};
pub(crate) use self::reading::Reading;
use self::sparse::Sparse;
pub use self::work::Counts;
use std::collections::VecDeque;
use unrack_units::Time;
use unrack_workload::NodeId;

/// All hosts of a network.
pub(crate) struct Hosts {
    plan: Plan,
    memory: Memory,
    /// By host, if they have one.
    caches: Sparse<Cache, 1>,
    /// By host and number.
    cores: Sparse<Core, 16>,
    transmit: Sparse<Transmit, 32>,
    receive: Sparse<Receive, 32>,
    /// Free sections of each rack, or, without a pool, of each host.
    stocks: Vec<Stock>,
    /// By host.
    buffers: Sparse<Buffers, 4>,
    /// Where the next data that a host sends lie.
    data: Vec<u64>,
    programs: Programs,
    /// Bytes that came to each NIC and are not yet in memory.
    headroom: Vec<u64>,
    /// By the number that the fabric gave them.
    packets: Vec<Packet>,
    counts: Counts,
    outputs: VecDeque<Output>,
}

/// A packet as its hosts see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub from: NodeId,
    pub to: NodeId,
    /// Of its stream: decides which core handles it.
    pub hash: u32,
    /// Headers and payload, as they lie in memory.
    pub bytes: u32,
    pub payload: u32,
    pub way: Way,
    /// The buffer that it came to, and that buffer's class.
    buffer: u64,
    class: u8,
    /// By whom the buffer is to be freed.
    owner: NodeId,
}

impl Packet {
    pub fn new((from, to): (NodeId, NodeId), hash: u32, (bytes, payload): (u32, u32), way: Way) -> Packet {
        Packet { from, to, hash, bytes, payload, way, buffer: 0, class: 0, owner: to }
    }
}

/// How a packet leaves its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By this NIC.
    Nic(u32),
    /// To another host of the rack, over CXL.
    Rack,
}

/// When to call [`Hosts::handle`] again, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A core has done its task.
    Core(u32),
    /// A NIC looks at what is posted in this transmit queue.
    Doorbell(u32),
    /// A NIC has the data of this packet.
    Fetched(u32),
    /// A packet of this transmit queue has left its NIC.
    Left(u32),
    /// This packet, or the reference to it, is in memory, and its completion too.
    Written(u32),
    /// Packets of this receive queue have waited long enough for more to come.
    Late(u32),
    /// What this program loaded has come, and it has computed with it.
    Loaded(u32),
}

/// What a fabric is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Hand the event back then.
    At(Time, Event),
    /// This packet goes on the wire, by this NIC.
    Wire(u32, u32),
    /// The network's stack has this packet.
    Stack(u32),
    /// The program has read this packet, and its buffer is free.
    Read(u32),
    /// There was no room for this packet.
    Lost(u32),
    /// This transmit queue has room for another.
    Room(u32),
    /// This actor has computed.
    Computed(u32),
}

impl Hosts {
    pub fn new(plan: Plan) -> Hosts {
        let (hosts, queues) = (plan.hosts, plan.hosts * plan.queues());
        let caches = if plan.spec.dram_cache && plan.spec.memory_pool { hosts } else { 0 };
        let stocks = if plan.spec.memory_pool { plan.hosts / plan.of_rack } else { plan.hosts };
        let pooled = if plan.spec.memory_pool { plan.of_rack } else { 1 };
        let bytes = plan.spec.memory.size.get() * u64::from(pooled);
        Hosts {
            memory: Memory::new(&plan),
            caches: Sparse::new(caches, Cache::new(&plan.spec.cache)),
            cores: Sparse::new(hosts * plan.spec.cpu.cores, Core::default()),
            transmit: Sparse::new(queues, Transmit::default()),
            receive: Sparse::new(queues, Receive::new(&plan.spec.nic)),
            stocks: (0..stocks).map(|_| Stock::new(bytes)).collect(),
            buffers: Sparse::new(hosts, Buffers::new(&plan.sizes)),
            data: vec![0; hosts as usize],
            programs: Programs::new(hosts),
            headroom: vec![0; plan.nics() as usize],
            packets: Vec::new(),
            counts: Counts::default(),
            outputs: VecDeque::new(),
            plan,
        }
    }

    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether a packet that comes now may be sent this way: nobody is before it and its queue has room.
    pub fn is_open(&self, from: NodeId, to: NodeId, way: Way) -> bool {
        let queue = self.plan.transmit_queue(from, to, way);
        self.transmit[queue as usize].waiting.is_empty() && self.has_room(queue)
    }

    /// Whether a transmit queue, or the queue of references that it stands for, takes another packet.
    pub fn has_room(&self, queue: u32) -> bool {
        let nic = &self.plan.spec.nic;
        let most = if self.plan.is_of_nic(queue) { nic.transmit_queue } else { nic.receive_queue };
        self.transmit[queue as usize].outstanding < most
    }

    /// How a packet leaves its host, which has the choice of this NIC.
    pub fn way(&self, from: NodeId, to: NodeId, nic: u32) -> Way {
        let inside = self.plan.rack_of(from) == self.plan.rack_of(to);
        let by_cxl = self.plan.spec.references() || self.plan.nics_are_pooled();
        if inside && by_cxl { Way::Rack } else { Way::Nic(nic) }
    }

    /// `waiting` waits for room there, behind others.
    pub fn wait(&mut self, from: NodeId, to: NodeId, way: Way, waiting: u32) {
        let queue = self.plan.transmit_queue(from, to, way);
        self.transmit[queue as usize].waiting.push_back(waiting);
        if self.transmit[queue as usize].waiting.len() == 1 && self.has_room(queue) {
            self.outputs.push_back(Output::Room(queue));
        }
    }

    /// Who waits first for room in a transmit queue.
    pub fn next_waiting(&mut self, queue: u32) -> Option<u32> {
        self.transmit[queue as usize].waiting.pop_front()
    }

    /// The stack of `packet.from` sends a packet, of which the fabric speaks by this number.
    pub fn send(&mut self, now: Time, number: u32, packet: Packet) {
        let queue = self.plan.transmit_queue(packet.from, packet.to, packet.way);
        self.transmit[queue as usize].outstanding += 1;
        if self.packets.len() <= number as usize {
            self.packets.resize(number as usize + 1, packet);
        }
        self.packets[number as usize] = packet;
        self.give(now, self.plan.core(packet.from, packet.hash), Task::Send(number));
    }

    /// The last bit of a packet will have left its NIC at `at`.
    pub fn leaves(&mut self, number: u32, at: Time) {
        let Packet { from, to, way, .. } = self.packets[number as usize];
        let queue = self.plan.transmit_queue(from, to, way);
        self.outputs.push_back(Output::At(at, Event::Left(queue)));
    }

    /// The last bit of a packet has come to this NIC.
    pub fn arrive(&mut self, now: Time, number: u32, nic: u32) {
        let Packet { to, bytes, .. } = self.packets[number as usize];
        if self.headroom[nic as usize] + u64::from(bytes) > self.plan.spec.nic.headroom.get() {
            self.counts.no_room += 1;
            return self.outputs.push_back(Output::Lost(number));
        }
        let queue = self.plan.receive_queue_of_nic(to, nic);
        if self.receive[queue as usize].posted == 0 {
            self.counts.no_descriptor += 1;
            return self.outputs.push_back(Output::Lost(number));
        }
        self.packets[number as usize].way = Way::Nic(nic);
        if self.write(now, now, number, Agent::Nic(nic)) {
            self.headroom[nic as usize] += u64::from(bytes);
            self.receive[queue as usize].posted -= 1;
        }
    }

    /// The program reads a packet: what the stack had is in order.
    pub fn read(&mut self, now: Time, number: u32) {
        let Packet { to, hash, .. } = self.packets[number as usize];
        self.give(now, self.plan.core(to, hash), Task::Read(number));
    }

    /// Nobody reads a packet that the stack had.
    pub fn release(&mut self, number: u32) {
        let Packet { to, owner, buffer, class, .. } = self.packets[number as usize];
        if !self.caches.is_empty() {
            self.caches[to as usize].release(class, buffer, self.plan.sizes[class as usize]);
        }
        let stock = &mut self.stocks[self.plan.stock(owner) as usize];
        self.buffers[owner as usize].free(class, buffer, stock);
    }

    pub fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Core(core) => self.done(now, core),
            Event::Doorbell(queue) => self.fetch(now, queue),
            Event::Fetched(number) => {
                let Packet { from, to, way, .. } = self.packets[number as usize];
                let nic = self.plan.nic_of_queue(self.plan.transmit_queue(from, to, way));
                self.outputs.push_back(Output::Wire(number, nic));
            }
            Event::Left(queue) => self.free_place(queue),
            Event::Written(number) => self.written(now, number),
            Event::Loaded(program) => self.load_on(now, program),
            Event::Late(queue) => {
                if self.receive[queue as usize].is_late(now) {
                    self.interrupt(now, queue);
                }
            }
        }
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        let busy = self.cores.made().map(|core| core.busy.as_ps()).collect::<Vec<_>>();
        let (hits, loads) =
            self.caches.made().fold((0, 0), |(h, l), cache| (h + cache.hits, l + cache.loads));
        let busiest = Time::from_ps(busy.iter().copied().max().unwrap_or(0));
        let mean = Time::from_ps(busy.iter().sum::<u64>() / self.cores.len().max(1) as u64);
        let (local_bytes, remote_bytes) = self.memory.bytes();
        Counts { hits, loads, busiest, mean, local_bytes, remote_bytes, ..self.counts }
    }

    /// Nothing is under way, and nobody holds a buffer.
    #[cfg(test)]
    pub fn is_at_rest(&self) -> bool {
        self.cores.made().all(|core| core.is_idle())
            && self.headroom.iter().all(|held| *held == 0)
            && self.transmit.made().all(|queue| queue.is_at_rest())
            && self.receive.made().all(|queue| queue.is_at_rest(self.plan.spec.nic.receive_queue))
            && self.programs.is_at_rest()
            && self.buffers.made().all(|buffers| buffers.used() == 0)
    }
}
