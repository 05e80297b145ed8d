//! Superblocks on devices: written when the devices are formatted, and checked by every manager.

use super::layout::{DeviceLayout, HeadWord, Superblock, Unusable, WORDS};
use super::member::BEAT;
use super::records::Records;
use crate::PAGE;
use crate::cache_control::SharedMemory;
use crate::space::MappedSpace;
use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;

/// Reads the superblock at an offset of mapped devices.
///
/// # Errors
/// See [`Superblock::from_words`].
pub(crate) fn read_superblock(space: &MappedSpace, offset: u64) -> Result<Superblock, Unusable> {
    let words: [u64; WORDS] = std::array::from_fn(|at| space.memory().load(word(space, offset, at)));
    Superblock::from_words(&words)
}

fn word(space: &MappedSpace, offset: u64, at: usize) -> &AtomicU64 {
    let offset = offset + at as u64 * 8;
    assert!(space.is_whole() && offset + 8 <= space.bytes());
    // SAFETY: the word is inside the devices, which stay mapped as long as the space, and it is aligned. Atomics may be
    // shared.
    unsafe { &*space.pointer(offset).cast::<AtomicU64>() }
}

/// Clears the records of all hosts on mapped devices, and then writes the superblocks.
///
/// # Errors
/// If the records leave no section for use.
pub(crate) fn write_records(space: &MappedSpace, superblock: &Superblock) -> Result<(), String> {
    let layout = superblock.layout();
    let occupied = layout.record_sections();
    if occupied >= superblock.sections {
        return Err(format!(
            "they have {} sections of 2 MiB, and the records of {} hosts take {occupied}: take larger ones, or fewer hosts",
            superblock.sections, superblock.hosts
        ));
    }
    // This also clears the superblocks, which are in the first pages. Therefore no manager accepts the devices while
    // they are partly written.
    clear(space, layout);
    for device in 0..superblock.set.devices {
        let words = Superblock { device, ..*superblock }.to_words();
        for (at, value) in words.into_iter().enumerate() {
            word(space, layout.superblock(device), at).store(value, Ordering::Release);
        }
        // SAFETY: the lines are mapped, and no host serves.
        unsafe { space.memory().publish(space.pointer(layout.superblock(device)), WORDS * 8) };
    }
    Ok(())
}

fn clear(space: &MappedSpace, layout: DeviceLayout) {
    let zeros = [0; PAGE as usize];
    for offset in (0..layout.end()).step_by(PAGE as usize) {
        // SAFETY: the whole device is mapped, and no host serves.
        unsafe { space.memory().write(space.pointer(offset), &zeros) };
    }
}

/// Returns the name of a host whose heartbeat moves.
pub(crate) fn find_serving(space: Arc<MappedSpace>, superblock: &Superblock) -> Option<String> {
    let records = Records::new(space, superblock.layout());
    let beats = || -> Vec<u64> {
        (0..superblock.hosts as usize).map(|host| records.get(host, HeadWord::Heartbeat)).collect()
    };
    let before = beats();
    std::thread::sleep(BEAT * 4);
    let host = beats().into_iter().zip(before).position(|(now, before)| now != before)?;
    Some(super::member::name_of(&records, host))
}

/// Returns a random number that identifies a pool.
pub(crate) fn random_identity() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).unwrap_or_else(|_| std::process::id().into())
}
