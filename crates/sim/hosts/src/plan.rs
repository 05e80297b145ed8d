//! Numbering of hosts, queues and cores, and the sizes of buffers.

use std::sync::Arc;
use unrack_engine::HostModel;
use unrack_engine::topology::{Link, Topology};
use unrack_rack::HostSpec;
use unrack_units::Time;
use unrack_workload::NodeId;

/// Way by which a packet leaves its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostExit {
    /// The packet leaves through this NIC.
    Nic(u32),
    /// The packet goes to another host of the rack, over CXL.
    Rack,
}

/// Numbering of the hosts of a network and of their parts.
#[derive(Debug, Clone)]
pub struct HostPlan {
    pub spec: Arc<HostSpec>,
    pub hosts: u32,
    /// Number of hosts in a rack.
    pub of_rack: u32,
    /// Number of NICs that a host may use.
    pub nics_each: u32,
    /// Link of the CXL port of a host.
    pub cxl: Link,
    /// Size in bytes of the buffers of each class.
    pub sizes: Arc<[u64]>,
}

impl HostPlan {
    /// Creates the plan. `packet` is the largest number of bytes that a packet takes in memory.
    pub fn new(inside: &HostModel, topology: &Topology, packet: u64) -> HostPlan {
        let HostModel { spec, cxl } = inside.clone();
        let mut sizes: Vec<u64> = spec.cache.lines.iter().map(|line| line.get()).collect();
        if let Some(largest) = sizes.last_mut() {
            *largest = packet.max(1).next_multiple_of(*largest);
        }
        let (hosts, of_rack) = (topology.nodes(), topology.racks().hosts);
        HostPlan { spec, hosts, of_rack, nics_each: topology.pooled(), cxl, sizes: sizes.into() }
    }

    /// Returns an estimate for timers: the time of a single packet between the network stacks of two hosts, without the
    /// wires. It is rather too long than too short.
    pub fn patience(&self) -> Time {
        let HostSpec { memory, cpu, nic, .. } = &*self.spec;
        let far = memory.latency + self.cxl.propagation * 4 + nic.dma.propagation * 2;
        let handled = cpu.packet_time * 2 + cpu.interrupt_time + far * u64::from(cpu.header_loads + 1);
        // Of the five accesses, two read descriptors and data, and three write data, completion and interrupt.
        handled + nic.interrupt_delay + far * 5
    }

    /// Returns the number of queues of a host in each direction: one for each virtual NIC, followed by one for each
    /// host of its rack.
    pub fn queues(&self) -> u32 {
        self.nics_each + self.of_rack
    }

    /// Returns the number of NICs. There is one for each host, even if hosts share them.
    pub fn nics(&self) -> u32 {
        self.hosts
    }

    /// Returns the rack of a host.
    pub fn rack_of(&self, host: NodeId) -> u32 {
        host / self.of_rack
    }

    fn first_nic(&self, host: NodeId) -> u32 {
        if self.nics_are_pooled() { self.rack_of(host) * self.of_rack } else { host }
    }

    /// Returns whether the hosts of a rack share their NICs.
    pub fn nics_are_pooled(&self) -> bool {
        self.nics_each > 1
    }

    /// Returns the number of the transmit queue for a packet that leaves this way.
    pub fn transmit_queue(&self, from: NodeId, to: NodeId, way: HostExit) -> u32 {
        from * self.queues()
            + match way {
                HostExit::Nic(nic) => nic - self.first_nic(from),
                HostExit::Rack => self.nics_each + to % self.of_rack,
            }
    }

    /// Returns the number of the receive queue of a virtual NIC.
    pub fn receive_queue_of_nic(&self, to: NodeId, nic: u32) -> u32 {
        to * self.queues() + nic - self.first_nic(to)
    }

    /// Returns the number of a queue of references. A host has one such queue for each sender (§4.3).
    pub fn reference_queue(&self, from: NodeId, to: NodeId) -> u32 {
        to * self.queues() + self.nics_each + from % self.of_rack
    }

    /// Returns the host to which a queue belongs.
    pub fn host_of_queue(&self, queue: u32) -> NodeId {
        queue / self.queues()
    }

    /// Returns whether a transmit queue belongs to a virtual NIC.
    pub fn is_of_nic(&self, queue: u32) -> bool {
        queue % self.queues() < self.nics_each
    }

    /// Returns the NIC of a transmit queue.
    pub fn nic_of_queue(&self, queue: u32) -> u32 {
        self.first_nic(self.host_of_queue(queue)) + queue % self.queues()
    }

    /// Returns the core that processes the stream with this hash, or the interrupts of the queue with this number.
    pub fn core(&self, host: NodeId, hash: u32) -> u32 {
        host * self.spec.cpu.cores + hash % self.spec.cpu.cores
    }

    /// Returns the host to which a core belongs.
    pub fn host_of_core(&self, core: u32) -> NodeId {
        core / self.spec.cpu.cores
    }

    /// Returns the number of the stock from which a host leases sections.
    pub fn stock(&self, host: NodeId) -> u32 {
        if self.spec.memory_pool { self.rack_of(host) } else { host }
    }

    /// Returns the class of the smallest buffers that can hold a packet.
    pub fn class(&self, bytes: u32) -> u8 {
        let class = self.sizes.iter().position(|size| u64::from(bytes) <= *size);
        class.expect("the largest buffers hold every packet") as u8
    }
}
