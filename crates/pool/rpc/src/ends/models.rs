//! Models of the two queues under all interleavings: a caller and a callee, each in its own thread, with lines that are
//! reused in the next lap. Buffers are cells of the model checker, which reports an end that reads a buffer before or
//! while it is written.

use super::{Callee, Caller, CallerBuffer, IncomingCall, QueueLayout, Reach};
use crate::queue::entry::{EntryStatus, Kind};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread::yield_now;
use std::ops::ControlFlow;
use unrack_pool::Wakeup;
use unrack_pool::cache_control::{Coherent, LINE};
use unrack_pool::sync::AtomicU64;

const LINES: usize = 2;

#[derive(Default)]
#[repr(align(64))]
struct ModelArea([[AtomicU64; LINE / 8]; 2 * LINES]);

#[derive(Default)]
struct ModelMemory {
    area: ModelArea,
    /// Contents of the buffers, indexed by offset in lines.
    buffers: [UnsafeCell<u64>; LINES],
}

impl ModelMemory {
    fn area(&self) -> (*mut u8, QueueLayout) {
        let layout = QueueLayout::fitting(size_of::<ModelArea>()).expect("room for two queues");
        assert_eq!(layout.lines(), LINES);
        (self.area.0.as_ptr().cast_mut().cast(), layout)
    }

    fn write(&self, offset: u64, value: u64) {
        // SAFETY: the checker reports concurrent access.
        self.buffers[offset as usize / LINE].with_mut(|buffer| unsafe { *buffer = value });
    }

    fn read(&self, offset: u64) -> u64 {
        // SAFETY: only the end that currently owns the buffer reads it; the checker reports a violation.
        self.buffers[offset as usize / LINE].with(|buffer| unsafe { *buffer })
    }
}

/// Buffer of a caller that consists of an offset only.
struct ModelBuffer(u64);

impl CallerBuffer for ModelBuffer {
    fn offset(&self) -> u64 {
        self.0
    }

    fn base(&self) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn capacity(&self) -> usize {
        LINE
    }
}

struct All;

impl Reach for All {
    fn reach(&self, _: u64, _: usize) -> Option<*mut u8> {
        Some(std::ptr::null_mut())
    }
}

struct ModelRequest<'a> {
    shared: &'a ModelMemory,
    caller: Caller<Coherent, ModelBuffer>,
}

impl<'a> ModelRequest<'a> {
    fn new(shared: &'a ModelMemory) -> Self {
        let (area, layout) = shared.area();
        // SAFETY: models keep the area until they end.
        ModelRequest { shared, caller: unsafe { Caller::new(Coherent, area, layout) } }
    }

    fn post(&mut self, place: u64, value: u64) -> u16 {
        let slot = self.caller.reserve(ModelBuffer(place * LINE as u64)).ok().expect("a free slot");
        self.shared.write(place * LINE as u64, value);
        self.caller.post(slot, (Kind::Call, 0, 1), 8, 8).expect("room in the queue");
        slot
    }

    /// Waits for the answer of a slot and checks it.
    fn collect(&mut self, slot: u16, value: u64) {
        while self.caller.answer(slot).is_none() {
            if self.caller.poll(|_| ControlFlow::Continue(())) == 0 {
                yield_now();
            }
        }
        assert_eq!(self.caller.answer(slot).map(|answer| answer.status), Some(EntryStatus::DONE));
        assert_eq!(self.shared.read(self.caller.buffer(slot).offset()), value + 100);
        self.caller.release(slot);
    }

    /// Waits until every entry is answered.
    fn settle(&mut self) {
        while self.caller.is_owed() {
            if self.caller.poll(|_| ControlFlow::Continue(())) == 0 {
                yield_now();
            }
        }
        assert_eq!((self.caller.foreign(), self.caller.free_slots()), (0, LINES));
    }
}

/// Runs `calls` calls, and returns their values in the order in which they ran.
fn serve(shared: &ModelMemory, calls: usize) -> Vec<u64> {
    let (area, layout) = shared.area();
    // SAFETY: the area exists as long as `shared`, and it was zero.
    let mut callee = unsafe { Callee::new(Coherent, area, layout) };
    let mut ran = Vec::new();
    while ran.len() < calls {
        match callee.poll(&All) {
            Some(IncomingCall { request, .. }) => {
                let value = shared.read(request.offset);
                ran.push(value);
                shared.write(request.offset, value + 100);
                callee.answer(request.slot, EntryStatus::DONE, 8, 8);
            }
            None => yield_now(),
        }
    }
    // An entry that repeats a call might still come.
    assert!(callee.poll(&All).is_none());
    ran
}

/// The caller, on another host, checks whether the callee sleeps, and wakes it. If the callee missed its wakeup, both
/// ends would wait for ever, which the checker reports.
#[test]
fn loom_a_callee_that_announces_a_sleep_is_woken() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let shared = Arc::new(ModelMemory::default());
        let wakeup = Arc::new(Wakeup::default());
        let sleeping = loom::thread::spawn({
            let (shared, wakeup) = (shared.clone(), wakeup.clone());
            move || {
                let (area, layout) = shared.area();
                // SAFETY: models keep the area until they end.
                let mut callee = unsafe { Callee::new(Coherent, area, layout) };
                while !callee.has_request() {
                    let mut sleep = 0;
                    wakeup.sleep(None, || {
                        sleep = callee.announce_sleep();
                        callee.has_request()
                    });
                    callee.announce_awake(sleep);
                }
            }
        });
        let mut asking = ModelRequest::new(&shared);
        asking.post(0, 1);
        assert!(asking.caller.wake_callee(|| {
            wakeup.wake();
            true
        }));
        sleeping.join().unwrap();
    });
}

fn model(calls: &'static [u64], ask: fn(&mut ModelRequest<'_>)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let shared = Arc::new(ModelMemory::default());
        let serving = loom::thread::spawn({
            let shared = shared.clone();
            move || serve(&shared, calls.len())
        });
        ask(&mut ModelRequest::new(&shared));
        assert_eq!(serving.join().unwrap(), calls);
    });
}

/// Makes more calls than there are lines, so that the flag changes in the second lap.
#[test]
fn loom_calls_one_after_another_use_lines_again() {
    model(&[1, 2, 3], |asking| {
        for value in 1..=3 {
            let slot = asking.post(0, value);
            asking.collect(slot, value);
        }
        asking.settle();
    });
}

#[test]
fn loom_calls_under_way_at_once_are_each_answered() {
    model(&[1, 2, 3], |asking| {
        let (first, second) = (asking.post(0, 1), asking.post(1, 2));
        asking.collect(first, 1);
        let third = asking.post(0, 3);
        asking.collect(second, 2);
        asking.collect(third, 3);
        asking.settle();
    });
}
