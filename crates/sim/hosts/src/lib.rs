//! The inside of hosts: memory, CXL ports, DMA engines, virtual NICs, cores, and a cache (DRack §4, §5).
//!
//! A fabric of packets hands over packets that a node sends ([`Hosts::send`]) and packets that have arrived at a NIC
//! ([`Hosts::arrive`]). [`Hosts::poll`] returns when a packet may be put on a wire, when the network stack has it, and
//! when the program has read it. Like a protocol core, this module has no clock: it asks the fabric to call it again
//! later ([`Output::At`]).
//!
//! | module | idea |
//! |---|---|
//! | [`timeline`] | a link or a memory that serves one transfer at a time |
//! | [`interleave`] | placement of a transfer in memories |
//! | [`memory`] | paths between cores, NICs and memories, and loads of many lines at once |
//! | [`buffers`] | sections of the pool, divided into buffers |
//! | [`cache`] | the DRAM cache of a host |
//! | [`queues`] | virtual NICs: posted packets, received packets, and the times of interrupts |
//! | [`cores`] | cores that process packets, one task after the other |
//! | [`programs`] | loads of programs while they compute |
//! | [`reading`] | packets of a stream that its program has not yet read |
//! | [`plan`] | the numbering of hosts, queues and cores |
//! | [`sparse`] | arrays whose items are allocated when they are first changed |
//!
//! The path of a packet is as follows. A core processes it (*send*), posts it, and rings the doorbell of the NIC. The
//! DMA engine reads descriptors and data, and the packet crosses the network. At the receiver, the DMA engine writes
//! the packet to a receive buffer, followed by a completion. A batch of completions raises an interrupt. A core then
//! processes each packet (*stack*): it loads the header from the memory that holds the buffer, and passes the packet to
//! TCP. Finally, the program loads the data that are in order (*read*). Within a rack, the sender passes a reference to
//! the data instead: it stores one line in the memory of the receiver.
//!
//! Events concern packets, not lines: a transfer books each memory and each link that it crosses once, for all of its
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

use self::buffers::{BufferStock, HostBuffers};
use self::cache::Cache;
use self::cores::{Core, CoreTask};
use self::memory::{Memory, MemoryAgent};
pub use self::plan::{HostExit, HostPlan};
use self::programs::HostPrograms;
use self::queues::{Receive, TransmitQueue};
pub use self::reading::StreamReading;
use self::sparse::Sparse;
use std::collections::VecDeque;
use unrack_engine::HostCounts;
use unrack_units::Time;
use unrack_workload::{Endpoints, NodeId};

/// All hosts of a network.
pub struct Hosts {
    plan: HostPlan,
    memory: Memory,
    /// DRAM cache of each host; empty if hosts have no cache.
    caches: Sparse<Cache, 1>,
    /// Cores, by host and then by number.
    cores: Sparse<Core, 16>,
    transmit: Sparse<TransmitQueue, 32>,
    receive: Sparse<Receive, 32>,
    /// Free sections of each rack; without a memory pool, of each host.
    stocks: Vec<BufferStock>,
    /// Buffers of each host.
    buffers: Sparse<HostBuffers, 4>,
    /// Address of the data that each host sends next.
    data: Vec<u64>,
    programs: HostPrograms,
    /// Bytes that have arrived at each NIC and are not yet in memory.
    headroom: Vec<u64>,
    /// Packets, by the number that the fabric assigned to them.
    packets: Vec<HostPacket>,
    counts: HostCounts,
    outputs: VecDeque<HostOutput>,
}

/// A packet, as its hosts see it.
#[derive(Debug, Clone, Copy)]
pub struct HostPacket {
    pub from: NodeId,
    pub to: NodeId,
    /// Hash of the stream, which selects the core that processes the packet.
    pub hash: u32,
    /// Bytes of headers and payload in memory.
    pub bytes: u32,
    pub payload: u32,
    pub way: HostExit,
    /// Buffer to which the packet was written.
    buffer: u64,
    /// Class of this buffer.
    class: u8,
    /// Host that owns the buffer and frees it.
    owner: NodeId,
}

impl HostPacket {
    /// Creates a packet that has no buffer yet. `bytes` is its size in memory, which includes `payload`.
    pub fn new(ends: Endpoints, hash: u32, way: HostExit, bytes: u32, payload: u32) -> HostPacket {
        let Endpoints { src: from, dst: to } = ends;
        HostPacket { from, to, hash, bytes, payload, way, buffer: 0, class: 0, owner: to }
    }
}

/// Event for which [`Hosts::handle`] is called again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A core has finished its task.
    Core(u32),
    /// A NIC reads the descriptors that were posted to this transmit queue.
    Doorbell(u32),
    /// A NIC has read the data of this packet.
    Fetched(u32),
    /// A packet of this transmit queue has left its NIC.
    Left(u32),
    /// This packet, or the reference to it, is in memory, and so is its completion.
    Written(u32),
    /// The time limit of this receive queue has expired: its packets no longer wait for further packets, and raise an
    /// interrupt.
    Late(u32),
    /// The loads of this program have completed, and it has computed with the loaded data.
    Loaded(u32),
}

/// Output that the fabric must act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOutput {
    /// The fabric must call [`Hosts::handle`] with the event at this time.
    At(Time, Event),
    /// This packet is ready for the wire, at this NIC.
    Wire(u32, u32),
    /// The network stack has processed this packet.
    Stack(u32),
    /// The program has read this packet, and its buffer is free.
    Read(u32),
    /// This packet was lost, because a queue, a buffer or the headroom was exhausted.
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
            transmit: Sparse::new(queues, TransmitQueue::default()),
            receive: Sparse::new(queues, Receive::new(&plan.spec.nic)),
            stocks: (0..stocks).map(|_| BufferStock::new(bytes)).collect(),
            buffers: Sparse::new(hosts, HostBuffers::new(&plan.sizes)),
            data: vec![0; hosts as usize],
            programs: HostPrograms::new(hosts),
            headroom: vec![0; plan.nics() as usize],
            packets: Vec::new(),
            counts: HostCounts::default(),
            outputs: VecDeque::new(),
            plan,
        }
    }

    /// Removes and returns the next output; `None` if there is none.
    pub fn poll(&mut self) -> Option<HostOutput> {
        self.outputs.pop_front()
    }

    /// Returns whether a packet may be sent this way now, because its queue has room and no other packet waits for it.
    pub fn is_open(&self, from: NodeId, to: NodeId, way: HostExit) -> bool {
        let queue = self.plan.transmit_queue(from, to, way);
        self.transmit[queue as usize].waiting.is_empty() && self.has_room(queue)
    }

    /// Returns whether a transmit queue, or the queue of references that it represents, has room for another packet.
    pub fn has_room(&self, queue: u32) -> bool {
        let nic = &self.plan.spec.nic;
        let most = if self.plan.is_of_nic(queue) { nic.transmit_queue } else { nic.receive_queue };
        self.transmit[queue as usize].outstanding < most
    }

    /// Returns the way by which a packet leaves its host. `nic` is the NIC that it uses if it leaves by a NIC.
    pub fn way(&self, from: NodeId, to: NodeId, nic: u32) -> HostExit {
        let inside = self.plan.rack_of(from) == self.plan.rack_of(to);
        let by_cxl = self.plan.spec.references() || self.plan.nics_are_pooled();
        if inside && by_cxl { HostExit::Rack } else { HostExit::Nic(nic) }
    }

    /// Queues `waiting` for room in the queue of this way, behind earlier ones.
    pub fn wait(&mut self, from: NodeId, to: NodeId, way: HostExit, waiting: u32) {
        let queue = self.plan.transmit_queue(from, to, way);
        self.transmit[queue as usize].waiting.push_back(waiting);
        if self.transmit[queue as usize].waiting.len() == 1 && self.has_room(queue) {
            self.outputs.push_back(HostOutput::Room(queue));
        }
    }

    /// Removes and returns the first entry that waits for room in a transmit queue.
    pub fn next_waiting(&mut self, queue: u32) -> Option<u32> {
        self.transmit[queue as usize].waiting.pop_front()
    }

    /// Sends a packet from the network stack of `packet.from`. `number` is the number that the fabric uses for the
    /// packet.
    pub fn send(&mut self, now: Time, number: u32, packet: HostPacket) {
        let queue = self.plan.transmit_queue(packet.from, packet.to, packet.way);
        self.transmit[queue as usize].outstanding += 1;
        if self.packets.len() <= number as usize {
            self.packets.resize(number as usize + 1, packet);
        }
        self.packets[number as usize] = packet;
        self.give(now, self.plan.core(packet.from, packet.hash), CoreTask::Send(number));
    }

    /// Records that the last bit of a packet will leave its NIC at `at`.
    pub fn leaves(&mut self, number: u32, at: Time) {
        let HostPacket { from, to, way, .. } = self.packets[number as usize];
        let queue = self.plan.transmit_queue(from, to, way);
        self.outputs.push_back(HostOutput::At(at, Event::Left(queue)));
    }

    /// Accepts a packet whose last bit has arrived at this NIC. The packet is lost if the NIC lacks headroom or a
    /// descriptor, or if no buffer is free.
    pub fn arrive(&mut self, now: Time, number: u32, nic: u32) {
        let HostPacket { to, bytes, .. } = self.packets[number as usize];
        if self.headroom[nic as usize] + u64::from(bytes) > self.plan.spec.nic.headroom.get() {
            self.counts.no_room += 1;
            return self.outputs.push_back(HostOutput::Lost(number));
        }
        let queue = self.plan.receive_queue_of_nic(to, nic);
        if self.receive[queue as usize].posted == 0 {
            self.counts.no_descriptor += 1;
            return self.outputs.push_back(HostOutput::Lost(number));
        }
        self.packets[number as usize].way = HostExit::Nic(nic);
        if self.write(now, now, number, MemoryAgent::Nic(nic)) {
            self.headroom[nic as usize] += u64::from(bytes);
            self.receive[queue as usize].posted -= 1;
        }
    }

    /// Makes the program read a packet that the network stack has in order.
    pub fn read(&mut self, now: Time, number: u32) {
        let HostPacket { to, hash, .. } = self.packets[number as usize];
        self.give(now, self.plan.core(to, hash), CoreTask::Read(number));
    }

    /// Frees the buffer of a packet that the network stack has processed and that no program will read.
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
                self.outputs.push_back(HostOutput::Wire(number, nic));
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

    /// Returns the counts so far.
    pub fn counts(&self) -> HostCounts {
        let busy = self.cores.made().map(|core| core.busy.as_ps()).collect::<Vec<_>>();
        let (hits, loads) =
            self.caches.made().fold((0, 0), |(h, l), cache| (h + cache.hits, l + cache.loads));
        let busiest = Time::from_ps(busy.iter().copied().max().unwrap_or(0));
        let mean = Time::from_ps(busy.iter().sum::<u64>() / self.cores.len().max(1) as u64);
        let (local_bytes, remote_bytes) = self.memory.bytes();
        HostCounts { hits, loads, busiest, mean, local_bytes, remote_bytes, ..self.counts }
    }

    /// Returns whether no work is in progress and no buffer is in use.
    pub fn is_at_rest(&self) -> bool {
        self.cores.made().all(|core| core.is_idle())
            && self.headroom.iter().all(|held| *held == 0)
            && self.transmit.made().all(|queue| queue.is_at_rest())
            && self.receive.made().all(|queue| queue.is_at_rest(self.plan.spec.nic.receive_queue))
            && self.programs.is_at_rest()
            && self.buffers.made().all(|buffers| buffers.used() == 0)
    }
}
