//! Layout of the area at the beginning of a device that hosts share: the superblock, and a record for each host.
//!
//! ```text
//! superblock of device 0, of device 1, ...     one in the first granule of each device
//! head of host 0, of host 1, ...               one page each, written by its host only
//! claims of host 0, of host 1, ...             a word for each section
//! rings of host 0 to host 0, to host 1, ...    messages of one manager to another
//! sections                                     what hosts claim and lease
//! ```
//!
//! All numbers are little-endian words of 64 bits. Their offsets are offsets in the interleave set.

use super::claims::{Host, HostWord};
use crate::cache_control::{LINE, MemoryKind};
use crate::interleave::Interleave;
use crate::{PAGE, SECTION};

/// Maximum number of hosts that may share a device.
pub const MOST_HOSTS: u32 = 16;
/// Version of the layout; every change of the layout raises it.
pub(super) const VERSION: u64 = 2;
/// Size in bytes of the ring from one manager to another.
pub(super) const RING_BYTES: u64 = 32 * 1024;

/// First bytes of a superblock.
const MAGIC: u64 = u64::from_le_bytes(*b"unrackhd");
/// Number of words of a superblock. The last word is the checksum of the others.
const SUPERBLOCK_WORDS: usize = 12;
const _: () = assert!(SUPERBLOCK_WORDS * 8 <= 256, "it fits in the smallest granule");
/// Kinds of memory, indexed by their numbers in a superblock.
const MODES: [MemoryKind; 4] =
    [MemoryKind::Coherent, MemoryKind::Incoherent, MemoryKind::Uncached, MemoryKind::Model];

/// Offsets in the head of a host, in words.
mod head {
    pub(super) const INCARNATION: u64 = 0;
    pub(super) const BOOT: u64 = 1;
    pub(super) const STANDING: u64 = 3;
    pub(super) const SOCKET: u64 = 4;
    pub(super) const DOORBELL: u64 = 5;
    pub(super) const HEARTBEAT: u64 = 8;
    pub(super) const ENDED: u64 = 16;
    pub(super) const NAME: u64 = 32;
    pub(super) const LINKS: u64 = 64;
}

/// Number of words of a host's name.
pub(super) const NAME_WORDS: u64 = 8;
/// Number of words in a cache line. Each link has one line.
const LINK_WORDS: u64 = LINE as u64 / 8;
/// Number of variants of [`LinkWord`].
pub(super) const LINK_WORD_COUNT: usize = 4;
const _: () = assert!((head::LINKS + MOST_HOSTS as u64 * LINK_WORDS) * 8 <= PAGE);
const _: () =
    assert!(head::ENDED + MOST_HOSTS as u64 <= head::NAME && head::NAME + NAME_WORDS <= head::LINKS);

/// Words about one of a host's links to another host. They share one cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkWord {
    /// Number of the link's current epoch, as counted by the host that writes the word.
    Epoch = 0,
    /// Epoch of the peer for which this host is ready, because none of its processes still has memory mapped by a
    /// channel of an earlier epoch.
    Ready = 1,
    /// Bytes written to the ring in this epoch; the bits above this count have the low bits of the epoch.
    Written = 2,
    /// Bytes read from the peer's ring.
    Read = 3,
}

/// Word of a host's head that the rules for claims do not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadWord {
    /// One half of the identity of the kernel's boot.
    Boot(u64),
    /// Whether the host serves: see [`Standing`](super::member::Standing).
    Standing,
    /// Identity of the socket at which the host's manager serves.
    Socket,
    /// Number by which other hosts ring the host's doorbell, plus one; 0 if the host has no doorbell.
    Doorbell,
    /// Counter that grows while the host serves.
    Heartbeat,
    /// Eight bytes of the host's name.
    Name(u64),
    Link(Host, LinkWord),
}

/// Contents of a superblock: the parameters with which a device was formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Number of hosts that have records on the device.
    pub hosts: u32,
    /// Number of sections of the interleave set, including those that the records occupy.
    pub sections: u32,
    pub set: Interleave,
    /// Index in the set of the device that has this superblock.
    pub device: u32,
    /// Size of every queue area in bytes.
    pub queue_bytes: u64,
    /// Identity of the pool, which is the same on all its devices.
    pub pool: u128,
    /// Kind of memory, which determines how all hosts access it.
    pub mode: MemoryKind,
}

/// Reason why a superblock is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("it was not formatted for hosts: format it with `unrack pool format`")]
    Unformatted,
    #[error(
        "its layout has version {0} and this program writes version {VERSION}: use the release that formatted it, or \
         format it again with `unrack pool format`, which discards what is in it"
    )]
    Version(u64),
    #[error(
        "its superblock is damaged, or was not written completely: format it again with `unrack pool format`, which \
         discards what is in it"
    )]
    Damaged,
    #[error(
        "it was formatted for {was}, and is used for {is}: give the devices, in the order, as they were formatted"
    )]
    Geometry { was: String, is: String },
}

impl Superblock {
    /// Returns the superblock's words, with the checksum.
    pub(super) fn to_words(self) -> [u64; SUPERBLOCK_WORDS] {
        let mut words = [
            MAGIC,
            VERSION,
            self.hosts.into(),
            self.sections.into(),
            self.set.devices.into(),
            self.set.granularity.get(),
            self.device.into(),
            self.queue_bytes,
            self.pool as u64,
            (self.pool >> 64) as u64,
            MODES.iter().position(|mode| *mode == self.mode).expect("all are there") as u64,
            0,
        ];
        words[SUPERBLOCK_WORDS - 1] = checksum(&words);
        words
    }

    /// Decodes a superblock.
    ///
    /// # Errors
    /// If the words are not a superblock, have another version, or were changed after they were written.
    pub(super) fn from_words(words: &[u64; SUPERBLOCK_WORDS]) -> Result<Superblock, Unusable> {
        match words[..2] {
            [MAGIC, VERSION] => {}
            [MAGIC, version] => return Err(Unusable::Version(version)),
            _ => return Err(Unusable::Unformatted),
        }
        if words[SUPERBLOCK_WORDS - 1] != checksum(words) {
            return Err(Unusable::Damaged);
        }
        let small = |at: usize| u32::try_from(words[at]).map_err(|_| Unusable::Damaged);
        let (devices, device) = (small(4)?, small(6)?);
        if devices == 0 || device >= devices {
            return Err(Unusable::Damaged);
        }
        let found = Superblock {
            hosts: small(2)?,
            sections: small(3)?,
            set: Interleave::new(devices, words[5]).map_err(|_| Unusable::Damaged)?,
            device,
            queue_bytes: words[7],
            pool: u128::from(words[8]) | u128::from(words[9]) << 64,
            mode: *usize::try_from(words[10]).ok().and_then(|at| MODES.get(at)).ok_or(Unusable::Damaged)?,
        };
        let fits = (1..=MOST_HOSTS).contains(&found.hosts)
            && DeviceLayout::new(found.hosts, found.sections, found.set).record_sections() < found.sections
            && found.queue_bytes.is_multiple_of(PAGE)
            && (PAGE..=SECTION).contains(&found.queue_bytes);
        fits.then_some(found).ok_or(Unusable::Damaged)
    }

    /// Returns the layout of the records.
    pub(super) fn layout(self) -> DeviceLayout {
        DeviceLayout::new(self.hosts, self.sections, self.set)
    }

    /// Returns a description of the properties that must be the same on all devices of a pool and in all its managers.
    pub(crate) fn geometry(&self) -> String {
        format!(
            "device {} of {}, interleaved by {} B, {} sections",
            self.device, self.set.devices, self.set.granularity, self.sections
        )
    }
}

/// Number of words of a superblock.
pub(super) const WORDS: usize = SUPERBLOCK_WORDS;

fn checksum(words: &[u64; SUPERBLOCK_WORDS]) -> u64 {
    let bytes: Vec<u8> = words[..SUPERBLOCK_WORDS - 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    unrack_basis::fnv_1a(&bytes)
}

/// Offsets of the records, in bytes of the interleave set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceLayout {
    pub hosts: u64,
    pub sections: u64,
    set: Interleave,
}

impl DeviceLayout {
    pub(super) fn new(hosts: u32, sections: u32, set: Interleave) -> DeviceLayout {
        DeviceLayout { hosts: hosts.into(), sections: sections.into(), set }
    }

    /// Returns the offset of the superblock of a device.
    pub(super) fn superblock(&self, device: u32) -> u64 {
        self.set.offset_of(device, 0)
    }

    fn heads(&self) -> u64 {
        (u64::from(self.set.devices) * self.set.granularity.get()).next_multiple_of(PAGE)
    }

    fn claims(&self) -> u64 {
        self.heads() + self.hosts * PAGE
    }

    fn claims_bytes(&self) -> u64 {
        (self.sections * 8).next_multiple_of(PAGE)
    }

    fn rings(&self) -> u64 {
        self.claims() + self.hosts * self.claims_bytes()
    }

    /// Returns the offset of a word that the rules for claims use.
    pub(super) fn word(&self, word: HostWord) -> u64 {
        match word {
            HostWord::Incarnation(host) => self.head(host, head::INCARNATION),
            HostWord::Ended { by, of } => self.head(by, head::ENDED + of as u64),
            HostWord::Claim { by, section } => {
                debug_assert!(u64::from(section) < self.sections);
                self.claims() + by as u64 * self.claims_bytes() + u64::from(section) * 8
            }
        }
    }

    /// Returns the offset of any other word of a host's head.
    pub(super) fn head_word(&self, host: Host, word: HeadWord) -> u64 {
        let at = match word {
            HeadWord::Boot(half) => head::BOOT + half,
            HeadWord::Standing => head::STANDING,
            HeadWord::Socket => head::SOCKET,
            HeadWord::Doorbell => head::DOORBELL,
            HeadWord::Heartbeat => head::HEARTBEAT,
            HeadWord::Name(part) => head::NAME + part,
            HeadWord::Link(peer, word) => head::LINKS + peer as u64 * LINK_WORDS + word as u64,
        };
        self.head(host, at)
    }

    fn head(&self, host: Host, at: u64) -> u64 {
        debug_assert!((host as u64) < self.hosts);
        self.heads() + host as u64 * PAGE + at * 8
    }

    /// Returns the offset of the ring from one host to another.
    pub(super) fn ring(&self, from: Host, to: Host) -> u64 {
        self.rings() + (from as u64 * self.hosts + to as u64) * RING_BYTES
    }

    /// Returns the offset at which the records end.
    pub(super) fn end(&self) -> u64 {
        self.rings() + self.hosts * self.hosts * RING_BYTES
    }

    /// Returns the number of sections that the records occupy.
    pub(super) fn record_sections(&self) -> u32 {
        u32::try_from(self.end().div_ceil(SECTION)).unwrap_or(u32::MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        let set = Interleave::new(2, 4096).unwrap();
        Superblock {
            hosts: 3,
            sections: 100,
            set,
            device: 1,
            queue_bytes: 65536,
            pool: 7 << 100 | 9,
            mode: MemoryKind::Incoherent,
        }
    }

    /// Hosts of other releases read these words, so a change needs a new version.
    #[test]
    fn the_layout_of_version_2_stays() {
        let words = superblock().to_words();
        assert_eq!(words[..8], [0x6468_6b63_6172_6e75, 2, 3, 100, 2, 4096, 1, 65536]);
        assert_eq!(words[8..], [9, 7 << 36, 1, 0xe47c_2209_3527_d822]);
        let layout = superblock().layout();
        assert_eq!([layout.superblock(0), layout.superblock(1)], [0, 4096]);
        let words = [
            layout.word(HostWord::Incarnation(0)),
            layout.word(HostWord::Incarnation(2)),
            layout.head_word(0, HeadWord::Boot(1)),
            layout.head_word(0, HeadWord::Standing),
            layout.head_word(0, HeadWord::Doorbell),
            layout.head_word(0, HeadWord::Heartbeat),
            layout.word(HostWord::Ended { by: 0, of: 2 }),
            layout.head_word(0, HeadWord::Name(0)),
            layout.head_word(0, HeadWord::Link(1, LinkWord::Read)),
            layout.word(HostWord::Claim { by: 0, section: 5 }),
            layout.word(HostWord::Claim { by: 1, section: 0 }),
            layout.ring(0, 1),
            layout.ring(2, 0),
            layout.end(),
        ];
        let heads = 8192;
        let expected =
            [0, 8192, 16, 24, 40, 64, 144, 256, 600, 12288 + 40, 16384, 24576 + 32768, 24576 + 6 * 32768];
        assert_eq!(words[..13], expected.map(|offset| heads + offset));
        assert_eq!(words[13], heads + 24576 + 9 * 32768);
        assert_eq!(layout.record_sections(), 1);
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        assert_eq!(Superblock::from_words(&superblock().to_words()), Ok(superblock()));
    }

    #[test]
    fn others_are_refused_with_what_to_do() {
        let refused = |words: &[u64; WORDS]| Superblock::from_words(words).unwrap_err().to_string();
        assert!(refused(&[0; WORDS]).contains("unrack pool format"));
        let mut words = superblock().to_words();
        words[1] = 9;
        assert!(refused(&words).contains("version 9"));
        let torn = superblock().to_words();
        for at in 2..WORDS {
            let mut words = torn;
            words[at] ^= 1 << 20;
            assert_eq!(Superblock::from_words(&words), Err(Unusable::Damaged), "word {at}");
        }
    }

    proptest! {
        #[test]
        fn nonsense_is_read_without_harm(mut words: [u64; WORDS], valid: bool) {
            words[0] = MAGIC;
            words[1] = VERSION;
            if valid {
                words[WORDS - 1] = checksum(&words);
            }
            if let Ok(found) = Superblock::from_words(&words) {
                prop_assert!(found.hosts <= MOST_HOSTS && found.layout().record_sections() < found.sections);
            }
        }

        /// Checks that no two words share a byte, and that no line has two writers.
        #[test]
        fn records_do_not_overlap(hosts in 1..=MOST_HOSTS, sections in 8u32..3000, devices in 1u32..5) {
            let layout = DeviceLayout::new(hosts, sections, Interleave::new(devices, 4096).unwrap());
            let mut writers = std::collections::BTreeMap::new();
            let mut seen = std::collections::BTreeSet::new();
            for host in 0..hosts as usize {
                let mut words = vec![layout.word(HostWord::Incarnation(host))];
                words.extend((0..hosts as usize).map(|of| layout.word(HostWord::Ended { by: host, of })));
                let claims = [0, 1, sections / 2, sections - 1];
                let claims: std::collections::BTreeSet<u32> = claims.into_iter().collect();
                words.extend(claims.into_iter().map(|section| layout.word(HostWord::Claim { by: host, section })));
                let heads = [HeadWord::Boot(0), HeadWord::Boot(1), HeadWord::Standing];
                let heads = heads.into_iter().chain([HeadWord::Socket, HeadWord::Doorbell, HeadWord::Heartbeat]);
                words.extend(heads.map(|word| layout.head_word(host, word)));
                words.extend((0..NAME_WORDS).map(|part| layout.head_word(host, HeadWord::Name(part))));
                for peer in 0..hosts as usize {
                    for word in [LinkWord::Epoch, LinkWord::Ready, LinkWord::Written, LinkWord::Read] {
                        words.push(layout.head_word(host, HeadWord::Link(peer, word)));
                    }
                    words.extend([layout.ring(host, peer), layout.ring(host, peer) + RING_BYTES - 8]);
                }
                for at in words {
                    prop_assert!(seen.insert(at), "{at:#x} twice");
                    prop_assert!(at.is_multiple_of(8) && at < layout.end());
                    let writer = *writers.entry(at / LINE as u64).or_insert(host);
                    prop_assert_eq!(writer, host);
                    let mut superblocks = (0..devices).map(|device| layout.superblock(device));
                    let outside = superblocks.all(|from| at < from || at >= from + WORDS as u64 * 8);
                    prop_assert!(outside, "{at:#x} is in a superblock");
                }
            }
        }
    }
}
