//! Processor, as the simulated caches see it: sizes of caches and TLBs.

mod presets;
mod text;

pub use text::bytes;
pub(crate) use text::unknown;

use unrack_units::nearest::hint;

/// Bytes of a line.
pub const LINE: u64 = 64;
/// Largest cache, in bytes, and most ways: a mistyped size is told before it is allocated.
const LARGEST: u64 = 4 << 30;
const MOST_WAYS: u32 = 256;
/// Most lines that a prefetcher of streams runs ahead.
const MOST_AHEAD: f64 = 1024.0;

/// Processor. Its text is a name, and behind it what differs from the processor of this name: `zen3:l3=6291456/16`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Name, as [`Processor::by_name`] knows it.
    pub name: &'static str,
    /// First-level data cache of a core.
    pub l1: CacheSize,
    /// Second-level cache of a core. It contains the first level.
    pub l2: CacheSize,
    /// Places of pages, by which the second level finds its sets.
    pub frames: PageFrames,
    /// Last-level cache of a group of cores.
    pub l3: CacheSize,
    /// Cores of a group.
    pub l3_cores: u32,
    /// Lines that the last level holds.
    pub l3_content: Content,
    /// First-level TLB for pages of 4 KiB.
    pub l1_tlb: TlbSize,
    /// First-level TLB for pages of 2 MiB; `None` where one array holds both.
    pub l1_tlb_huge: Option<TlbSize>,
    /// Second-level TLB, for both.
    pub l2_tlb: TlbSize,
    /// Hardware prefetchers.
    pub prefetchers: Prefetchers,
    /// Reach of the prefetcher of streams.
    pub streams: StreamReach,
}

/// Lines that the prefetcher of streams asks for ahead of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReach {
    /// Lines ahead at most.
    pub lines: u32,
    /// Lines ahead at most while another stream asks for lines that the second level has.
    pub lines_beside_hits: u32,
    /// Tells whether it goes on into the next page of 4 KiB.
    pub crosses_pages: bool,
}

impl StreamReach {
    /// Reach that Intel states: 20 lines, within a page.
    pub const INTEL: StreamReach = StreamReach { lines: 20, lines_beside_hits: 20, crosses_pages: false };
}

/// Hardware prefetchers of a core that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetchers {
    /// Next line of loads in ascending order, to the first level.
    pub next_line: bool,
    /// Next address of a load instruction with a regular stride, to the first level.
    pub stride: bool,
    /// Lines ahead of requests in ascending or descending order, to the second level.
    pub streams: bool,
}

impl Prefetchers {
    /// Prefetchers all on.
    pub const ON: Prefetchers = Prefetchers { next_line: true, stride: true, streams: true };
    /// Prefetchers all off.
    pub const OFF: Prefetchers = Prefetchers { next_line: false, stride: false, streams: false };
}

/// Size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSize {
    /// Bytes.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
}

/// First-level instruction cache: 32 KiB in 8 ways, in all of AMD's cores since Zen 2 and in Intel's
/// server cores from Skylake to Golden Cove.
pub(crate) const CODE: CacheSize = CacheSize { bytes: 32 << 10, ways: 8 };

/// Size of a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbSize {
    /// Pages.
    pub entries: u32,
    /// Pages of a set.
    pub ways: u32,
}

/// Places of pages in physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFrames {
    /// Anywhere, by a hash of the page: a kernel gives them out in no order.
    Hashed,
    /// Where the program has them, as simulators of caches take them.
    Same,
}

/// Lines that a last level holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Lines that left a second level.
    Victims,
    /// Every line of the second levels, and more.
    Inclusive,
}

/// Reason why a processor cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessorError {
    /// No processor has this name.
    #[error("no processor is called `{name}`{}", hint(.name, &presets::NAMES))]
    Name {
        /// Name that was asked for.
        name: String,
    },
    /// A cache or TLB cannot have this size.
    #[error("{what} has {size} in {ways} ways, but {wanted}")]
    Size {
        /// Cache or TLB.
        what: &'static str,
        /// Its size, with its unit.
        size: String,
        /// Its ways.
        ways: u32,
        /// Sizes that are possible.
        wanted: &'static str,
    },
    /// A number of cores is out of range.
    #[error("{0} cores, but 1 to 1024 are simulated")]
    Cores(u32),
    /// The placements are more than a mask has bits.
    #[error("{0} placements, but up to 16 are decided at once")]
    Placements(usize),
    /// A share is out of range.
    #[error("near share {0}, but must be 0 to 1")]
    Share(String),
    /// A DRAM cache cannot have this size.
    #[error(
        "{0}: a DRAM cache has granules of a power of two bytes from 64 on, 1 to 256 ways, and up to 2^26 granules"
    )]
    DramCache(String),
    /// A word of a text is not understood.
    #[error("`{word}` is no {what}: {wanted}")]
    Text {
        /// Word.
        word: String,
        /// Kind of word that is expected there.
        what: &'static str,
        /// Words that are possible.
        wanted: &'static str,
    },
}

impl Processor {
    /// Returns the processor with this name.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn by_name(name: &str) -> Result<Processor, ProcessorError> {
        presets::by_name(name).ok_or_else(|| ProcessorError::Name { name: name.into() })
    }

    /// Returns the names of all processors, oldest first of each maker.
    pub fn names() -> &'static [&'static str] {
        &presets::NAMES
    }

    /// Returns the processor with a last level of about so many bytes: as many whole sets as are in them, at least one.
    pub fn with_last_level(mut self, bytes: u64) -> Processor {
        let set = LINE * u64::from(self.l3.ways);
        self.l3.bytes = (bytes / set).max(1) * set;
        self
    }

    /// Returns the processor with a prefetcher of streams that has as many lines under way as one thread has, by Little's law,
    /// that reads one stream from memory of this latency: `line_ns` a line alone, and `line_beside_hits_ns` beside streams that
    /// the second level has.
    ///
    /// A stream that stops at the end of a page waits for at least three lines in the next: below 3 / 64 of the latency a
    /// line, it crosses pages.
    pub fn with_streams(mut self, memory_ns: f64, line_ns: f64, line_beside_hits_ns: f64) -> Processor {
        let lines =
            (memory_ns / line_ns).round().clamp(f64::from(StreamReach::INTEL.lines), MOST_AHEAD) as u32;
        let lines_beside_hits = (memory_ns / line_beside_hits_ns).round().clamp(1.0, f64::from(lines)) as u32;
        let crosses_pages = line_ns < memory_ns * 3.0 / 64.0;
        self.streams = StreamReach { lines, lines_beside_hits, crosses_pages };
        self
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// If one cannot be simulated; the error names it.
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

/// Checks a number of cores.
///
/// # Errors
/// If it is out of range.
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
    /// Returns the bytes that its pages of 4 KiB have.
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
