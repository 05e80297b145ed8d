//! Tests of all kinds of memory.

use super::*;
use std::sync::atomic::AtomicU64;

/// Passes a message of several lines from one host to another, over and over, through one place: first the data,
/// then the entry that announces it. Every byte arrives, and none of an earlier lap.
fn pass<M: SharedMemory>(writer: (M, usize), reader: (M, usize), laps: u64) {
    const DATA: usize = LINE;
    const WORDS: usize = 40;
    const DONE: usize = LINE + 4096;
    // SAFETY: both bases point to memory of at least two pages that lives as long as the test; all access
    // to the words is atomic.
    let entry = |base: usize, at: usize| unsafe { &*((base + at) as *const AtomicU64) };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (memory, base) = writer;
            for lap in 1..=laps {
                for word in 0..WORDS {
                    entry(base, DATA + word * 8)
                        .store(lap * 1000 + word as u64, std::sync::atomic::Ordering::Relaxed);
                }
                // SAFETY: mapped, and only this host writes it.
                unsafe { memory.publish((base + DATA) as *const u8, WORDS * 8) };
                memory.store(entry(base, 0), lap);
                while memory.load(entry(base, DONE)) < lap {
                    std::thread::yield_now();
                }
            }
        });
        let (memory, base) = reader;
        for lap in 1..=laps {
            while memory.load(entry(base, 0)) < lap {
                std::thread::yield_now();
            }
            // SAFETY: mapped, and this host writes none of it.
            unsafe { memory.refresh((base + DATA) as *const u8, WORDS * 8) };
            for word in 0..WORDS {
                let found = entry(base, DATA + word * 8).load(std::sync::atomic::Ordering::Relaxed);
                assert_eq!(found, lap * 1000 + word as u64, "lap {lap}, word {word}");
            }
            memory.store(entry(base, DONE), lap);
        }
    });
}

fn shared() -> (Box<[[u64; 512]]>, usize) {
    let pages = vec![[0u64; 512]; 3].into_boxed_slice();
    let base = (pages.as_ptr() as usize).next_multiple_of(LINE);
    (pages, base)
}

#[test]
fn a_message_passes_in_every_kind_of_memory() {
    let (_pages, base) = shared();
    pass((Coherent, base), (Coherent, base), 2_000);
    let (_pages, base) = shared();
    pass((Uncached, base), (Uncached, base), 2_000);
    let flushing = Incoherent::detect().expect("this processor can flush lines");
    let (_pages, base) = shared();
    pass((flushing, base), (flushing, base), 2_000);
    for seed in 0..20 {
        let device = Device::new(3 * 4096);
        let (one, other) = (device.host(seed), device.host(seed + 100));
        let places = (one.base() as usize, other.base() as usize);
        pass((one.memory.clone(), places.0), (other.memory.clone(), places.1), 200);
    }
}

/// The model is useful only if it catches mistakes: each one is seen with some seeds.
#[test]
fn the_model_catches_what_the_rules_forbid() {
    let caught = |mistake: &dyn Fn(&model::DeviceView, &model::DeviceView) -> bool| {
        (0..200)
            .filter(|&seed| {
                let device = Device::new(4096);
                mistake(&device.host(seed), &device.host(seed + 1000))
            })
            .count()
    };
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let unpublished = caught(&|one, other| {
        one.entry(64).store(7, relaxed);
        for lap in 1..20 {
            one.memory.store(one.entry(0), lap);
        }
        other.memory.load(other.entry(64)) != 7
    });
    assert!(unpublished > 100, "data that nobody published stayed away in {unpublished} of 200");
    assert!(unpublished < 200, "caches evict at times");

    let unrefreshed = caught(&|one, other| {
        other.memory.load(other.entry(64));
        one.memory.store(one.entry(64), 7);
        one.memory.store(one.entry(0), 1);
        other.memory.load(other.entry(0));
        other.entry(64).load(relaxed) != 7
    });
    assert!(unrefreshed > 100, "an old copy was read in {unrefreshed} of 200");

    let shared_line = caught(&|one, other| {
        one.entry(8).store(3, relaxed);
        other.memory.store(other.entry(0), 1);
        one.memory.store(one.entry(8), 3);
        one.memory.load(one.entry(0)) != 1
    });
    assert!(shared_line > 100, "a neighbour's word was undone in {shared_line} of 200");
}

#[test]
fn a_host_that_stops_takes_along_what_it_did_not_publish() {
    let device = Device::new(4096);
    let (one, other) = (device.host(1), device.host(2));
    one.memory.store(one.entry(0), 1);
    one.entry(128).store(2, std::sync::atomic::Ordering::Relaxed);
    one.memory.power_off();
    assert_eq!(other.memory.load(other.entry(0)), 1);
    assert_eq!(other.memory.load(other.entry(128)), 0);
}

#[test]
fn ranges_are_widened_to_lines() {
    let at = |address: usize| address as *const u8;
    assert_eq!(lines(at(128), 0), (at(128), 0));
    assert_eq!(lines(at(128), 64), (at(128), 1));
    assert_eq!(lines(at(130), 64), (at(128), 2));
    assert_eq!(lines(at(191), 1), (at(128), 1));
}

/// Writes that bypass the cache write the same bytes as those that do not.
#[test]
fn write_copies_every_byte() {
    let flushing = Incoherent::detect().expect("this processor can flush lines");
    let (mut pages, _) = shared();
    let bytes: Vec<u8> = (0..2000u32).map(|byte| (byte * 7) as u8).collect();
    let base = pages.as_mut_ptr() as *mut u8;
    for (shift, count) in [(0, 0), (0, 64), (0, 256), (0, 1999), (8, 640), (64, 300), (1, 257)] {
        let start = (base as usize).next_multiple_of(LINE) - base as usize + shift;
        // SAFETY: 2064 bytes from a line's start are inside the three pages, which nobody else uses.
        unsafe {
            std::ptr::write_bytes(base, 0, 4096);
            flushing.write(base.add(start), &bytes[..count]);
            let found = std::slice::from_raw_parts(base.add(start), 2000);
            assert_eq!(&found[..count], &bytes[..count], "{count} bytes at {shift}");
            assert!(found[count..].iter().all(|&byte| byte == 0), "beyond {count} bytes at {shift}");
        }
    }
}
