//! Both ways of taking pages out of a program and giving them back, tried on the same program: threads that write to the pages, drop them
//! and move them, while a small pager takes pages at random.

use super::*;
use crate::helper::{self, HelperCall};
use crate::sys::{FEATURE_EVENT_REMAP, FEATURE_EVENT_REMOVE, FEATURE_EVENT_UNMAP, FEATURE_THREAD_ID};
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use unrack_testing::{TestRequirement, skip};

const WRITERS: usize = 3;
const PAGES: usize = 96;
/// Steps of each thread of the program.
const STEPS: u64 = 6_000;
/// Number of addresses to which the moved memory can move.
const PLACES: usize = 4_096;
/// Slots of the first page; other tests of this process use lower ones.
const FIRST_SLOT: u32 = 9_000;

/// A generator of numbers that differ from step to step (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn map(pages: usize, rights: ProtFlags) -> usize {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, and advice that changes no contents.
    unsafe {
        let at = rustix::mm::mmap_anonymous(std::ptr::null_mut(), pages * PAGE, rights, flags).unwrap();
        rustix::mm::madvise(at, pages * PAGE, Advice::LinuxNoHugepage).unwrap();
        at as usize
    }
}

fn word(at: usize) -> &'static AtomicU64 {
    // SAFETY: in a mapping of this test, whose address the calling thread knows; all accesses are atomic.
    unsafe { &*(at as *const AtomicU64) }
}

/// State of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Never touched, or dropped. A page that was dropped may still be there for a moment, and must not be taken, because the program
    /// would get its old contents back.
    Nowhere,
    Program,
    Slot,
}

/// The program's memory: `PAGES` pages from `base` on, which may move.
struct Part {
    base: usize,
    first: u32,
    places: [Place; PAGES],
}

/// A pager that knows three parts of memory and takes their pages at random.
struct SmallPager {
    memory: Memory,
    parts: [Part; 3],
    /// Messages that were read but not applied, in the order of their arrival.
    messages: VecDeque<Event>,
    faults: VecDeque<usize>,
    taken: usize,
}

impl Drop for SmallPager {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The program's threads wait for this pager, and the test for them.
            std::process::abort();
        }
    }
}

impl SmallPager {
    fn pull(&mut self) {
        let mut events = Vec::new();
        self.memory.read_events(&mut events).unwrap();
        self.messages.extend(events);
    }

    /// Reads messages, and applies the changes among them.
    fn read(&mut self) {
        self.pull();
        while let Some(event) = self.messages.pop_front() {
            match event {
                Event::Fault { address, .. } => self.faults.push_back(address),
                Event::Remove { start, end } | Event::Unmap { start, end } => self.drop_range(start, end),
                Event::Remap { from, to, .. } => {
                    let moved = self.parts.iter_mut().find(|part| part.base == from);
                    moved.expect("only whole parts move").base = to;
                }
                Event::Fork { .. } => unreachable!("not requested"),
            }
        }
    }

    fn drop_range(&mut self, start: usize, end: usize) {
        for part in 0..self.parts.len() {
            for n in 0..PAGES {
                let Part { base, first, places } = &mut self.parts[part];
                if !(start..end).contains(&(*base + n * PAGE)) {
                    continue;
                }
                if std::mem::replace(&mut places[n], Place::Nowhere) == Place::Slot {
                    let at = reserved_region::slot(*first + n as u32);
                    let order = helper::post(HelperCall::Forget { at, len: PAGE }).unwrap();
                    while !helper::is_done(order) {
                        self.pull();
                    }
                }
            }
        }
    }

    fn page_at(&self, address: usize) -> Option<(usize, usize)> {
        let is_in = |part: &Part| (part.base..part.base + PAGES * PAGE).contains(&address);
        let part = self.parts.iter().position(is_in)?;
        Some((part, (address - self.parts[part].base) / PAGE))
    }

    fn serve(&mut self, address: usize) {
        loop {
            // A part that has moved is found at its new address; the thread then faults there again.
            let Some((part, n)) = self.page_at(address) else { return self.memory.uffd.wake(address) };
            let slot = reserved_region::slot(self.parts[part].first + n as u32);
            let place = self.parts[part].places[n];
            let result = match place {
                Place::Slot => self.memory.give(address, slot, PAGE, true).1,
                Place::Nowhere | Place::Program => self.memory.fill(address, 1).1,
            };
            match result {
                Ok(()) => return self.parts[part].places[n] = Place::Program,
                Err(Errno::AGAIN) => self.read(),
                Err(Errno::EXIST) if place != Place::Slot => return self.memory.uffd.wake(address),
                Err(why) => {
                    self.read();
                    assert_ne!(
                        self.page_at(address),
                        Some((part, n)),
                        "page {n} of part {part}: {place:?}: {why}"
                    );
                }
            }
        }
    }

    fn take(&mut self, part: usize, n: usize, most: usize) {
        let Part { base, first, places } = &self.parts[part];
        let run = places[n..].iter().take(most).take_while(|place| **place == Place::Program).count();
        if run == 0 {
            return;
        }
        let slot = reserved_region::slot(first + n as u32);
        let (moved, result) = self.memory.take(slot, base + n * PAGE, run * PAGE);
        self.parts[part].places[n..n + moved / PAGE].fill(Place::Slot);
        self.taken += moved / PAGE;
        match result {
            Ok(()) => assert_eq!(moved, run * PAGE),
            // The page was dropped, or the address space is changing.
            Err(Errno::NOENT | Errno::AGAIN | Errno::FAULT) => {}
            Err(why) => panic!("{why}"),
        }
    }
}

/// Adds to a word of each page, and checks that no store was lost.
fn write(base: usize, writer: usize) {
    let (mut numbers, mut expected) = (Numbers(0x9e37 + writer as u64), [0; PAGES]);
    for _ in 0..STEPS {
        let n = numbers.below(PAGES);
        let own = word(base + n * PAGE + 64 * writer);
        // The load and the store are separate instructions, between which the page may be taken.
        assert_eq!(own.load(Relaxed), expected[n], "page {n}, writer {writer}");
        expected[n] += 1;
        own.store(expected[n], Relaxed);
    }
}

/// Drops pages, which then read as zero, and writes to them.
fn drop_pages(base: usize) {
    let (mut numbers, mut expected) = (Numbers(0xd1b5), [0; PAGES]);
    for step in 0..STEPS {
        let n = numbers.below(PAGES);
        let page = base + n * PAGE;
        if numbers.below(4) == 0 {
            // SAFETY: only this thread uses these pages.
            unsafe { rustix::mm::madvise(page as *mut c_void, PAGE, Advice::LinuxDontNeed) }.unwrap();
            expected[n] = 0;
        }
        assert_eq!(word(page).load(Relaxed), expected[n], "page {n}, step {step}");
        expected[n] = step + 1;
        word(page).store(expected[n], Relaxed);
    }
}

/// Moves memory to ever new addresses, and writes to it.
fn move_memory(mut base: usize, places: usize) {
    let (mut numbers, mut expected, mut next) = (Numbers(0x51ab), [0; PAGES], 0);
    for step in 0..STEPS {
        if numbers.below(8) == 0 && next < PLACES {
            let to = (places + next * PAGES * PAGE) as *mut c_void;
            let len = PAGES * PAGE;
            // SAFETY: only this thread uses the memory, and the destination is reserved for it.
            unsafe { rustix::mm::mremap_fixed(base as *mut c_void, len, len, MremapFlags::MAYMOVE, to) }
                .unwrap();
            (base, next) = (to as usize, next + 1);
        }
        let n = numbers.below(PAGES);
        let page = base + n * PAGE;
        assert_eq!(word(page).load(Relaxed), expected[n], "page {n}, step {step}");
        expected[n] = step + 1;
        word(page).store(expected[n], Relaxed);
    }
}

/// Runs the program under the small pager. Returns the number of pages that were taken, or `None` if the kernel lacks the features.
fn run(features: u64) -> Option<usize> {
    let events = FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP | FEATURE_THREAD_ID;
    let memory = match Memory::open(events | features, &mut CarriedFiles::of(None, None), Ok) {
        Ok(memory) => memory,
        Err(why) => {
            skip(TestRequirement::Userfaultfd, format!("userfaultfd with these features: {why}"));
            return None;
        }
    };
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    let bases = [0; 3].map(|_| map(PAGES, rights));
    bases.iter().for_each(|base| memory.uffd.register(*base, PAGES * PAGE).unwrap());
    let places = map(PLACES * PAGES, ProtFlags::empty());
    let firsts = [0, 1, 2].map(|n| FIRST_SLOT + n * PAGES as u32);
    let parts = [0, 1, 2].map(|n| Part { base: bases[n], first: firsts[n], places: [Place::Nowhere; PAGES] });
    let (messages, faults) = (VecDeque::new(), VecDeque::new());
    let mut pager = SmallPager { memory, parts, messages, faults, taken: 0 };
    let running = AtomicUsize::new(WRITERS + 2);
    let mut numbers = Numbers(0x1234_5678);
    std::thread::scope(|scope| {
        /// Counts a thread of the program as ended, also if it panics.
        struct Ends<'a>(&'a AtomicUsize);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        let running = &running;
        let program = |work: Box<dyn FnOnce() + Send>| {
            scope.spawn(move || {
                let _ends = Ends(running);
                work();
            });
        };
        (0..WRITERS).for_each(|writer| program(Box::new(move || write(bases[0], writer))));
        program(Box::new(move || drop_pages(bases[1])));
        program(Box::new(move || move_memory(bases[2], places)));
        while running.load(Relaxed) > 0 {
            pager.read();
            while let Some(address) = pager.faults.pop_front() {
                pager.serve(address);
            }
            for _ in 0..2 {
                pager.take(numbers.below(3), numbers.below(PAGES), 1 + numbers.below(8));
            }
        }
    });
    // The slots are used again.
    pager.drop_range(0, usize::MAX);
    Some(pager.taken)
}

/// The slots and the helper exist once in a process.
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn no_store_is_lost_whichever_way_pages_are_taken() {
    let _one = ONE.lock().unwrap();
    reserved_region::reserve().unwrap();
    reserved_region::open_arena((FIRST_SLOT as usize + 3 * PAGES) * PAGE).unwrap();
    for features in [0, FEATURE_MOVE] {
        let taken = run(features);
        assert!(taken.is_none_or(|taken| taken > 1_000), "{taken:?} pages were taken");
    }
}

/// Pages that a move refuses are refused as well: those that a fork left shared, and those that the program has locked. Pages that the
/// program may no longer read are taken nevertheless, and given back.
#[test]
fn what_cannot_be_taken_is_refused() {
    let _one = ONE.lock().unwrap();
    reserved_region::reserve().unwrap();
    reserved_region::open_arena((FIRST_SLOT as usize + 3 * PAGES) * PAGE).unwrap();
    let events = FEATURE_EVENT_REMAP | FEATURE_EVENT_REMOVE | FEATURE_EVENT_UNMAP;
    let Ok(memory) = Memory::open(events, &mut CarriedFiles::of(None, None), Ok) else {
        return skip(TestRequirement::Userfaultfd, "userfaultfd");
    };
    let at = map(4, ProtFlags::READ | ProtFlags::WRITE);
    memory.uffd.register(at, 4 * PAGE).unwrap();
    let slot = reserved_region::slot(FIRST_SLOT);
    assert_eq!(memory.take(slot, at, PAGE), (0, Err(Errno::NOENT)), "no contents");
    assert_eq!(memory.give(at, slot, PAGE, true), (0, Err(Errno::NOENT)), "an empty slot");
    for n in 0..4 {
        memory.fill(at + n * PAGE, 1).1.unwrap();
        word(at + n * PAGE).store(7 + n as u64, Relaxed);
    }
    // SAFETY: memory of this test; the rights are given back below.
    unsafe {
        rustix::mm::mlock(at as *mut c_void, PAGE).unwrap();
        assert_eq!(memory.take(slot, at, PAGE), (0, Err(Errno::INVAL)), "locked");
        rustix::mm::munlock(at as *mut c_void, PAGE).unwrap();
        let none = rustix::mm::MprotectFlags::empty();
        rustix::mm::mprotect((at + PAGE) as *mut c_void, PAGE, none).unwrap();
    }
    assert_eq!(memory.take(slot, at + PAGE, PAGE), (PAGE, Ok(())));
    assert_eq!(memory.give(at + PAGE, slot, PAGE, true), (PAGE, Ok(())));
    assert_eq!(memory.give(at + PAGE, slot, PAGE, true), (0, Err(Errno::NOENT)), "the slot was emptied");
    // SAFETY: memory of this test, which gets its usual rights.
    unsafe {
        let all = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
        rustix::mm::mprotect((at + PAGE) as *mut c_void, PAGE, all).unwrap();
    }
    assert_eq!(word(at + PAGE).load(Relaxed), 8);
    // The child of a fork shares the pages until it ends. It does nothing but wait for its end.
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    assert_eq!(memory.take(slot, at + 2 * PAGE, PAGE), (0, Err(Errno::BUSY)), "shared");
    // SAFETY: the child of this test.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert_eq!(memory.take(slot, at + 2 * PAGE, 2 * PAGE), (2 * PAGE, Ok(())));
    assert_eq!(
        memory.take(reserved_region::landing(0), slot, PAGE),
        (PAGE, Ok(())),
        "within the reserved region"
    );
    assert_eq!(word(reserved_region::landing(0)).load(Relaxed), 9);
    assert_eq!(memory.give(at + 2 * PAGE, reserved_region::landing(0), PAGE, true), (PAGE, Ok(())));
    assert_eq!(memory.give(at + 3 * PAGE, slot + PAGE, PAGE, true), (PAGE, Ok(())));
    assert_eq!([2, 3].map(|n| word(at + n * PAGE).load(Relaxed)), [9, 10]);
    // The program replaced the memory, so that it is no longer registered. Therefore pages that were taken by mistake are put back.
    // SAFETY: replaces memory of this test.
    unsafe {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        let taker = std::thread::spawn(move || {
            rustix::mm::mmap_anonymous(at as *mut c_void, PAGE, ProtFlags::READ | ProtFlags::WRITE, flags)
                .unwrap() as usize
        });
        let mut events = Vec::new();
        while !events.iter().any(|event| matches!(event, Event::Unmap { .. })) {
            memory.read_events(&mut events).unwrap();
        }
        taker.join().unwrap();
    }
    word(at).store(77, Relaxed);
    assert_eq!(memory.take(slot, at, PAGE), (0, Err(Errno::AGAIN)), "not registered");
    assert_eq!(word(at).load(Relaxed), 77);
}
