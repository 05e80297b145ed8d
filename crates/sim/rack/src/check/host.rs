//! Checks the `[host]` table: the components inside hosts.

use super::Checker;
use crate::host::{HostSpec, PoolCache};
use crate::link::LinkSpec;
use crate::network::NetworkSpec;
use crate::{Protocol, listed};
use unrack_units::{Bytes, Time};

/// Smallest and largest granularity of interleaving in CXL (DRack §2.5).
const INTERLEAVES: [Bytes; 2] = [Bytes::new(256), Bytes::new(16 << 10)];
/// Smallest and largest line of the DRAM cache. The smallest is the cache line of a processor.
const LINES: [Bytes; 2] = [Bytes::new(64), Bytes::new(64 << 10)];
/// Bytes of a section, which is a huge page (DRack §4.2).
const SECTION: u64 = 2 << 20;
const MOST_PARTS: usize = 8;
const MOST_CORES: u32 = 1024;
const MOST_QUEUED: u32 = 1 << 16;
/// Largest number of consecutive loads of a header. No network stack needs more.
const MOST_LOADS: u32 = 1 << 10;
/// Largest number of hosts in a rack, because each host has a queue for every other host of its rack.
const MOST_HOSTS: u32 = 1024;
const LARGEST_MEMORY: Bytes = Bytes::new(1 << 44);

impl Checker<'_> {
    pub(super) fn host(
        &mut self,
        network: Option<&NetworkSpec>,
        protocol: Option<Protocol>,
    ) -> Option<Option<HostSpec>> {
        let Some(node) = self.root.get("host") else { return Some(None) };
        let host = self.decode::<HostSpec>(node, "host")?;
        self.check_parts(&host);
        self.check_cache(&host.cache);
        if let Some(network) = network {
            self.check_hosts_of(&host, network);
        }
        if let Some(protocol) = protocol
            && !protocol.profile().hosts
        {
            let quoted = |name| format!("`{name}`");
            let others: Vec<String> = self.known.names(|it| it.hosts).into_iter().map(quoted).collect();
            let others = listed(&others, "or");
            let message = format!("`{protocol}` does not simulate hosts; use {others}, or leave this out");
            self.complain("host", message);
        }
        Some(Some(host))
    }

    fn check_parts(&mut self, host: &HostSpec) {
        let HostSpec { memory, cpu, nic, .. } = host;
        self.within("host.memory.rate", memory.rate, LinkSpec::SLOWEST, LinkSpec::FASTEST);
        self.within("host.memory.latency", memory.latency, Time::ZERO, LinkSpec::LONGEST);
        // Buffers of each line size need at least one section, because sizes do not share sections.
        let sections = Bytes::new(SECTION * host.cache.lines.len().max(1) as u64);
        self.within("host.memory.size", memory.size, sections, LARGEST_MEMORY);
        self.power_of_two("host.memory.interleave", memory.interleave, INTERLEAVES);
        self.within("host.memory.outstanding_loads", memory.outstanding_loads, 1, MOST_QUEUED);
        self.within("host.cpu.cores", cpu.cores, 1, MOST_CORES);
        self.within("host.cpu.packet_time", cpu.packet_time, Time::ZERO, LinkSpec::LONGEST);
        self.within("host.cpu.header_loads", cpu.header_loads, 0, MOST_LOADS);
        self.within("host.cpu.interrupt_time", cpu.interrupt_time, Time::ZERO, LinkSpec::LONGEST);
        if let Some(time) = cpu.reference_time {
            self.within("host.cpu.reference_time", time, Time::ZERO, LinkSpec::LONGEST);
        }
        if let Some(rate) = cpu.copy_rate {
            self.within("host.cpu.copy_rate", rate, LinkSpec::SLOWEST, LinkSpec::FASTEST);
        }
        self.check_link("host.nic.dma", &nic.dma);
        self.within("host.nic.transmit_queue", nic.transmit_queue, 1, MOST_QUEUED);
        self.within("host.nic.receive_queue", nic.receive_queue, 1, MOST_QUEUED);
        self.within("host.nic.interrupt_batch", nic.interrupt_batch, 1, MOST_QUEUED);
        self.within("host.nic.interrupt_delay", nic.interrupt_delay, Time::ZERO, LinkSpec::LONGEST);
        if host.references() && !host.memory_pool {
            self.complain(
                "host.references",
                "references need memory that both hosts reach: set `memory_pool` too",
            );
        }
    }

    fn check_cache(&mut self, cache: &PoolCache) {
        let PoolCache { size, ways, lines, latency, .. } = cache;
        self.within("host.cache.latency", *latency, Time::ZERO, LinkSpec::LONGEST);
        self.within("host.cache.ways", *ways, 1, MOST_QUEUED);
        self.within("host.cache.size", *size, Bytes::new(64), LARGEST_MEMORY);
        if !(1..=MOST_PARTS).contains(&lines.len()) || !lines.is_sorted_by(|a, b| a < b) {
            let message =
                format!("expected 1 to {MOST_PARTS} sizes of lines, each larger than the one before");
            return self.complain("host.cache.lines", message);
        }
        lines.iter().for_each(|line| self.power_of_two("host.cache.lines", *line, LINES));
        let all = lines.iter().fold(0u64, |sum, line| sum.saturating_add(line.get()));
        let set = all.saturating_mul(u64::from(*ways));
        if size.get() < set {
            let message =
                format!("{size} is less than one set of {ways} lines in each part, {}", Bytes::new(set));
            self.complain("host.cache.size", message);
        }
    }

    fn check_hosts_of(&mut self, host: &HostSpec, network: &NetworkSpec) {
        let topology = &network.topology;
        if topology.is_direct() {
            let message =
                format!("a `{}` has no switches, which `[host]` needs; leave this out", topology.kind());
            return self.complain("host", message);
        }
        let (of_rack, nics) = topology.hosts_and_nics();
        if of_rack > MOST_HOSTS {
            self.complain("host", format!("{of_rack} hosts to a rack are more than {MOST_HOSTS}"));
        }
        if host.nic.headroom < network.mtu {
            let message =
                format!("{} cannot hold a packet of {}, the mtu: give more", host.nic.headroom, network.mtu);
            self.complain("host.nic.headroom", message);
        }
        let queues = u64::from(nics) + u64::from(of_rack);
        let buffer = network.mtu.get().checked_next_power_of_two().unwrap_or(u64::MAX);
        let posted = (u64::from(host.nic.receive_queue) * queues).saturating_mul(buffer);
        if posted > host.memory.size.get() {
            let message = format!(
                "{} of a host is less than its receive queues need, {}",
                host.memory.size,
                Bytes::new(posted)
            );
            self.complain("host.memory.size", message);
        }
    }

    fn power_of_two(&mut self, path: &str, size: Bytes, [least, most]: [Bytes; 2]) {
        if !size.get().is_power_of_two() || !(least..=most).contains(&size) {
            self.complain(path, format!("{size} is no power of two from {least} to {most}"));
        }
    }
}
