//! Random callers and callees in one thread, in every kind of memory, and peers that write anything.

use super::{Callee, Caller, CallerBuffer, IncomingCall, QueueLayout, Reach};
use crate::queue::entry::{EntryStatus, Kind};
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use unrack_pool::cache_control::{Coherent, Device, DeviceView, LINE, SharedMemory};

/// Maximum number of steps of a case: Miri takes a second for some.
const LONGEST: usize = if cfg!(miri) { 20 } else { 300 };
const LINES: usize = 8;
const AREA: usize = 2 * LINES * LINE;
const BUFFERS: usize = 6;
const BUFFER: usize = 2 * LINE;
const BYTES: usize = AREA + BUFFERS * BUFFER;

/// Buffer that knows its place and whether it is held.
struct Lent {
    offset: u64,
    base: *mut u8,
    _held: Rc<()>,
}

impl CallerBuffer for Lent {
    fn offset(&self) -> u64 {
        self.offset
    }

    fn base(&self) -> *mut u8 {
        self.base
    }

    fn capacity(&self) -> usize {
        BUFFER
    }
}

struct Granted(*mut u8);

impl Reach for Granted {
    fn reach(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let inside = (AREA..BYTES).contains(&offset) && bytes <= BYTES - offset;
        // SAFETY: inside the memory.
        inside.then(|| unsafe { self.0.add(offset) })
    }
}

fn words(base: *mut u8, count: usize) -> &'static [std::sync::atomic::AtomicU64] {
    // SAFETY: tests keep their memory until they end, and the words are aligned; atomics may be shared.
    unsafe { std::slice::from_raw_parts(base.cast(), count) }
}

/// Writes a call's contents: `count` words, all derived from its number.
fn write(base: *mut u8, value: u64, count: usize) {
    for (index, word) in words(base, count).iter().enumerate() {
        word.store(value.wrapping_mul(index as u64 + 1), Ordering::Relaxed);
    }
}

fn read(base: *mut u8, count: usize) -> u64 {
    let value = words(base, 1)[0].load(Ordering::Relaxed);
    for (index, word) in words(base, count).iter().enumerate() {
        assert_eq!(
            word.load(Ordering::Relaxed),
            value.wrapping_mul(index as u64 + 1),
            "torn at word {index}"
        );
    }
    value
}

fn answer_to(value: u64) -> u64 {
    value ^ 0xa5a5_a5a5_a5a5
}

/// Step of either end; the number chooses the call that it acts on.
#[derive(Debug, Clone, Copy)]
enum Step {
    Call { words: usize },
    Again { which: usize },
    Abandon { which: usize },
    Collect,
    Admit,
    Answer { which: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..=BUFFER / 8).prop_map(|words| Step::Call { words }),
        1 => any::<usize>().prop_map(|which| Step::Again { which }),
        1 => any::<usize>().prop_map(|which| Step::Abandon { which }),
        4 => Just(Step::Collect),
        4 => Just(Step::Admit),
        4 => any::<usize>().prop_map(|which| Step::Answer { which }),
    ];
    prop::collection::vec(step, 1..LONGEST)
}

/// Both ends, and the invariants that must hold.
struct QueueWorld<M> {
    caller: Caller<M, Lent>,
    callee: Callee<M>,
    here: *mut u8,
    granted: Granted,
    free: Vec<u64>,
    held: HashMap<u64, Rc<()>>,
    /// Number and words of the call of each slot.
    waiting: HashMap<u16, (u64, usize)>,
    running: Vec<IncomingCall>,
    ran: HashMap<u64, usize>,
    next: u64,
    answered: usize,
}

impl<M: SharedMemory> QueueWorld<M> {
    fn new((caller_memory, here): (M, *mut u8), (callee_memory, there): (M, *mut u8)) -> Self {
        let layout = QueueLayout::fitting(AREA).unwrap();
        assert_eq!(layout.lines(), LINES);
        // SAFETY: tests keep the memory until they end.
        let (caller, callee) =
            unsafe { (Caller::new(caller_memory, here, layout), Callee::new(callee_memory, there, layout)) };
        QueueWorld {
            caller,
            callee,
            here,
            granted: Granted(there),
            free: (0..BUFFERS).map(|index| (AREA + index * BUFFER) as u64).collect(),
            held: HashMap::new(),
            waiting: HashMap::new(),
            running: Vec::new(),
            ran: HashMap::new(),
            next: 1,
            answered: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Call { words } => self.call(words),
            Step::Again { which } => {
                if let Some(slot) = chosen(&self.waiting, which) {
                    let _ = self.caller.post_again(slot);
                }
            }
            Step::Abandon { which } => {
                if let Some(slot) = chosen(&self.waiting, which) {
                    self.waiting.remove(&slot);
                    assert!(self.caller.release(slot).is_none(), "its answer is still to come");
                }
            }
            Step::Collect => self.collect(),
            Step::Admit => {
                if let Some(incoming) = self.callee.poll(&self.granted) {
                    let value = read(incoming.base, incoming.request.length as usize / 8);
                    *self.ran.entry(value).or_default() += 1;
                    self.running.push(incoming);
                }
            }
            Step::Answer { which } => {
                if !self.running.is_empty() {
                    let incoming = self.running.swap_remove(which % self.running.len());
                    let count = incoming.request.length as usize / 8;
                    write(incoming.base, answer_to(read(incoming.base, count)), count);
                    let length = incoming.request.length;
                    self.callee.answer(incoming.request.slot, EntryStatus::DONE, length, length as usize);
                }
            }
        }
        self.free_what_nobody_holds();
    }

    fn call(&mut self, words: usize) {
        let Some(offset) = self.free.pop() else { return };
        let held = Rc::new(());
        self.held.insert(offset, held.clone());
        let base = self.here.wrapping_add(offset as usize);
        let Ok(slot) = self.caller.reserve(Lent { offset, base, _held: held }) else { return };
        write(base, self.next, words);
        match self.caller.post(slot, (Kind::Call, 0, 1), words * 8, BUFFER) {
            Ok(()) => {
                self.waiting.insert(slot, (self.next, words));
                self.next += 1;
            }
            Err(_) => drop(self.caller.release(slot).expect("nothing was sent")),
        }
    }

    fn collect(&mut self) {
        self.caller.poll(|_| ControlFlow::Continue(()));
        let done: Vec<u16> =
            self.waiting.keys().copied().filter(|&slot| self.caller.answer(slot).is_some()).collect();
        for slot in done {
            let (value, count) = self.waiting.remove(&slot).unwrap();
            let answer = self.caller.answer(slot).unwrap();
            assert_eq!((answer.status, answer.length as usize), (EntryStatus::DONE, count * 8));
            assert_eq!(read(self.caller.buffer(slot).base(), count), answer_to(value));
            self.caller.release(slot);
            self.answered += 1;
        }
    }

    fn free_what_nobody_holds(&mut self) {
        let freed: Vec<u64> = self
            .held
            .iter()
            .filter(|(_, held)| Rc::strong_count(held) == 1)
            .map(|(&offset, _)| offset)
            .collect();
        for offset in freed {
            self.held.remove(&offset);
            self.free.push(offset);
        }
    }

    /// Runs all calls under way to their end.
    fn finish(&mut self) {
        for _ in 0..1000 {
            self.step(Step::Admit);
            self.step(Step::Answer { which: 0 });
            self.step(Step::Collect);
            if !self.caller.is_owed() {
                break;
            }
        }
        assert!(!self.caller.is_owed(), "every entry is answered");
        assert!(self.waiting.is_empty(), "every call that is waited for is answered");
        assert_eq!(self.caller.free_slots(), LINES, "no slot is lost");
        assert_eq!(self.free.len(), BUFFERS, "no buffer is lost");
        assert_eq!(self.caller.foreign(), 0);
        assert_eq!(self.ran.len() as u64, self.next - 1, "every call runs");
        assert!(self.ran.values().all(|&times| times == 1), "no call runs twice");
    }
}

fn chosen(waiting: &HashMap<u16, (u64, usize)>, which: usize) -> Option<u16> {
    let mut slots: Vec<u16> = waiting.keys().copied().collect();
    slots.sort_unstable();
    (!slots.is_empty()).then(|| slots[which % slots.len()])
}

fn run<M: SharedMemory>(mut world: QueueWorld<M>, steps: Vec<Step>) {
    for step in steps {
        world.step(step);
    }
    world.finish();
}

/// Makes two hosts of a model of memory.
fn hosts(seed: u64) -> (DeviceView, DeviceView) {
    let device = Device::new(BYTES);
    (device.host(seed), device.host(seed ^ 1))
}

/// Checks that what a host's cache has of an earlier channel in the same area is not published with what is new.
#[test]
fn lines_of_an_earlier_channel_are_not_published() {
    for seed in 0..200 {
        let (here, there) = hosts(seed);
        let layout = QueueLayout::fitting(AREA).unwrap();
        let answers = layout.answers();
        let line = (0..8).map(|word| answers + word * 8);
        line.clone().for_each(|at| there.memory.store(there.entry(at), u64::MAX));
        line.for_each(|at| here.memory.store(here.entry(at), 0));
        // SAFETY: the views outlive both ends, and the area of the device is zero.
        let (mut caller, mut callee) = unsafe {
            (
                Caller::<_, Lent>::new(here.memory.clone(), here.base(), layout),
                Callee::new(there.memory.clone(), there.base(), layout),
            )
        };
        let mut rings = 0;
        let mut wake = |caller: &mut Caller<_, Lent>| {
            assert_eq!(caller.poll(|_| ControlFlow::Continue(())), 0, "nothing was answered");
            assert!(caller.wake_callee(|| {
                rings += 1;
                true
            }));
        };
        wake(&mut caller);
        let sleep = callee.announce_sleep();
        // Peers of other releases read this word, too: the last one of the first line.
        assert_eq!((here.memory.load(here.entry(answers + LINE - 8)), sleep), (3, 3));
        wake(&mut caller);
        wake(&mut caller);
        callee.announce_awake(sleep);
        wake(&mut caller);
        assert_eq!(rings, 1, "one for each sleep");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }))]

    #[test]
    fn calls_run_once_in_coherent_memory(steps in steps()) {
        let (here, _) = hosts(0);
        run(QueueWorld::new((Coherent, here.base()), (Coherent, here.base())), steps);
    }

    // Miri does not have the processor's instructions.
    #[cfg(not(miri))]
    #[test]
    fn calls_run_once_in_incoherent_memory(steps in steps()) {
        let (here, _) = hosts(0);
        // On a processor that cannot flush there is nothing to test.
        if let Ok(memory) = unrack_pool::cache_control::Incoherent::detect() {
            run(QueueWorld::new((memory, here.base()), (memory, here.base())), steps);
        }
    }

    #[test]
    fn calls_run_once_in_the_model(steps in steps(), seed: u64) {
        let (here, there) = hosts(seed);
        run(QueueWorld::new((here.memory.clone(), here.base()), (there.memory.clone(), there.base())), steps);
    }

    /// A client that writes anything to its queue costs the server nothing but answers.
    #[test]
    fn a_hostile_caller_reaches_only_what_it_granted(
        noise in prop::collection::vec((0..AREA / 8, any::<u64>(), any::<bool>()), 1..LONGEST),
        seed: u64,
    ) {
        let (here, _) = hosts(seed);
        let layout = QueueLayout::fitting(AREA).unwrap();
        // SAFETY: the view outlives the callee.
        let mut callee = unsafe { Callee::new(Coherent, here.base(), layout) };
        let granted = Granted(here.base());
        for (word, value, small) in noise {
            // Half of the words are small enough that slots, offsets and kinds are often in range.
            let value = if small { value & !(0xffff_ffff << 6) } else { value };
            words(here.base(), AREA / 8)[word].store(value, Ordering::Relaxed);
            while let Some(incoming) = callee.poll(&granted) {
                let bytes = incoming.request.length.max(incoming.request.capacity) as usize;
                prop_assert!(granted.reach(incoming.request.offset, bytes) == Some(incoming.base));
                callee.answer(incoming.request.slot, EntryStatus::DONE, incoming.request.length, 0);
            }
        }
    }

    /// A server that writes anything to its queue costs the client at most its calls.
    #[test]
    fn a_hostile_callee_cannot_make_an_answer_longer_than_its_buffer(
        noise in prop::collection::vec((0..LINES * 8, any::<u64>(), any::<bool>()), 1..LONGEST),
    ) {
        let (here, _) = hosts(1);
        let layout = QueueLayout::fitting(AREA).unwrap();
        // SAFETY: the view outlives the caller.
        let mut caller = unsafe { Caller::new(Coherent, here.base(), layout) };
        let mut spare: Vec<u64> = (0..BUFFERS).map(|index| (AREA + index * BUFFER) as u64).collect();
        let mut waiting = Vec::new();
        for (word, value, small) in noise {
            if let Some(offset) = spare.pop() {
                let base = here.base().wrapping_add(offset as usize);
                let slot = caller.reserve(Lent { offset, base, _held: Rc::new(()) }).ok().unwrap();
                caller.post(slot, (Kind::Call, 0, 1), LINE, LINE).unwrap();
                waiting.push(slot);
            }
            let value = if small { value & 0x8000_0fff_0000_00ff } else { value };
            words(here.base().wrapping_add(layout.answers()), LINES * 8)[word].store(value, Ordering::Relaxed);
            caller.poll(|_| ControlFlow::Continue(()));
            waiting.retain(|&slot| {
                let Some(answer) = caller.answer(slot) else { return true };
                assert!(answer.status.0 > EntryStatus::MORE.0 || answer.length as usize <= LINE);
                spare.extend(caller.release(slot).map(|buffer| buffer.offset));
                false
            });
        }
    }
}
