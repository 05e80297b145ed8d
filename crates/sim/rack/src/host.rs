//! Inside of a host: memory, its CXL port, its virtual NICs, cores, and a cache of its rack's memory.

use crate::link::LinkSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Rate, Time};

/// Parts of every host (DRack §4, §5), each of which can be turned off. `network.cxl_link` is the link of a host's CXL
/// port: a load from another host's memory crosses it four times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostSpec {
    /// Whether buffers are spread over the memories of the rack (DRack's M); else each lies in the memory of its host.
    /// Default true.
    pub memory_pool: bool,
    /// Whether each host has a cache of what it loads from the pool (C). Default true.
    pub dram_cache: bool,
    /// Whether programs read data in place, so that only references pass within a rack (§4.3, §5.1); else data are
    /// sent, and copied once more on their way to the program. Default: as `memory_pool`, which references need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<bool>,
    /// Whether a message is complete when its program has loaded all of it (as latencies in appendix A.4 are measured).
    /// Else, with references, it is complete when it lies where the program can load it while it computes (§5.1), as
    /// for communication times. Default true.
    pub program_loads: bool,
    pub memory: HostMemory,
    pub cache: DramCache,
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
    /// `network.cxl_link` a load from another host's memory takes 3.75 times as long (§7.1: 2.7 to 6.4).
    pub latency: Time,
    /// Memory of each host for buffers: its share of the interleave set IS0. Default 12 GiB (table 1).
    pub size: Bytes,
    /// Bytes in one memory before the next one follows. Default 256 B (§4.2).
    pub interleave: Bytes,
    /// Largest number of loads that a core waits for at the same time. Default 64 (§2.5).
    pub outstanding_loads: u32,
}

/// Cache in front of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DramCache {
    /// Size of the cache. Default 1 GiB (table 1).
    pub size: Bytes,
    /// Lines of a set. Default 8; the paper says "multi-way".
    pub ways: u32,
    /// Line sizes of the cache's parts, which have equal numbers of lines. A part holds buffers of its line size, and
    /// fetches a line at once. Default 128 B and 4 KiB (§5.2).
    pub lines: Vec<Bytes>,
    /// Lines of the same buffer that are fetched along with a missing one. Default 0: only the line itself is fetched.
    pub prefetch: u32,
    /// Latency of a load that hits. Default 80 ns, as of local memory.
    pub latency: Time,
}

/// Cores that handle packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cpu {
    /// Cores; all packets of a stream are handled by the same one (§7.1: XPS, RPS). Default 4 (table 1).
    pub cores: u32,
    /// Time of a packet in the network stack, sent or received, without waiting for memory. Default 1 us, 33 Gb/s per
    /// core in packets of 4 KiB; about what is measured of Linux (Cai et al., SIGCOMM 2021).
    pub packet_time: Time,
    /// Loads of a received header by the stack, one after the other. Default 4: by the driver, and for link, IP and
    /// TCP. (DRack appendix A.4: "multiple times".)
    pub header_loads: u32,
    /// Time of an interrupt, besides its packets. Default 1 us.
    pub interrupt_time: Time,
    /// Time of a packet that passes by reference, in the software of each side, where that is not the network stack but
    /// lies above it, as of `unrack sockets`: the receiver looks for references itself, so there is neither an interrupt
    /// nor a load of a header. Default: none, references are handled by the stack (§4.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_time: Option<Time>,
    /// Rate at which a core copies, for data that are copied on their way to the program. Default: none, the loads of a
    /// core and the memory are the only limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_rate: Option<Rate>,
}

/// NIC, and each host's part of it: its virtual NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Nic {
    /// Link of a NIC's DMA engine to its host or, where NICs are pooled, to the CXL switch. Default 256 Gb/s (PCIe 5.0
    /// x8) and 55 ns, as `network.cxl_link`.
    pub dma: LinkSpec,
    /// Packets that a host may have given to a virtual NIC and that are not yet sent. Default 64: Linux shortens the
    /// queues of drivers to what keeps a link busy (byte queue limits).
    pub transmit_queue: u32,
    /// Receive descriptors of a virtual NIC; and entries of a queue of references. Default 512, as Linux gives the
    /// 82599 of the prototype.
    pub receive_queue: u32,
    /// Buffer of a NIC for packets that are not yet in memory. Default 256 KiB (table 1: headroom of a port).
    pub headroom: Bytes,
    /// Packets that raise an interrupt at once. Default 64, what Linux handles at once (NAPI).
    pub interrupt_batch: u32,
    /// Time after which fewer packets raise an interrupt, too. Default 10 us.
    pub interrupt_delay: Time,
}

impl HostSpec {
    /// Returns whether data pass by reference.
    pub fn references(&self) -> bool {
        self.references.unwrap_or(self.memory_pool)
    }

    /// Returns the time of a packet that passes by reference outside the network stack; none if the stack handles it.
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
            cache: DramCache::default(),
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

impl Default for DramCache {
    fn default() -> DramCache {
        DramCache {
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
