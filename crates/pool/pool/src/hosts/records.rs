//! Records of all hosts, as this host accesses them on the device.

use super::claims::{AccessReason, DevicePart, Host, HostWord, WordAccess};
use super::layout::{DeviceLayout, HeadWord, LINK_WORD_COUNT, LinkWord, RING_BYTES};
use crate::SECTION;
use crate::cache_control::{AnyMemory, SharedMemory};
use crate::space::MappedSpace;
use crate::sync::{AtomicU64, Ordering, fence};
use std::sync::Arc;

/// Records on a mapped device.
pub(super) struct Records {
    space: Arc<MappedSpace>,
    pub layout: DeviceLayout,
}

impl Records {
    /// Makes the access to the records of a device that is mapped as a whole.
    pub(super) fn new(space: Arc<MappedSpace>, layout: DeviceLayout) -> Records {
        assert!(space.is_whole() && layout.end() <= space.bytes());
        Records { space, layout }
    }

    fn memory(&self) -> &AnyMemory {
        self.space.memory()
    }

    fn at(&self, offset: u64) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.layout.end());
        // SAFETY: the word is inside the records, which stay mapped as long as the space, and it is aligned. Atomics
        // may be shared.
        unsafe { &*self.space.pointer(offset).cast::<AtomicU64>() }
    }

    /// Loads a word of a host's head, as that host last published it.
    pub(super) fn get(&self, host: Host, word: HeadWord) -> u64 {
        self.memory().load(self.at(self.layout.head_word(host, word)))
    }

    /// Stores a word of this host's head, and publishes it.
    pub(super) fn set(&self, us: Host, word: HeadWord, value: u64) {
        self.memory().store(self.at(self.layout.head_word(us, word)), value);
    }

    /// Loads a word that the rules for claims use, as its host last published it.
    pub(super) fn get_word(&self, word: HostWord) -> u64 {
        self.memory().load(self.at(self.layout.word(word)))
    }

    /// Loads the words of a host's link to another host. They were published together.
    pub(super) fn link(&self, by: Host, to: Host) -> [u64; LINK_WORD_COUNT] {
        let first = self.layout.head_word(by, HeadWord::Link(to, LinkWord::Epoch));
        // This load refreshes the line, which also has the other words.
        let epoch = self.memory().load(self.at(first));
        let rest = |word: u64| self.at(first + word * 8).load(Ordering::Acquire);
        [epoch, rest(1), rest(2), rest(3)]
    }

    /// Returns words of the ring from one host to another, starting at a position that wraps around.
    pub(super) fn read_ring(&self, from: Host, to: Host, position: u64, words: usize) -> Vec<u64> {
        let mut read = Vec::with_capacity(words);
        for (offset, range) in self.parts(from, to, position, words) {
            // SAFETY: the range is inside the ring, which is mapped and which this host does not write.
            unsafe { self.memory().refresh(self.space.pointer(offset), range.len() * 8) };
            // Each word is loaded only once, because the other host may write it meanwhile.
            read.extend(
                (0..range.len() as u64).map(|word| self.at(offset + word * 8).load(Ordering::Acquire)),
            );
        }
        read
    }

    /// Writes words into the ring from this host to another, starting at a position that wraps around, and publishes
    /// them.
    pub(super) fn write_ring(&self, us: Host, to: Host, position: u64, words: &[u64]) {
        for (offset, range) in self.parts(us, to, position, words.len()) {
            for (word, at) in words[range.clone()].iter().zip(0..) {
                self.at(offset + at * 8).store(*word, Ordering::Release);
            }
            // SAFETY: the range is inside this host's ring, which only this manager writes.
            unsafe { self.memory().publish(self.space.pointer(offset), range.len() * 8) };
        }
    }

    /// Divides a range of a ring into contiguous parts, of which there are two if the range wraps around. Returns the
    /// offset of each part and the indices of its words.
    fn parts(
        &self,
        from: Host,
        to: Host,
        position: u64,
        words: usize,
    ) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
        let (ring, start) = (self.layout.ring(from, to), position % RING_BYTES);
        let first = words.min(((RING_BYTES - start) / 8) as usize);
        let second = (first < words).then_some((ring, first..words));
        std::iter::once((ring + start, 0..first)).chain(second)
    }
}

/// Returns the word on the device that declares an incarnation of a host ended. A declaration ends all programs of a
/// host, and any other host's record may contain it, so it must not arise from noise in a record. Therefore the word is
/// a hash: an incarnation itself is a small number, which noise may hit.
fn sealed(of: Host, incarnation: u64) -> u64 {
    let mut bytes = *b"declared ended:                 ";
    bytes[16..24].copy_from_slice(&incarnation.to_le_bytes());
    bytes[24..].copy_from_slice(&(of as u64).to_le_bytes());
    unrack_basis::fnv_1a(&bytes)
}

impl WordAccess for Records {
    /// Loads a word. A declaration counts only if it names the host's current incarnation, because all earlier
    /// incarnations ended when the host joined.
    fn load(&mut self, word: HostWord) -> u64 {
        let value = self.at(self.layout.word(word)).load(Ordering::Acquire);
        let HostWord::Ended { of, .. } = word else { return value };
        let current = self.load(HostWord::Incarnation(of));
        if value == sealed(of, current) { current } else { 0 }
    }

    fn store(&mut self, word: HostWord, value: u64) {
        let value = match word {
            HostWord::Ended { of, .. } => sealed(of, value),
            _ => value,
        };
        self.at(self.layout.word(word)).store(value, Ordering::Release);
    }

    fn publish(&mut self, part: DevicePart, _: AccessReason) {
        match part {
            DevicePart::Word(word) => {
                let at = std::ptr::from_ref(self.at(self.layout.word(word))).cast();
                // SAFETY: the line is in the records, and only this host writes it.
                unsafe { self.memory().publish(at, 8) };
            }
            // The lines are dropped as well as written back, because the copies become outdated once another host
            // writes the section.
            // SAFETY: the whole device is mapped, and this host has the section.
            DevicePart::Section(section) => unsafe {
                self.memory().refresh(self.space.pointer(u64::from(section) * SECTION), SECTION as usize);
            },
        }
    }

    fn refresh(&mut self, part: DevicePart, _: AccessReason) {
        let (offset, bytes) = match part {
            DevicePart::Word(word) => (self.layout.word(word), 8),
            DevicePart::Section(section) => (u64::from(section) * SECTION, SECTION as usize),
        };
        // SAFETY: the whole device is mapped, and words that are refreshed are published after each store.
        unsafe { self.memory().refresh(self.space.pointer(offset), bytes) };
    }

    /// Orders all operations that were started, and earlier stores, before later loads. This is needed even in coherent
    /// memory: otherwise two hosts that each store a claim and then load the other host's claim could both miss it.
    fn fence(&mut self, _: AccessReason) {
        fence(Ordering::SeqCst);
    }
}
