//! What the manager knows, in memory that outlives it.
//!
//! A file that is mapped: a page with what the pool is, and slots of records. It has few slots at first, and grows when
//! more are needed: how large a pool may become costs nothing. A record counts from the one store of
//! its slot's first word, which is made after all of it was written, and until that word is cleared. A manager
//! that is killed between any two instructions so leaves each record whole or absent. A record that changes is
//! written anew before the old one is cleared: of two, the later counts.
//!
//! Nobody else maps it, and yet it is checked when it is read: a disk image or a curious hand may have been at
//! it. What is not a record is left out.

mod record;

pub use record::{Granted, Identity, Key, Pair, Process, Record};

use crate::PAGE;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"unrackld");
/// It changes with any change of what is in a ledger.
const VERSION: u64 = 1;
/// Bytes of a slot: a record with a name of the greatest length fits.
const SLOT: usize = 256;
const WORDS: usize = SLOT / 8;
/// Bytes of a record at most: two words of the slot say whether there is one, and when it was written.
const ROOM: usize = SLOT - 16;

/// What a pool is: a manager recovers only its like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub capacity_sections: u64,
    pub space_sections: u64,
    pub queue_bytes: u64,
    /// A hash of what the memory is.
    pub backing: u64,
}

impl Shape {
    /// The most slots that a ledger has: enough for every section to be a segment, granted and used for queues.
    pub fn slots(self) -> usize {
        8 * 1024 + 8 * self.space_sections as usize
    }

    fn words(self) -> [u64; 6] {
        [MAGIC, VERSION, self.capacity_sections, self.space_sections, self.queue_bytes, self.backing]
    }
}

/// Slots that are kept for changes of records.
const SPARE: usize = 1;
/// Slots at first, and how many more at a time at most.
const FIRST_SLOTS: usize = 256;
const MOST_MORE: usize = 16 * 1024;

/// Bytes of a file with so many slots.
fn bytes_of(slots: usize) -> usize {
    PAGE as usize + slots * SLOT
}

/// The word of the first page after the shape: the next number that was never given.
const NEXT: usize = 6;

pub struct Ledger {
    file: OwnedFd,
    words: *mut AtomicU64,
    /// Of the mapping, which is all of the file.
    bytes: usize,
    slots: usize,
    most_slots: usize,
    /// Where the record of a key is.
    places: BTreeMap<Key, usize>,
    free: Vec<usize>,
    /// Counts records that were written.
    written: u64,
}

// SAFETY: a mapping that is its own.
unsafe impl Send for Ledger {}

impl Ledger {
    /// An empty ledger.
    ///
    /// # Errors
    /// If there is no room for it.
    pub fn create(file: &OwnedFd, shape: Shape) -> rustix::io::Result<Ledger> {
        rustix::fs::ftruncate(file, 0)?;
        let mut ledger = Ledger::map(file.try_clone().map_err(errno)?, shape, 0)?;
        ledger.grow(FIRST_SLOTS.min(shape.slots()))?;
        // The magic comes last: without it there is no ledger.
        for (at, word) in shape.words().into_iter().enumerate().rev() {
            ledger.word(at).store(word, Ordering::Release);
        }
        Ok(ledger)
    }

    /// A ledger that is there, and its records in the order in which they were written. `None`: there is none of
    /// this shape.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub fn recover(file: &OwnedFd, shape: Shape) -> rustix::io::Result<Option<(Ledger, Vec<Record>)>> {
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

    /// The shape that a file says its ledger has, if it is one.
    pub fn shape_of(file: &OwnedFd) -> Option<Shape> {
        let mut bytes = [0; 48];
        rustix::io::pread(file, &mut bytes, 0).ok().filter(|read| *read == bytes.len())?;
        let word = |at: usize| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("8 bytes"));
        let shape = Shape {
            capacity_sections: word(2),
            space_sections: word(3),
            queue_bytes: word(4),
            backing: word(5),
        };
        let plausible = word(0) == MAGIC && word(1) == VERSION && shape.space_sections <= u32::MAX as u64;
        plausible.then_some(shape)
    }

    /// Maps a file that has so many slots; nothing of them is known yet.
    fn map(file: OwnedFd, shape: Shape, slots: usize) -> rustix::io::Result<Ledger> {
        let bytes = bytes_of(slots);
        // Its pages are made before they are touched, by a file system that must not run out of them then.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
        let words = map_file(&file, bytes)?;
        let (places, free) = (BTreeMap::new(), Vec::new());
        Ok(Ledger { file, words, bytes, slots, most_slots: shape.slots(), places, free, written: 0 })
    }

    /// Adds slots. If that fails, it is as before.
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

    /// Makes sure that a further record has a slot, beside the spare ones.
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
        // SAFETY: mapped by us, and nobody has a reference into it.
        unsafe { rustix::mm::munmap(self.words.cast(), self.bytes) }.expect("it is mapped");
    }

    /// Numbers up to this one were given.
    pub fn given(&mut self, number: u64) {
        let next = self.word(NEXT).load(Ordering::Relaxed);
        self.word(NEXT).store(next.max(number.saturating_add(1)), Ordering::Release);
    }

    /// A number that was never given before.
    pub fn take_number(&mut self) -> u64 {
        let next = self.word(NEXT).load(Ordering::Relaxed).max(1);
        // Stored before anybody hears of it.
        self.word(NEXT).store(next + 1, Ordering::Release);
        next
    }

    /// Writes a record, in the place of the one with its key.
    ///
    /// # Errors
    /// If there is no slot left for a further record; one that is there can always be changed.
    pub fn put(&mut self, record: &Record) -> rustix::io::Result<()> {
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
        // The commit.
        self.slot_word(slot, 0).store(seal(&bytes, used, self.written), Ordering::Release);
        if let Some(before) = self.places.insert(key, slot) {
            self.clear(before);
        }
        Ok(())
    }

    /// Clears the record of a key, if there is one.
    pub fn remove(&mut self, key: &Key) {
        if let Some(slot) = self.places.remove(key) {
            self.clear(slot);
        }
    }

    fn clear(&mut self, slot: usize) {
        self.slot_word(slot, 0).store(0, Ordering::Release);
        self.free.push(slot);
    }

    fn read_all(&mut self) -> Vec<Record> {
        let mut found: BTreeMap<Key, (u64, usize, Record)> = BTreeMap::new();
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

    fn read(&self, slot: usize) -> Option<(u64, Record)> {
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
        // SAFETY: inside the mapping, aligned; only we write it, and atomics may be shared.
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
    // SAFETY: a mapping where nothing was, of a file that only who has its lock makes shorter.
    unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) }
        .map(|base| base.cast())
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// A slot's first word: that there is a record, its bytes, and a checksum (FNV-1a).
fn seal(bytes: &[u8; ROOM], used: usize, written: u64) -> u64 {
    let hashed = bytes.iter().copied().chain(written.to_le_bytes());
    let sum = hashed.fold(0x811c_9dc5u32, |sum, byte| (sum ^ byte as u32).wrapping_mul(0x0100_0193));
    1 << 63 | (used as u64) << 32 | sum as u64
}

#[cfg(test)]
mod tests;
