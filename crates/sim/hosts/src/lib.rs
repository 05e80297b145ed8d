//! Hosts from inside: memory, CXL ports, DMA engines, virtual NICs, cores, a cache (DRack §4, §5).
//!
//! A fabric of packets hands over packets that a node sends ([`Hosts::send`]) and packets that have arrived at a NIC
//! ([`Hosts::arrive`]). [`Hosts::poll`] tells it when a packet may go on a wire, when the network stack has it, and
//! when the program has read it. Like a protocol's core, this module has no clock: it asks to be called again
//! ([`Output::At`]).
//!
//! | module | idea |
//! |---|---|
//! | [`timeline`] | a link or a memory that serves one transfer at a time |
//! | [`interleave`] | placement of a transfer in memories |
//! | [`memory`] | paths between cores, NICs and memories, and loads of many lines at once |
//! | [`buffers`] | sections of the pool, divided into buffers |
//! | [`cache`] | the DRAM cache of a host |
//! | [`queues`] | virtual NICs: what is posted, what has come, when to interrupt |
//! | [`cores`] | cores that handle packets, one task after the other |
//! | [`programs`] | what programs load while they compute |
//! | [`reading`] | packets of a stream that its program has not yet read |
//! | [`plan`] | the numbering of hosts, queues and cores |
//! | [`sparse`] | items that are made when they are first changed |
//!
//! A packet's path: a core handles it (*send*), posts it and rings the NIC's doorbell; the DMA engine reads
//! descriptors and data; the packet crosses the network. At the other end the engine writes it to a receive buffer,
//! and its completion beside it; a batch of completions raises an interrupt; a core handles each packet (*stack*: it
//! loads the header from wherever the buffer is), and TCP is told; the program loads what is in order (*read*).
//! Within a rack, a reference to the data passes instead: one line that is stored in the receiver's memory.
//!
//! An event is about a packet, not a line: a transfer books each memory and link that it crosses once for all its
//! lines there ([`memory`]).

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
pub use self::plan::{HostPlan, Way};
use self::programs::Programs;
use self::queues::{Receive, Transmit};
pub use self::reading::Reading;
use self::sparse::Sparse;
use std::collections::VecDeque;
use unrack_engine::HostCounts;
use unrack_units::Time;
use unrack_workload::{Endpoints, NodeId};

/// All hosts of a network.
pub struct Hosts {
    plan: HostPlan,
    memory: Memory,
    /// DRAM cache of each host; none if hosts have no cache.
    caches: Sparse<Cache, 1>,
    /// Cores, by host and number.
    cores: Sparse<Core, 16>,
    transmit: Sparse<Transmit, 32>,
    receive: Sparse<Receive, 32>,
    /// Free sections of each rack or, without a pool, of each host.
    stocks: Vec<Stock>,
    /// Buffers of each host.
    buffers: Sparse<Buffers, 4>,
    /// Address of the next data that each host sends.
    data: Vec<u64>,
    programs: Programs,
    /// Bytes that came to each NIC and are not yet in memory.
    headroom: Vec<u64>,
    /// Packets, by the number that the fabric gave them.
    packets: Vec<HostPacket>,
    counts: HostCounts,
    outputs: VecDeque<Output>,
}

/// A packet as its hosts see it.
#[derive(Debug, Clone, Copy)]
pub struct HostPacket {
    pub from: NodeId,
    pub to: NodeId,
    /// Hash of the stream: decides which core handles the packet.
    pub hash: u32,
    /// Bytes of headers and payload, as they lie in memory.
    pub bytes: u32,
    pub payload: u32,
    pub way: Way,
    /// Buffer that the packet came to.
    buffer: u64,
    /// Class of that buffer.
    class: u8,
    /// Host that frees the buffer.
    owner: NodeId,
}

impl HostPacket {
    /// Creates a packet that has no buffer yet; `bytes` in memory, and `payload`.
    pub fn new(ends: Endpoints, hash: u32, way: Way, bytes: u32, payload: u32) -> HostPacket {
        let Endpoints { src: from, dst: to } = ends;
        HostPacket { from, to, hash, bytes, payload, way, buffer: 0, class: 0, owner: to }
    }
}

/// Reason to call [`Hosts::handle`] again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A core has finished its task.
    Core(u32),
    /// A NIC looks at the packets posted in this transmit queue.
    Doorbell(u32),
    /// A NIC has the data of this packet.
    Fetched(u32),
    /// A packet of this transmit queue has left its NIC.
    Left(u32),
    /// This packet, or the reference to it, is in memory, and so is its completion.
    Written(u32),
    /// Packets of this receive queue have waited long enough for more to come.
    Late(u32),
    /// The loads of this program have completed, and it has computed with them.
    Loaded(u32),
}

/// Output for the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Hand the event back at this time.
    At(Time, Event),
    /// This packet goes on the wire, by this NIC.
    Wire(u32, u32),
    /// The network stack has this packet.
    Stack(u32),
    /// The program has read this packet, and its buffer is free.
    Read(u32),
    /// This packet was lost, because there was no room.
    Lost(u32),
    /// This transmit queue has room for another packet.
    Room(u32),
    /// This actor has finished its computation.
    Computed(u32),
}

impl Hosts {
    /// Creates idle hosts.
    pub fn new(plan: HostPlan) -> Hosts {
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
            counts: HostCounts::default(),
            outputs: VecDeque::new(),
            plan,
        }
    }

    /// Returns the next output, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns whether a packet may be sent this way now: no other waits and its queue has room.
    pub fn is_open(&self, from: NodeId, to: NodeId, way: Way) -> bool {
        let queue = self.plan.transmit_queue(from, to, way);
        self.transmit[queue as usize].waiting.is_empty() && self.has_room(queue)
    }

    /// Returns whether a transmit queue, or the queue of references that it stands for, takes another packet.
    pub fn has_room(&self, queue: u32) -> bool {
        let nic = &self.plan.spec.nic;
        let most = if self.plan.is_of_nic(queue) { nic.transmit_queue } else { nic.receive_queue };
        self.transmit[queue as usize].outstanding < most
    }

    /// Returns the way by which a packet leaves its host, which would choose this NIC.
    pub fn way(&self, from: NodeId, to: NodeId, nic: u32) -> Way {
        let inside = self.plan.rack_of(from) == self.plan.rack_of(to);
        let by_cxl = self.plan.spec.references() || self.plan.nics_are_pooled();
        if inside && by_cxl { Way::Rack } else { Way::Nic(nic) }
    }

    /// Queues `waiting` for room in the queue of this way, behind others.
    pub fn wait(&mut self, from: NodeId, to: NodeId, way: Way, waiting: u32) {
        let queue = self.plan.transmit_queue(from, to, way);
        self.transmit[queue as usize].waiting.push_back(waiting);
        if self.transmit[queue as usize].waiting.len() == 1 && self.has_room(queue) {
            self.outputs.push_back(Output::Room(queue));
        }
    }

    /// Removes and returns the first that waits for room in a transmit queue.
    pub fn next_waiting(&mut self, queue: u32) -> Option<u32> {
        self.transmit[queue as usize].waiting.pop_front()
    }

    /// Sends a packet from the stack of `packet.from`; `number` is the fabric's name for it.
    pub fn send(&mut self, now: Time, number: u32, packet: HostPacket) {
        let queue = self.plan.transmit_queue(packet.from, packet.to, packet.way);
        self.transmit[queue as usize].outstanding += 1;
        if self.packets.len() <= number as usize {
            self.packets.resize(number as usize + 1, packet);
        }
        self.packets[number as usize] = packet;
        self.give(now, self.plan.core(packet.from, packet.hash), Task::Send(number));
    }

    /// Records that the last bit of a packet will have left its NIC at `at`.
    pub fn leaves(&mut self, number: u32, at: Time) {
        let HostPacket { from, to, way, .. } = self.packets[number as usize];
        let queue = self.plan.transmit_queue(from, to, way);
        self.outputs.push_back(Output::At(at, Event::Left(queue)));
    }

    /// Takes a packet whose last bit has arrived at this NIC.
    pub fn arrive(&mut self, now: Time, number: u32, nic: u32) {
        let HostPacket { to, bytes, .. } = self.packets[number as usize];
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

    /// Has the program read a packet that the stack has in order.
    pub fn read(&mut self, now: Time, number: u32) {
        let HostPacket { to, hash, .. } = self.packets[number as usize];
        self.give(now, self.plan.core(to, hash), Task::Read(number));
    }

    /// Frees the buffer of a packet that the stack had and nobody will read.
    pub fn release(&mut self, number: u32) {
        let HostPacket { to, owner, buffer, class, .. } = self.packets[number as usize];
        if !self.caches.is_empty() {
            self.caches[to as usize].release(class, buffer, self.plan.sizes[class as usize]);
        }
        let stock = &mut self.stocks[self.plan.stock(owner) as usize];
        self.buffers[owner as usize].free(class, buffer, stock);
    }

    /// Handles an event that is due.
    pub fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Core(core) => self.done(now, core),
            Event::Doorbell(queue) => self.fetch(now, queue),
            Event::Fetched(number) => {
                let HostPacket { from, to, way, .. } = self.packets[number as usize];
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

    /// Returns counts of what happened so far.
    pub fn counts(&self) -> HostCounts {
        let busy = self.cores.made().map(|core| core.busy.as_ps()).collect::<Vec<_>>();
        let (hits, loads) =
            self.caches.made().fold((0, 0), |(h, l), cache| (h + cache.hits, l + cache.loads));
        let busiest = Time::from_ps(busy.iter().copied().max().unwrap_or(0));
        let mean = Time::from_ps(busy.iter().sum::<u64>() / self.cores.len().max(1) as u64);
        let (local_bytes, remote_bytes) = self.memory.bytes();
        HostCounts { hits, loads, busiest, mean, local_bytes, remote_bytes, ..self.counts }
    }

    /// Returns whether nothing is under way, and no buffer is in use.
    pub fn is_at_rest(&self) -> bool {
        self.cores.made().all(|core| core.is_idle())
            && self.headroom.iter().all(|held| *held == 0)
            && self.transmit.made().all(|queue| queue.is_at_rest())
            && self.receive.made().all(|queue| queue.is_at_rest(self.plan.spec.nic.receive_queue))
            && self.programs.is_at_rest()
            && self.buffers.made().all(|buffers| buffers.used() == 0)
    }
}
