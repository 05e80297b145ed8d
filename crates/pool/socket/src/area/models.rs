//! Models of a direction for the model checker, which tries all interleavings. A lost wakeup leaves a thread asleep forever, and the
//! checker reports that.

use super::super::{AreaSignals, DirectionState, PushTimes, Reader, UNSET, Writer};
use super::{RingDirection, RingReading};
use crate::pieces::Pieces;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use libc::iovec;
use loom::sync::{Arc, Notify};
use std::cell::UnsafeCell;

/// Bytes of the ring in a model. No model sends more, so the ring does not wrap around.
const BYTES: usize = 64;

struct AreaModel {
    shared: DirectionState,
    journal: PushTimes,
    ring: UnsafeCell<[u8; BYTES]>,
    reader: Notify,
    writer: Notify,
}

// SAFETY: the words of the direction determine which thread may access which bytes; the models check exactly that.
unsafe impl Send for AreaModel {}
// SAFETY: as for `Send`.
unsafe impl Sync for AreaModel {}

impl AreaModel {
    fn new() -> AreaModel {
        let wide = |value| AtomicU64::new(value);
        let word = || AtomicU32::new(0);
        let writer = Writer {
            tail: wide(0),
            base: wide(0),
            head_seen: wide(0),
            begin: wide(0),
            end: wide(UNSET),
            wakes: wide(0),
            owed: wide(0),
            limit: wide(0),
            returned: wide(0),
        };
        let reader = Reader { head: wide(0), skipped: wide(0), phase: word() };
        let signals = AreaSignals {
            consent: word(),
            want_data: word(),
            want_room: word(),
            room: word(),
            revert: word(),
            gone: word(),
        };
        let shared = DirectionState { writer, reader, signals };
        AreaModel {
            shared,
            journal: PushTimes::default(),
            ring: UnsafeCell::new([0; BYTES]),
            reader: Notify::new(),
            writer: Notify::new(),
        }
    }

    fn direction(&self, most: usize) -> RingDirection<'_> {
        // SAFETY: no model sends more bytes than the ring has.
        unsafe { RingDirection::new(&self.shared, &self.journal, self.ring.get().cast(), most) }
    }

    /// Sends `bytes` bytes with ascending values, and waits for room where necessary.
    fn send(&self, bytes: u8, most: usize) {
        let direction = self.direction(most);
        let mut sent = 0;
        while sent < bytes {
            let mut byte = sent;
            let one = [iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 }];
            if direction.push(&mut Pieces::new(&one), || self.reader.notify()) == 1 {
                sent += 1;
                continue;
            }
            direction.request_room();
            if !direction.has_room() {
                self.writer.wait();
            }
        }
    }

    /// Receives `bytes` bytes, waiting for them, and checks their values.
    fn receive(&self, bytes: u8, most: usize) {
        let direction = self.direction(most);
        let mut received = 0;
        while received < bytes {
            match direction.look() {
                RingReading::Bytes(available) => {
                    let mut byte = 0_u8;
                    let one = [iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 }];
                    assert_eq!(direction.pop(&mut Pieces::new(&one), available.min(1)), 1);
                    assert_eq!(byte, received);
                    received += 1;
                    if direction.takes_room() {
                        self.writer.notify();
                    }
                }
                RingReading::Empty => {
                    direction.request_data();
                    if direction.look() == RingReading::Empty {
                        self.reader.wait();
                    }
                }
                look => panic!("{look:?}"),
            }
        }
        assert_eq!(self.shared.reader.head.load(Ordering::Relaxed), u64::from(bytes));
    }
}

fn explore(bytes: u8, most: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Arc::new(AreaModel::new());
        let sender = loom::thread::spawn({
            let model = model.clone();
            move || model.send(bytes, most)
        });
        model.receive(bytes, most);
        sender.join().expect("a sender");
    });
}

#[test]
fn loom_no_wake_for_data_is_lost() {
    explore(2, BYTES);
}

#[test]
fn loom_no_wake_for_room_is_lost() {
    explore(3, 1);
}

#[test]
fn loom_both_sleep_in_turn() {
    explore(3, 2);
}
