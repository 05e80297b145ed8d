//! Cache parameters of known processors, by name.
//!
//! Sources for AMD: Software Optimization Guides for families 17h models 30h and later (56305), 19h (56665), 19h of
//! Zen 4 (57647) and 1Ah (58455), sections on the load-store unit, the TLBs and the caches. Sources for Intel: 64 and
//! IA-32 Architectures Optimization Reference Manual (248966), tables of cache parameters and of TLBs of Skylake
//! Server, Ice Lake and Sapphire Rapids.
//!
//! If a processor is sold with different numbers of cores, the preset describes the variant with the most cores,
//! because the size of the last-level cache depends on the number of cores.

use super::{CacheSize, InclusionPolicy, PageFrames, Prefetchers, Processor, StreamReach, TlbSize};

pub(super) const NAMES: [&str; 7] =
    ["zen2", "zen3", "zen4", "zen5", "skylake-sp", "icelake-sp", "sapphire-rapids"];

const KIB: u64 = 1 << 10;

pub(super) fn by_name(name: &str) -> Option<Processor> {
    Some(match name {
        "zen2" => zen("zen2", 512, 16, 4, tlb(64, 64), tlb(2048, 16)),
        "zen3" => zen("zen3", 512, 32, 8, tlb(64, 64), tlb(2048, 16)),
        "zen4" => zen("zen4", 1024, 32, 8, tlb(72, 72), tlb(3072, 24)),
        "zen5" => Processor {
            l1: size(48, 12),
            l2: size(1024, 16),
            ..zen("zen5", 1024, 32, 8, tlb(96, 96), tlb(4096, 16))
        },
        "skylake-sp" => {
            intel("skylake-sp", size(32, 8), size(1024, 16), (1408, 11, 28), tlb(64, 4), tlb(1536, 12))
        }
        "icelake-sp" => {
            intel("icelake-sp", size(48, 12), size(1280, 20), (1536, 12, 40), tlb(64, 4), tlb(2048, 16))
        }
        "sapphire-rapids" => {
            intel("sapphire-rapids", size(48, 12), size(2048, 16), (1920, 15, 60), tlb(96, 6), tlb(2048, 16))
        }
        _ => return None,
    })
}

/// Returns an AMD processor with the given sizes. Its first-level cache has 32 KiB in 8 ways, and its second-level
/// cache has 8 ways. Its last-level cache has 16 ways, and is a victim cache that a group of cores shares. One
/// first-level TLB holds pages of all sizes.
fn zen(
    name: &'static str,
    l2_kib: u64,
    l3_mib: u64,
    l3_cores: u32,
    l1_tlb: TlbSize,
    l2_tlb: TlbSize,
) -> Processor {
    Processor {
        name,
        l1: size(32, 8),
        l2: size(l2_kib, 8),
        frames: PageFrames::Hashed,
        l3: size(l3_mib * KIB, 16),
        l3_cores,
        l3_content: InclusionPolicy::Victims,
        l1_tlb,
        l1_tlb_huge: None,
        l2_tlb,
        prefetchers: Prefetchers::ON,
        streams: StreamReach::INTEL,
    }
}

/// Returns an Intel server processor since Skylake with the given sizes. Its last-level cache is a victim cache, whose
/// size is given as KiB per core, number of ways, and number of cores. Its first-level TLB for huge pages has 32
/// entries in 4 ways.
fn intel(
    name: &'static str,
    l1: CacheSize,
    l2: CacheSize,
    (slice_kib, ways, l3_cores): (u64, u32, u32),
    l1_tlb: TlbSize,
    l2_tlb: TlbSize,
) -> Processor {
    Processor {
        name,
        l1,
        l2,
        frames: PageFrames::Hashed,
        l3: size(slice_kib * u64::from(l3_cores), ways),
        l3_cores,
        l3_content: InclusionPolicy::Victims,
        l1_tlb,
        l1_tlb_huge: Some(tlb(32, 4)),
        l2_tlb,
        prefetchers: Prefetchers::ON,
        streams: StreamReach::INTEL,
    }
}

const fn size(kib: u64, ways: u32) -> CacheSize {
    CacheSize { bytes: kib * KIB, ways }
}

const fn tlb(entries: u32, ways: u32) -> TlbSize {
    TlbSize { entries, ways }
}
