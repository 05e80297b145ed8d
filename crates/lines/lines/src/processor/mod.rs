//! Parameters of a processor for the simulation of its caches: sizes of the caches and TLBs, and the prefetchers.

mod presets;
mod text;

pub use text::bytes;
pub(crate) use text::unknown;

use unrack_units::nearest::hint;

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// Maximum size of a cache in bytes, and maximum number of its ways. Because of these limits, a mistyped size is
/// rejected before it is allocated.
const LARGEST: u64 = 4 << 30;
const MOST_WAYS: u32 = 256;
/// Maximum number of lines that the stream prefetcher may be configured to run ahead.
const MOST_AHEAD: f64 = 1024.0;

/// Parameters of a processor. The textual form is the name of a preset, followed by the fields that differ from this
/// preset, for example `zen3:l3=6291456/16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Name of the preset, as [`Processor::by_name`] accepts it.
    pub name: &'static str,
    /// First-level data cache of a core.
    pub l1: CacheSize,
    /// Second-level cache of a core. It includes the lines of the first-level cache.
    pub l2: CacheSize,
    /// Assignment of physical frames to pages. It determines to which sets of the second-level cache the lines of a
    /// page map.
    pub frames: PageFrames,
    /// Last-level cache, which a group of cores shares.
    pub l3: CacheSize,
    /// Number of cores that share a last-level cache.
    pub l3_cores: u32,
    /// Inclusion policy of the last-level cache.
    pub l3_content: InclusionPolicy,
    /// First-level TLB for pages of 4 KiB.
    pub l1_tlb: TlbSize,
    /// First-level TLB for 2 MiB pages; `None` if the TLB `l1_tlb` also holds the 2 MiB pages.
    pub l1_tlb_huge: Option<TlbSize>,
    /// Second-level TLB, for pages of 4 KiB and of 2 MiB.
    pub l2_tlb: TlbSize,
    /// Hardware prefetchers.
    pub prefetchers: Prefetchers,
    /// Number of lines that the stream prefetcher runs ahead of the program.
    pub streams: StreamReach,
}

/// How far the stream prefetcher runs ahead of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReach {
    /// Maximum number of lines that the stream prefetcher runs ahead of the program.
    pub lines: u32,
    /// Maximum number of lines that the stream prefetcher runs ahead of the program while another stream requests lines
    /// that the second-level cache already contains.
    pub lines_beside_hits: u32,
    /// Whether the prefetcher continues into the next 4 KiB page.
    pub crosses_pages: bool,
}

impl StreamReach {
    /// Reach that Intel's manual states: 20 lines ahead, within a page.
    pub const INTEL: StreamReach = StreamReach { lines: 20, lines_beside_hits: 20, crosses_pages: false };
}

/// Set of the hardware prefetchers that are enabled in a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetchers {
    /// Next-line prefetcher: fetches the next line of ascending loads into the first-level cache.
    pub next_line: bool,
    /// Stride prefetcher: for a load instruction with a regular stride, fetches the line of the next address into the
    /// first-level cache.
    pub stride: bool,
    /// Stream prefetcher: fetches lines ahead of ascending or descending requests into the second-level cache.
    pub streams: bool,
}

impl Prefetchers {
    /// All prefetchers enabled.
    pub const ON: Prefetchers = Prefetchers { next_line: true, stride: true, streams: true };
    /// All prefetchers disabled.
    pub const OFF: Prefetchers = Prefetchers { next_line: false, stride: false, streams: false };
}

/// Size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Associativity: number of lines per set.
    pub ways: u32,
}

/// First-level instruction cache: 32 KiB in 8 ways, as in all of AMD's cores since Zen 2 and in Intel's server cores
/// from Skylake to Golden Cove.
pub(crate) const CODE: CacheSize = CacheSize { bytes: 32 << 10, ways: 8 };

/// Size of a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbSize {
    /// Number of pages that the TLB holds.
    pub entries: u32,
    /// Associativity: number of pages per set.
    pub ways: u32,
}

/// Assignment of physical frames to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFrames {
    /// Pseudorandom frames, given by a hash of the page number, because a kernel does not allocate frames in a
    /// particular order.
    Hashed,
    /// Frame numbers that are equal to the page numbers of the program, as other cache simulators assume.
    Same,
}

/// Inclusion policy of a last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InclusionPolicy {
    /// Victim cache: it holds lines that were evicted from a second-level cache.
    Victims,
    /// Inclusive cache: it holds every line of the second-level caches, and other lines.
    Inclusive,
}

/// Reason why a processor or its placements cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessorError {
    /// No processor has this name.
    #[error("no processor is called `{name}`{}", hint(.name, &presets::NAMES))]
    Name {
        /// Name that was requested.
        name: String,
    },
    /// A cache or TLB has an impossible size.
    #[error("{what} has {size} in {ways} ways, but {wanted}")]
    Size {
        /// Name of the cache or TLB.
        what: &'static str,
        /// Size of the cache or TLB, with the unit.
        size: String,
        /// Number of ways of the cache or TLB.
        ways: u32,
        /// Description of the possible sizes.
        wanted: &'static str,
    },
    /// The number of cores is not 1 to 1024.
    #[error("{0} cores, but 1 to 1024 are simulated")]
    Cores(u32),
    /// There are more than 16 placements, so that masks do not have a bit for each of them.
    #[error("{0} placements, but up to 16 are decided at once")]
    Placements(usize),
    /// The share of local pages is not 0 to 1.
    #[error("near share {0}, but must be 0 to 1")]
    Share(String),
    /// A DRAM cache has an impossible size.
    #[error(
        "{0}: a DRAM cache has granules of a power of two bytes from 64 on, 1 to 256 ways, and up to 2^26 granules"
    )]
    DramCache(String),
    /// A word in the textual form of a processor or placement is not recognized.
    #[error("`{word}` is no {what}: {wanted}")]
    Text {
        /// The word that is not recognized.
        word: String,
        /// Kind of item that the word should name, for example a field.
        what: &'static str,
        /// Description of the accepted words.
        wanted: &'static str,
    },
}

impl Processor {
    /// Returns the preset of the processor with the given name.
    ///
    /// # Errors
    /// If no processor has this name. The error suggests the most similar name.
    pub fn by_name(name: &str) -> Result<Processor, ProcessorError> {
        presets::by_name(name).ok_or_else(|| ProcessorError::Name { name: name.into() })
    }

    /// Returns the names of all preset processors. They are grouped by vendor, and each group is ordered from the
    /// oldest to the newest processor.
    pub fn names() -> &'static [&'static str] {
        &presets::NAMES
    }

    /// Returns this processor with a last-level cache of about `bytes` bytes. The number of sets is rounded down, but
    /// is at least one.
    pub fn with_last_level(mut self, bytes: u64) -> Processor {
        let set = LINE * u64::from(self.l3.ways);
        self.l3.bytes = (bytes / set).max(1) * set;
        self
    }

    /// Returns this processor with a stream prefetcher that keeps the number of lines in flight that the measured
    /// bandwidth implies.
    ///
    /// By Little's law, a thread that streams from memory of latency `memory_ns` at one line per `line_ns` has
    /// `memory_ns / line_ns` lines in flight. `line_beside_hits_ns` is the time per line while other streams hit the
    /// second-level cache. It determines the number of lines ahead in that case.
    ///
    /// If a stream prefetcher stops at the end of a page, the program misses at least the first three of the 64 lines
    /// of the next page. A measured time per line below 3 / 64 of the latency is too short for these misses. In this
    /// case, the function therefore assumes that the prefetcher crosses pages.
    pub fn with_streams(mut self, memory_ns: f64, line_ns: f64, line_beside_hits_ns: f64) -> Processor {
        let lines =
            (memory_ns / line_ns).round().clamp(f64::from(StreamReach::INTEL.lines), MOST_AHEAD) as u32;
        let lines_beside_hits = (memory_ns / line_beside_hits_ns).round().clamp(1.0, f64::from(lines)) as u32;
        let crosses_pages = line_ns < memory_ns * 3.0 / 64.0;
        self.streams = StreamReach { lines, lines_beside_hits, crosses_pages };
        self
    }

    /// Checks that the sizes of the caches and TLBs can be simulated.
    ///
    /// # Errors
    /// If a cache or TLB has a size that cannot be simulated. The error names this cache or TLB.
    pub fn check(&self) -> Result<(), ProcessorError> {
        self.l1.check("first-level cache", true)?;
        self.l2.check("second-level cache", true)?;
        self.l3.check("last-level cache", false)?;
        self.l1_tlb.check("first-level TLB")?;
        self.l1_tlb_huge.map_or(Ok(()), |size| size.check("first-level TLB of huge pages"))?;
        self.l2_tlb.check("second-level TLB")?;
        check_cores(self.l3_cores)
    }
}

/// Checks that a number of cores can be simulated.
///
/// # Errors
/// If the number is not 1 to 1024.
pub(crate) fn check_cores(cores: u32) -> Result<(), ProcessorError> {
    if (1..=1024).contains(&cores) { Ok(()) } else { Err(ProcessorError::Cores(cores)) }
}

impl CacheSize {
    /// Returns the number of sets.
    pub(crate) fn sets(self) -> u64 {
        self.bytes / (LINE * u64::from(self.ways))
    }

    fn check(self, what: &'static str, is_private: bool) -> Result<(), ProcessorError> {
        let error = |wanted| {
            let size = format!("{} bytes", self.bytes);
            Err(ProcessorError::Size { what, size, ways: self.ways, wanted })
        };
        if !(1..=MOST_WAYS).contains(&self.ways) || self.bytes > LARGEST {
            return error("1 to 256 ways and up to 4 GiB are possible");
        }
        let sets = self.sets();
        if sets == 0 || sets * LINE * u64::from(self.ways) != self.bytes {
            return error("each way must be a whole number of lines of 64 bytes");
        }
        if is_private && !sets.is_power_of_two() {
            return error("its sets must be a power of two");
        }
        Ok(())
    }
}

impl TlbSize {
    /// Returns the number of bytes of memory that the entries of the TLB cover with 4 KiB pages.
    pub fn reach(self) -> u64 {
        u64::from(self.entries) * 4096
    }

    /// Returns the number of sets.
    pub(crate) fn sets(self) -> u64 {
        u64::from(self.entries / self.ways)
    }

    fn check(self, what: &'static str) -> Result<(), ProcessorError> {
        let is_whole = (1..=MOST_WAYS).contains(&self.ways) && self.entries.is_multiple_of(self.ways);
        if is_whole && (self.entries / self.ways).is_power_of_two() {
            return Ok(());
        }
        let size = format!("{} entries", self.entries);
        let wanted = "1 to 256 ways and sets that are a power of two are possible";
        Err(ProcessorError::Size { what, size, ways: self.ways, wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_that_of_a_processor_that_can_be_simulated() {
        for name in Processor::names() {
            let processor = Processor::by_name(name).unwrap();
            assert_eq!(processor.name, *name);
            processor.check().unwrap();
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        let error = Processor::by_name("zen33").unwrap_err().to_string();
        assert!(error.contains("did you mean `zen3`?"), "{error}");
    }

    #[test]
    fn sizes_that_cannot_be_are_named() {
        let with = |change: &dyn Fn(&mut Processor)| {
            let mut processor = Processor::by_name("zen3").unwrap();
            change(&mut processor);
            processor.check().unwrap_err().to_string()
        };
        assert!(with(&|p| p.l1.ways = 0).starts_with("first-level cache"));
        assert!(with(&|p| p.l2.bytes += 64).starts_with("second-level cache"));
        assert!(with(&|p| p.l2.bytes = 3 << 18).contains("power of two"));
        assert!(with(&|p| p.l3.bytes = u64::MAX).starts_with("last-level cache"));
        assert!(with(&|p| p.l2_tlb.entries = 100).starts_with("second-level TLB"));
        assert!(with(&|p| p.l3_cores = 0).starts_with("0 cores"));
    }
}
