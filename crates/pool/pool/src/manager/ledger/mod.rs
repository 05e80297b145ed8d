//! Ledger: the manager's state, in memory that outlives the manager.
//!
//! The ledger is a mapped file: a page that describes the pool, and slots for records. It has few slots at first and
//! grows when more are needed, so that a large limit on the pool costs nothing. A record becomes valid by a single
//! store to its slot's first word, after the rest of the record was written, and it stays valid until that word is
//! cleared. Therefore a manager that is killed between any two instructions leaves each record either whole or absent.
//! A changed record is written to a new slot before the old slot is cleared. If two records have the same key, the one
//! written later counts.
//!
//! Although no other process maps the ledger, its contents are checked when it is read, because a disk image or a
//! person may have changed it. Slots without a valid record are skipped.

mod record;

pub(super) use record::{ChannelRecord, FileIdentity, GrantRecord, Key, LedgerRecord, Process};

use crate::PAGE;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use unrack_basis::Fnv1a32;

const MAGIC: u64 = u64::from_le_bytes(*b"unrackld");
/// Version of the format; every change of a ledger's contents raises it.
const VERSION: u64 = 1;
/// Size of a slot in bytes. A record with a name of the greatest length fits.
const SLOT: usize = 256;
const WORDS: usize = SLOT / 8;
/// Largest size of a record in bytes. The other two words of the slot state whether it has a record, and when the
/// record was written.
const ROOM: usize = SLOT - 16;

/// Properties of a pool. A manager recovers only a ledger whose properties are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LedgerShape {
    pub capacity_sections: u64,
    pub space_sections: u64,
    pub queue_bytes: u64,
    /// Hash of the description of the memory.
    pub backing: u64,
}

impl LedgerShape {
    /// Returns the most slots that a ledger may have. They suffice even if every section is a segment, granted, and
    /// used for queues.
    pub(super) fn slots(self) -> usize {
        8 * 1024 + 8 * self.space_sections as usize
    }

    fn words(self) -> [u64; 6] {
        [MAGIC, VERSION, self.capacity_sections, self.space_sections, self.queue_bytes, self.backing]
    }
}

/// Slots that are kept free so that existing records can always be changed.
const SPARE: usize = 1;
/// Slots of a new ledger.
const FIRST_SLOTS: usize = 256;
/// Maximum number of slots that are added at a time.
const MOST_MORE: usize = 16 * 1024;

/// Returns the size in bytes of a file with this many slots.
fn bytes_of(slots: usize) -> usize {
    PAGE as usize + slots * SLOT
}

/// Index of the word that follows the shape in the first page. The word holds the next number that was never assigned.
const NEXT: usize = 6;

/// An open ledger, which is mapped.
pub(super) struct Ledger {
    file: OwnedFd,
    words: *mut AtomicU64,
    /// Size of the mapping in bytes; the mapping covers the whole file.
    bytes: usize,
    slots: usize,
    most_slots: usize,
    /// Slot of the record of each key.
    places: BTreeMap<Key, usize>,
    free: Vec<usize>,
    /// Sequence number of the last record that was written.
    written: u64,
}

// SAFETY: the mapping belongs to this ledger alone.
unsafe impl Send for Ledger {}

impl Ledger {
    /// Makes an empty ledger.
    ///
    /// # Errors
    /// If there is no memory for the ledger.
    pub(super) fn create(file: &OwnedFd, shape: LedgerShape) -> rustix::io::Result<Ledger> {
        rustix::fs::ftruncate(file, 0)?;
        let mut ledger = Ledger::map(file.try_clone().map_err(errno)?, shape, 0)?;
        ledger.grow(FIRST_SLOTS.min(shape.slots()))?;
        // The magic number is stored last, because a file without it is not taken for a ledger.
        for (at, word) in shape.words().into_iter().enumerate().rev() {
            ledger.word(at).store(word, Ordering::Release);
        }
        Ok(ledger)
    }

    /// Opens an existing ledger, and returns it with its records in the order in which they were written. Returns
    /// `None` if the file is not a ledger of this shape.
    ///
    /// # Errors
    /// If the ledger cannot be mapped.
    pub(super) fn recover(
        file: &OwnedFd,
        shape: LedgerShape,
    ) -> rustix::io::Result<Option<(Ledger, Vec<LedgerRecord>)>> {
        let found = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(usize::MAX);
        if found < bytes_of(1) || found > bytes_of(shape.slots()) {
            return Ok(None);
        }
        let slots = (found - PAGE as usize) / SLOT;
        let mut ledger = Ledger::map(file.try_clone().map_err(errno)?, shape, slots)?;
        let words = shape.words();
        if (0..words.len()).any(|at| ledger.word(at).load(Ordering::Acquire) != words[at]) {
            return Ok(None);
        }
        let records = ledger.read_all();
        Ok(Some((ledger, records)))
    }

    /// Returns the shape that a file's ledger states, if the file is a ledger.
    pub(super) fn shape_of(file: &OwnedFd) -> Option<LedgerShape> {
        let mut bytes = [0; 48];
        rustix::io::pread(file, &mut bytes, 0).ok().filter(|read| *read == bytes.len())?;
        let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("8 bytes"));
        let shape = LedgerShape {
            capacity_sections: word(2),
            space_sections: word(3),
            queue_bytes: word(4),
            backing: word(5),
        };
        let plausible = word(0) == MAGIC && word(1) == VERSION && shape.space_sections <= u32::MAX as u64;
        plausible.then_some(shape)
    }

    /// Maps a ledger's file with this many slots. The caller must find out which of the slots are free.
    fn map(file: OwnedFd, shape: LedgerShape, slots: usize) -> rustix::io::Result<Ledger> {
        let bytes = bytes_of(slots);
        // Allocates the pages before they are touched, because a touch while the file system is full would end in
        // `SIGBUS`.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
        let words = map_file(&file, bytes)?;
        let (places, free) = (BTreeMap::new(), Vec::new());
        Ok(Ledger { file, words, bytes, slots, most_slots: shape.slots(), places, free, written: 0 })
    }

    /// Adds slots. If that fails, the ledger remains as it was.
    fn grow(&mut self, more: usize) -> rustix::io::Result<()> {
        let slots = self.slots + more;
        let bytes = bytes_of(slots);
        rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
        let words = map_file(&self.file, bytes)?;
        self.unmap();
        (self.words, self.bytes) = (words, bytes);
        self.free.extend((self.slots..slots).rev());
        self.slots = slots;
        Ok(())
    }

    /// Ensures that a further record has a slot in addition to the spare ones.
    fn make_room(&mut self) -> rustix::io::Result<()> {
        if self.free.len() > SPARE {
            return Ok(());
        }
        match self.slots.min(MOST_MORE).min(self.most_slots - self.slots) {
            0 => Err(Errno::NOSPC),
            more => self.grow(more),
        }
    }

    fn unmap(&mut self) {
        // SAFETY: the memory was mapped by `map_file`, and no reference into it remains.
        unsafe { rustix::mm::munmap(self.words.cast(), self.bytes) }.expect("it is mapped");
    }

    /// Marks all numbers up to this one as assigned.
    pub(super) fn given(&mut self, number: u64) {
        let next = self.word(NEXT).load(Ordering::Relaxed);
        self.word(NEXT).store(next.max(number.saturating_add(1)), Ordering::Release);
    }

    /// Returns a number that was never assigned before.
    pub(super) fn take_number(&mut self) -> u64 {
        let next = self.word(NEXT).load(Ordering::Relaxed).max(1);
        // The number is stored before it is returned, so that it is never assigned again even if the manager is killed.
        self.word(NEXT).store(next + 1, Ordering::Release);
        next
    }

    /// Writes a record, which replaces the record with the same key.
    ///
    /// # Errors
    /// If no slot is left for a further record. An existing record can always be changed.
    pub(super) fn put(&mut self, record: &LedgerRecord) -> rustix::io::Result<()> {
        let key = record.key();
        if !self.places.contains_key(&key) {
            self.make_room()?;
        }
        let slot = self.free.pop().expect("a spare one");
        let mut bytes = [0; ROOM];
        let used = postcard::to_slice(record, &mut bytes).expect("every record fits").len();
        self.written += 1;
        self.slot_word(slot, 1).store(self.written, Ordering::Relaxed);
        for (at, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            self.slot_word(slot, 2 + at).store(word, Ordering::Relaxed);
        }
        // This store commits the record.
        self.slot_word(slot, 0).store(seal(&bytes, used, self.written), Ordering::Release);
        if let Some(before) = self.places.insert(key, slot) {
            self.clear(before);
        }
        Ok(())
    }

    /// Removes the record with a key, if there is one.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(slot) = self.places.remove(key) {
            self.clear(slot);
        }
    }

    fn clear(&mut self, slot: usize) {
        self.slot_word(slot, 0).store(0, Ordering::Release);
        self.free.push(slot);
    }

    fn read_all(&mut self) -> Vec<LedgerRecord> {
        let mut found: BTreeMap<Key, (u64, usize, LedgerRecord)> = BTreeMap::new();
        let mut free = Vec::new();
        for slot in (0..self.slots).rev() {
            let Some((written, record)) = self.read(slot) else {
                free.push(slot);
                continue;
            };
            self.written = self.written.max(written);
            let key = record.key();
            match found.get(&key) {
                Some((later, ..)) if *later > written => free.push(slot),
                before => {
                    free.extend(before.map(|(_, slot, _)| *slot));
                    found.insert(key, (written, slot, record));
                }
            }
        }
        for &slot in &free {
            if self.slot_word(slot, 0).load(Ordering::Relaxed) != 0 {
                self.slot_word(slot, 0).store(0, Ordering::Release);
            }
        }
        self.free = free;
        self.places = found.iter().map(|(key, (_, slot, _))| (key.clone(), *slot)).collect();
        let mut records: Vec<_> = found.into_values().map(|(written, _, record)| (written, record)).collect();
        records.sort_by_key(|(written, _)| *written);
        records.into_iter().map(|(_, record)| record).collect()
    }

    fn read(&self, slot: usize) -> Option<(u64, LedgerRecord)> {
        let sealed = self.slot_word(slot, 0).load(Ordering::Acquire);
        if sealed == 0 {
            return None;
        }
        let written = self.slot_word(slot, 1).load(Ordering::Relaxed);
        let mut bytes = [0; ROOM];
        for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&self.slot_word(slot, 2 + at).load(Ordering::Relaxed).to_le_bytes());
        }
        let used = (sealed >> 32) as usize & 0xffff;
        if used > ROOM || sealed != seal(&bytes, used, written) {
            return None;
        }
        Some((written, crate::wire::decode(&bytes[..used]).ok()?))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at * 8 < self.bytes);
        // SAFETY: the word is inside the mapping and aligned. Only this process writes it, and atomics may be shared.
        unsafe { &*self.words.add(at) }
    }

    fn slot_word(&self, slot: usize, word: usize) -> &AtomicU64 {
        self.word(PAGE as usize / 8 + slot * WORDS + word)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.unmap();
    }
}

fn map_file(file: &OwnedFd, bytes: usize) -> rustix::io::Result<*mut AtomicU64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel picks an unused address, and only the holder of the file's lock makes the file shorter.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }
        .map(|base| base.cast())
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Returns a slot's first word: a mark that the slot has a record, the record's size in bytes, and a checksum (FNV-1a).
fn seal(bytes: &[u8; ROOM], used: usize, written: u64) -> u64 {
    let sum = Fnv1a32::EMPTY.with(bytes).with(&written.to_le_bytes()).value();
    1 << 63 | (used as u64) << 32 | sum as u64
}

#[cfg(test)]
mod tests;
