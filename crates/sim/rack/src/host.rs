//! Components inside a host: memory, CXL port, virtual NICs, cores, and a cache of the memory of its rack.

use crate::link::LinkSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Rate, Time};

/// Components of every host (DRack §4, §5). Each can be turned off. `network.cxl_link` is the link of the CXL port of a
/// host; a load from the memory of another host crosses it four times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostSpec {
    /// Whether buffers are spread over the memories of all hosts of the rack (M in DRack). Otherwise each buffer is in
    /// the memory of its own host. Default true.
    pub memory_pool: bool,
    /// Whether each host has a cache of the data that it loads from the pool (C in DRack). Default true.
    pub dram_cache: bool,
    /// Whether programs read data in place, so that only references pass within a rack (§4.3, §5.1). Otherwise data are
    /// sent, and copied once more on their way to the program. Default: as `memory_pool`, because references need the
    /// pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<bool>,
    /// Whether a message is complete when its program has loaded all of it, as latencies are measured in appendix A.4.
    /// Otherwise, with references, the message is complete when the program can load it during its computation (§5.1),
    /// as communication times are measured. Default true.
    pub program_loads: bool,
    pub memory: HostMemory,
    pub cache: PoolCache,
    pub cpu: Cpu,
    pub nic: Nic,
}

/// Memory of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostMemory {
    /// Rate of the memory. Default two channels, as in the prototype (§6), of DDR5-4800: 614.4 Gb/s.
    pub rate: Rate,
    /// Latency of a load by the host itself. Default 80 ns (§7.1: 50 to 100 ns), so that with the default
    /// `network.cxl_link` a load from the memory of another host takes 3.75 times as long (§7.1: 2.7 to 6.4).
    pub latency: Time,
    /// Memory that each host contributes to buffers: its share of the interleave set IS0. Default 12 GiB (table 1).
    pub size: Bytes,
    /// Number of consecutive bytes in one memory before the next memory follows. Default 256 B (§4.2).
    pub interleave: Bytes,
    /// Largest number of loads for which a core waits at the same time. Default 64 (§2.5).
    pub outstanding_loads: u32,
}

/// DRAM cache of a host for data of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PoolCache {
    /// Size of the cache. Default 1 GiB (table 1).
    pub size: Bytes,
    /// Number of lines per set. Default 8; the paper says "multi-way".
    pub ways: u32,
    /// Line sizes of the parts of the cache, which have equal numbers of lines. A part caches buffers of its line size,
    /// and fetches whole lines. Default 128 B and 4 KiB (§5.2).
    pub lines: Vec<Bytes>,
    /// Number of further lines of the same buffer that are fetched along with a missing one. Default 0: only the
    /// missing line is fetched.
    pub prefetch: u32,
    /// Latency of a load that hits the cache. Default 80 ns, as of local memory.
    pub latency: Time,
}

/// Cores that process packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cpu {
    /// Number of cores. One core processes all packets of a stream (§7.1: XPS, RPS). Default 4 (table 1).
    pub cores: u32,
    /// Time of a core for each packet in the network stack, sent or received, without waiting for memory. Default 1 us,
    /// which is 33 Gb/s per core in packets of 4 KiB and about as measured on Linux (Cai et al., SIGCOMM 2021).
    pub packet_time: Time,
    /// Number of consecutive loads by which the stack reads a received header. Default 4: one by the driver, and one
    /// each for link, IP and TCP. (DRack appendix A.4: "multiple times".)
    pub header_loads: u32,
    /// Time of an interrupt, without the time of its packets. Default 1 us.
    pub interrupt_time: Time,
    /// Time of the software on each side for a packet that passes by reference, if that software lies above the network
    /// stack, as `unrack sockets` does. Then the receiver polls for references, so that there is neither an interrupt
    /// nor a load of a header. Default: none, the stack handles references (§4.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_time: Option<Time>,
    /// Rate at which a core copies data on their way to the program. Default: none, so that only the loads of a core
    /// and the memory limit the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_rate: Option<Rate>,
}

/// NIC, and the virtual NIC that each host uses of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Nic {
    /// Link of the DMA engine of a NIC to its host or, where NICs are pooled, to the CXL switch. Default 256 Gb/s (PCIe
    /// 5.0 x8) and 55 ns, as `network.cxl_link`.
    pub dma: LinkSpec,
    /// Number of packets that a host may have queued at a virtual NIC and that are not yet sent. Default 64, because
    /// Linux limits the queues of drivers to the length that keeps a link busy (byte queue limits).
    pub transmit_queue: u32,
    /// Number of receive descriptors of a virtual NIC, and of entries in a queue of references. Default 512, as Linux
    /// configures the 82599 of the prototype.
    pub receive_queue: u32,
    /// Buffer of a NIC for packets that are not yet in memory. Default 256 KiB (table 1: headroom of a port).
    pub headroom: Bytes,
    /// Number of packets that raise an interrupt at once. Default 64, the number that Linux handles at once (NAPI).
    pub interrupt_batch: u32,
    /// Time after which fewer packets also raise an interrupt. Default 10 us.
    pub interrupt_delay: Time,
}

impl HostSpec {
    /// Returns whether data pass by reference within a rack.
    pub fn references(&self) -> bool {
        self.references.unwrap_or(self.memory_pool)
    }

    /// Returns the time of a packet that passes by reference outside the network stack; `None` if the stack handles
    /// references.
    pub fn reference_time(&self) -> Option<Time> {
        self.cpu.reference_time.filter(|_| self.references())
    }
}

impl Default for HostSpec {
    fn default() -> HostSpec {
        HostSpec {
            memory_pool: true,
            dram_cache: true,
            references: None,
            program_loads: true,
            memory: HostMemory::default(),
            cache: PoolCache::default(),
            cpu: Cpu::default(),
            nic: Nic::default(),
        }
    }
}

impl Default for HostMemory {
    fn default() -> HostMemory {
        HostMemory {
            rate: Rate::from_bps(614_400_000_000),
            latency: Time::from_ns(80),
            size: Bytes::new(12 << 30),
            interleave: Bytes::new(256),
            outstanding_loads: 64,
        }
    }
}

impl Default for PoolCache {
    fn default() -> PoolCache {
        PoolCache {
            size: Bytes::new(1 << 30),
            ways: 8,
            lines: vec![Bytes::new(128), Bytes::new(4096)],
            prefetch: 0,
            latency: Time::from_ns(80),
        }
    }
}

impl Default for Cpu {
    fn default() -> Cpu {
        Cpu {
            cores: 4,
            packet_time: Time::from_us(1),
            header_loads: 4,
            interrupt_time: Time::from_us(1),
            reference_time: None,
            copy_rate: None,
        }
    }
}

impl Default for Nic {
    fn default() -> Nic {
        Nic {
            dma: LinkSpec { rate: Rate::from_gbps(256), propagation: Time::from_ns(55) },
            transmit_queue: 64,
            receive_queue: 512,
            headroom: Bytes::new(256 << 10),
            interrupt_batch: 64,
            interrupt_delay: Time::from_us(10),
        }
    }
}
