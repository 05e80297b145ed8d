//! Work of cores and NICs on packets, and the time that it takes.

use super::cores::CoreTask;
use super::memory::{ByteLocation, LINE, MemoryAgent};
use super::queues::Asks;
use super::{Event, HostExit, HostOutput, HostPacket, Hosts};
use unrack_units::{Bytes, Time};
use unrack_workload::NodeId;

/// Bytes of a descriptor or a completion, as in the 82599.
const DESCRIPTOR: u64 = 16;

impl Hosts {
    pub(super) fn give(&mut self, now: Time, core: u32, task: CoreTask) {
        if self.cores[core as usize].give(task) {
            self.begin(now, core);
        }
    }

    fn begin(&mut self, now: Time, core: u32) {
        let Some(task) = self.cores[core as usize].begin() else { return };
        let until = self.until(now, self.plan.host_of_core(core), task);
        self.cores[core as usize].busy += until - now;
        self.outputs.push_back(HostOutput::At(until, Event::Core(core)));
    }

    /// Returns the time at which a task that begins now is done.
    fn until(&mut self, now: Time, host: NodeId, task: CoreTask) -> Time {
        let cpu = &self.plan.spec.cpu;
        match task {
            CoreTask::Send(number) => {
                let packet = self.packets[number as usize];
                now + self.polled_in(packet.way).unwrap_or(cpu.packet_time)
            }
            CoreTask::Interrupt(_) => now + cpu.interrupt_time,
            CoreTask::Stack(number) => {
                let packet = self.packets[number as usize];
                let polled = self.polled_in(packet.way).map(|time| (time, 0));
                let (handled, loads) = polled.unwrap_or((cpu.packet_time, cpu.header_loads));
                let descriptor = self.memory.load(now, host, ByteLocation::Own(host), DESCRIPTOR);
                self.load_header(now, descriptor, host, packet, loads) + handled
            }
            CoreTask::Read(number) => self.load_payload(now, host, self.packets[number as usize]),
        }
    }

    /// Returns the processing time of a packet that passes by reference outside the network stack; `None` for other
    /// packets.
    fn polled_in(&self, way: HostExit) -> Option<Time> {
        self.plan.spec.reference_time().filter(|_| way == HostExit::Rack)
    }

    pub(super) fn done(&mut self, now: Time, core: u32) {
        match self.cores[core as usize].end() {
            CoreTask::Send(number) => self.post(now, number),
            CoreTask::Interrupt(queue) => self.look(now, queue),
            CoreTask::Stack(number) => self.through(now, number),
            CoreTask::Read(number) => {
                self.release(number);
                self.outputs.push_back(HostOutput::Read(number));
            }
        }
        // Handling the task may already have begun another one.
        if self.cores[core as usize].is_idle() {
            self.begin(now, core);
        }
    }
}

/// Sending.
impl Hosts {
    /// Posts a packet that the network stack has processed, by writing its descriptor.
    fn post(&mut self, now: Time, number: u32) {
        let packet = self.packets[number as usize];
        match packet.way {
            HostExit::Rack if self.plan.spec.references() => self.refer(now, number),
            HostExit::Rack => {
                let read = self.read_data(now, now, MemoryAgent::Core(packet.from), packet);
                self.write(now, read, number, MemoryAgent::Core(packet.from));
            }
            HostExit::Nic(_) => {
                let queue = self.plan.transmit_queue(packet.from, packet.to, packet.way);
                let place = &mut self.transmit[queue as usize];
                place.posted.push_back(number);
                if !std::mem::replace(&mut place.busy, true) {
                    self.counts.doorbells += 1;
                    self.outputs
                        .push_back(HostOutput::At(now + self.memory.to_nic(), Event::Doorbell(queue)));
                }
            }
        }
    }

    /// Makes a NIC read all posted descriptors at once (§4.2), followed by the data of their packets.
    pub(super) fn fetch(&mut self, now: Time, queue: u32) {
        let place = &mut self.transmit[queue as usize];
        let mut batch = std::mem::take(&mut place.posted);
        if batch.is_empty() {
            place.busy = false;
            return;
        }
        let nic = MemoryAgent::Nic(self.plan.nic_of_queue(queue));
        let host = self.plan.host_of_queue(queue);
        let mut at =
            self.memory.read(now, nic, now, ByteLocation::Own(host), DESCRIPTOR * batch.len() as u64);
        let known = at;
        for number in batch.drain(..) {
            at = at.max(self.read_data(now, known, nic, self.packets[number as usize]));
            self.outputs.push_back(HostOutput::At(at, Event::Fetched(number)));
        }
        self.transmit[queue as usize].posted = batch;
        self.outputs.push_back(HostOutput::At(at, Event::Doorbell(queue)));
    }

    /// Reads the data that a host sends next. Its data are consecutive in its buffers. Returns the time at which they
    /// have arrived.
    fn read_data(&mut self, now: Time, at: Time, agent: MemoryAgent, packet: HostPacket) -> Time {
        let bytes = u64::from(packet.bytes);
        let size = self.plan.sizes[self.plan.class(packet.bytes) as usize];
        let next = &mut self.data[packet.from as usize];
        let place = ByteLocation::Buffer(packet.from, *next);
        *next = next.wrapping_add(size) % self.plan.spec.memory.size.get();
        self.memory.read(now, agent, at, place, bytes)
    }

    /// Releases the entry of a packet that has left its transmit queue.
    pub(super) fn free_place(&mut self, queue: u32) {
        self.transmit[queue as usize].outstanding -= 1;
        self.outputs.push_back(HostOutput::Room(queue));
    }

    /// Stores, in the memory of the receiver, a reference to data in a buffer of the sender.
    fn refer(&mut self, now: Time, number: u32) {
        let HostPacket { from, to, bytes, .. } = self.packets[number as usize];
        if self.assign(number, bytes, from) {
            let there = self.memory.write(now, MemoryAgent::Core(from), now, ByteLocation::Own(to), LINE);
            self.outputs.push_back(HostOutput::At(there, Event::Written(number)));
        }
    }
}

/// Receiving.
impl Hosts {
    /// Assigns a buffer of `owner` to a packet. If no buffer is free, the packet is lost. Returns whether a buffer was
    /// assigned.
    fn assign(&mut self, number: u32, bytes: u32, owner: NodeId) -> bool {
        let class = self.plan.class(bytes);
        let stock = &mut self.stocks[self.plan.stock(owner) as usize];
        match self.buffers[owner as usize].take(class, stock) {
            Some(buffer) => {
                let packet = &mut self.packets[number as usize];
                (packet.buffer, packet.class, packet.owner) = (buffer, class, owner);
                true
            }
            None => {
                self.counts.no_buffer += 1;
                let HostPacket { from, to, way, .. } = self.packets[number as usize];
                if way == HostExit::Rack {
                    self.free_place(self.plan.transmit_queue(from, to, way));
                }
                self.outputs.push_back(HostOutput::Lost(number));
                false
            }
        }
    }

    /// Writes a packet that is available at `at` to a receive buffer, followed by its completion. Returns whether a
    /// buffer was free.
    pub(super) fn write(&mut self, now: Time, at: Time, number: u32, agent: MemoryAgent) -> bool {
        let HostPacket { to, bytes, .. } = self.packets[number as usize];
        let has_buffer = self.assign(number, bytes, to);
        if has_buffer {
            let buffer = ByteLocation::Buffer(to, self.packets[number as usize].buffer);
            let there = self.memory.write(now, agent, at, buffer, u64::from(bytes));
            let told = self.memory.write(now, agent, there, ByteLocation::Own(to), DESCRIPTOR);
            self.outputs.push_back(HostOutput::At(told, Event::Written(number)));
        }
        has_buffer
    }

    fn queue_of(&self, packet: &HostPacket) -> u32 {
        match packet.way {
            HostExit::Nic(nic) => self.plan.receive_queue_of_nic(packet.to, nic),
            HostExit::Rack => self.plan.reference_queue(packet.from, packet.to),
        }
    }

    pub(super) fn written(&mut self, now: Time, number: u32) {
        let packet = self.packets[number as usize];
        if let HostExit::Nic(nic) = packet.way {
            self.headroom[nic as usize] -= u64::from(packet.bytes);
        }
        if self.polled_in(packet.way).is_some() {
            return self.give(now, self.plan.core(packet.to, packet.hash), CoreTask::Stack(number));
        }
        let queue = self.queue_of(&packet);
        match self.receive[queue as usize].complete(now, number) {
            Asks::Nothing => {}
            Asks::Later(at) => self.outputs.push_back(HostOutput::At(at, Event::Late(queue))),
            Asks::Interrupt => self.interrupt(now, queue),
        }
    }

    pub(super) fn interrupt(&mut self, now: Time, queue: u32) {
        self.counts.interrupts += 1;
        self.give(now, self.plan.core(self.plan.host_of_queue(queue), queue), CoreTask::Interrupt(queue));
    }

    /// Distributes the packets that have arrived to the cores of their streams.
    fn look(&mut self, now: Time, queue: u32) {
        let mut batch = self.receive[queue as usize].take();
        for number in batch.drain(..) {
            let HostPacket { to, hash, .. } = self.packets[number as usize];
            self.give(now, self.plan.core(to, hash), CoreTask::Stack(number));
        }
        self.receive[queue as usize].completed = batch;
    }

    /// Ends the work of the network stack on a received packet, and posts a descriptor of a new receive buffer in its
    /// place.
    fn through(&mut self, now: Time, number: u32) {
        let packet = self.packets[number as usize];
        if self.polled_in(packet.way).is_none() {
            let queue = self.queue_of(&packet);
            let place = &mut self.receive[queue as usize];
            place.posted += u32::from(packet.way != HostExit::Rack);
            if place.through() {
                self.look(now, queue);
            }
        }
        if packet.way == HostExit::Rack {
            self.free_place(self.plan.transmit_queue(packet.from, packet.to, packet.way));
        }
        self.outputs.push_back(HostOutput::Stack(number));
    }

    /// Returns the time at which a core has loaded a header `loads` times in sequence.
    fn load_header(&mut self, now: Time, mut at: Time, host: NodeId, packet: HostPacket, loads: u32) -> Time {
        for _ in 0..loads {
            at = match self.caches.is_empty() {
                true => self.memory.read(
                    now,
                    MemoryAgent::Core(host),
                    at,
                    ByteLocation::Buffer(packet.owner, packet.buffer),
                    LINE,
                ),
                false => {
                    let found = self.cached(now, at, host, &packet, packet.buffer);
                    self.caches[host as usize].count(LINE, found.1);
                    found.0.max(at) + self.plan.spec.cache.latency
                }
            };
        }
        at
    }

    /// Returns the time at which the cache has the line with this address, and whether the line was already there or
    /// being fetched. A missing line is fetched.
    fn cached(
        &mut self,
        now: Time,
        at: Time,
        host: NodeId,
        packet: &HostPacket,
        address: u64,
    ) -> (Time, bool) {
        let class = packet.class;
        if let Some(ready) = self.caches[host as usize].find(class, address) {
            return (ready, true);
        }
        let line = self.caches[host as usize].line(class);
        let size = self.plan.sizes[class as usize];
        let first = address / line * line;
        let end = (packet.buffer + size).min(first + line * (1 + u64::from(self.plan.spec.cache.prefetch)));
        let mut missing = at;
        for next in (first..end).step_by(line as usize) {
            if next != first && self.caches[host as usize].find(class, next).is_some() {
                continue;
            }
            let ready = self.fetch_line(now, at, host, (packet.owner, class), next);
            missing = if next == first { ready } else { missing };
        }
        (missing, false)
    }

    /// Fetches the line with this address, from the pool of `owner`, into the cache. Returns the time at which it is
    /// there.
    pub(super) fn fetch_line(
        &mut self,
        now: Time,
        at: Time,
        host: NodeId,
        (owner, part): (NodeId, u8),
        address: u64,
    ) -> Time {
        let line = self.caches[host as usize].line(part);
        let from = ByteLocation::Buffer(owner, address / line * line);
        let ready = self.memory.read(now, MemoryAgent::Core(host), at, from, line);
        self.caches[host as usize].fill(part, address, ready);
        ready
    }

    /// Returns the time at which the program has loaded the data of a packet and, unless it reads them in place, stored
    /// a copy.
    fn load_payload(&mut self, now: Time, host: NodeId, packet: HostPacket) -> Time {
        if self.plan.spec.references() && !self.plan.spec.program_loads {
            return now;
        }
        let payload = u64::from(packet.payload);
        let from = packet.buffer + u64::from(packet.bytes - packet.payload);
        let loaded = match self.caches.is_empty() {
            true => self.memory.load(now, host, ByteLocation::Buffer(packet.owner, from), payload),
            false => self.load_cached(now, host, &packet, from, payload),
        };
        match self.plan.spec.references() {
            true => loaded,
            false => {
                let copied =
                    self.plan.spec.cpu.copy_rate.map(|rate| now + rate.transmit(Bytes::new(payload)));
                loaded.max(self.memory.store(now, host, now, payload)).max(copied.unwrap_or(now))
            }
        }
    }

    fn load_cached(&mut self, now: Time, host: NodeId, packet: &HostPacket, from: u64, payload: u64) -> Time {
        let line = self.caches[host as usize].line(packet.class);
        let mut ready = now;
        let mut address = from;
        while address < from + payload {
            let end = (address / line + 1) * line;
            let (there, found) = self.cached(now, now, host, packet, address);
            self.caches[host as usize].count(end.min(from + payload) - address, found);
            ready = ready.max(there);
            address = end;
        }
        self.hit(ready, payload.div_ceil(LINE))
    }
}
