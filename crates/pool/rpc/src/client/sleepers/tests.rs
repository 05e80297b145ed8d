//! Models of sleeping threads under all interleavings: an answer that no thread is told of leaves a thread asleep
//! for ever, which the checker reports.

use super::*;
use loom::sync::Arc;

#[derive(Default)]
struct Client {
    sleepers: Sleepers,
    wakeup: Wakeup,
    /// Answers that the server wrote.
    arrived: [AtomicBool; 2],
    /// Answers that were taken: stands for the calls of a client, and their lock.
    taken: Mutex<[bool; 2]>,
}

impl Client {
    /// Takes the answers that have come. Returns whether `mine` was taken, now or before; others are told of
    /// theirs.
    fn find(&self, mine: usize, place: SleeperSlot) -> bool {
        let mut taken = self.taken.lock().unwrap();
        let before = *taken;
        for (taken, arrived) in taken.iter_mut().zip(&self.arrived) {
            *taken |= arrived.load(Ordering::Acquire);
        }
        let others = taken[1 - mine] != before[1 - mine];
        let found = taken[mine];
        drop(taken);
        if others {
            self.sleepers.tell(&self.wakeup, place);
        }
        found
    }

    fn wait(&self, mine: usize) {
        let mut found = false;
        while !found && !self.find(mine, SleeperSlot::Beside) {
            self.sleepers.sleep(&self.wakeup, None, |place| {
                found = match place {
                    SleeperSlot::OnBell => self.find(mine, place),
                    SleeperSlot::Beside => self.taken.lock().unwrap()[mine],
                };
                found
            });
        }
    }

    /// Plays the server: writes the answers, and wakes the client.
    fn answer(&self) {
        for arrived in &self.arrived {
            arrived.store(true, Ordering::Release);
        }
        self.wakeup.wake();
    }
}

fn model(preemptions: usize, threads: impl Fn(Arc<Client>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || threads(Arc::default()));
}

/// Two threads wait; the one on the wakeup takes the other's answer too. With three threads and more than one
/// preemption the checker tries schedules in which two ring each other endlessly.
#[test]
fn loom_both_who_wait_are_told() {
    model(1, |client| {
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(0)
        });
        let answers = loom::thread::spawn({
            let client = client.clone();
            move || client.answer()
        });
        client.wait(1);
        waits.join().unwrap();
        answers.join().unwrap();
    });
}

/// A thread that does not sleep takes the answer of one that does.
#[test]
fn loom_who_sleeps_is_told_by_who_took_its_answer() {
    model(3, |client| {
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(0)
        });
        // The server's ring comes later than the look of this thread, or never: the sleeper was not yet seen
        // asleep.
        client.arrived[0].store(true, Ordering::Release);
        client.find(1, SleeperSlot::Beside);
        waits.join().unwrap();
    });
}

/// A thread leaves the wakeup while another goes to sleep beside it: that one takes the wakeup, and hears the server.
#[test]
fn loom_a_wakeup_that_is_left_is_taken() {
    model(3, |client| {
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(1)
        });
        client.sleepers.sleep(&client.wakeup, None, |_| true);
        client.arrived[1].store(true, Ordering::Release);
        client.wakeup.wake();
        waits.join().unwrap();
    });
}

/// The wakeup stays another's; a third thread takes the answer.
#[test]
fn loom_who_sleeps_beside_the_wakeup_is_told() {
    model(3, |client| {
        let on_wakeup = client.sleepers.take_wakeup();
        let waits = loom::thread::spawn({
            let client = client.clone();
            move || client.wait(1)
        });
        client.arrived[1].store(true, Ordering::Release);
        client.find(0, SleeperSlot::Beside);
        waits.join().unwrap();
        drop(on_wakeup);
    });
}

/// A pair of queues with one slot, which a call has: models how [`SharedConnection`](super::super::shared::SharedConnection) handles
/// room.
#[derive(Default)]
struct Slots {
    sleepers: Sleepers,
    wakeup: Wakeup,
    /// True if the call's answer has come.
    arrived: AtomicBool,
    /// The calls, and their lock.
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    free: bool,
    seekers: usize,
    /// True if the call was given up: its slot is free when the answer has come.
    abandoned: bool,
}

impl Slots {
    /// Takes the slot if it is free. The thread that takes the answer of an abandoned call tells those that look
    /// for room.
    fn find(&self, place: SleeperSlot) -> bool {
        let mut calls = self.calls.lock().unwrap();
        let freed = calls.abandoned && self.arrived.load(Ordering::Acquire);
        calls.abandoned &= !freed;
        calls.free |= freed;
        let found = std::mem::take(&mut calls.free);
        drop(calls);
        if freed {
            self.sleepers.tell(&self.wakeup, place);
        }
        found
    }

    fn wait_for_room(&self) {
        self.calls.lock().unwrap().seekers += 1;
        let mut found = false;
        while !found && !self.find(SleeperSlot::Beside) {
            self.sleepers.sleep(&self.wakeup, None, |place| {
                found = match place {
                    SleeperSlot::OnBell => self.find(place),
                    SleeperSlot::Beside => std::mem::take(&mut self.calls.lock().unwrap().free),
                };
                found
            });
        }
        self.calls.lock().unwrap().seekers -= 1;
    }

    fn release(&self) {
        let mut calls = self.calls.lock().unwrap();
        calls.free = true;
        let sought = calls.seekers > 0;
        drop(calls);
        if sought {
            self.sleepers.tell_all(&self.wakeup);
        }
    }
}

fn slots_model(preemptions: usize, threads: impl Fn(Arc<Slots>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || threads(Arc::default()));
}

fn seeker(slots: &Arc<Slots>) -> loom::thread::JoinHandle<()> {
    let slots = slots.clone();
    loom::thread::spawn(move || slots.wait_for_room())
}

/// All slots are held; one is released while a thread waits for it, or goes to sleep.
#[test]
fn loom_who_waits_for_room_is_told_of_it() {
    slots_model(3, |slots| {
        let seeks = seeker(&slots);
        slots.release();
        seeks.join().unwrap();
    });
}

/// Two threads wait for the slot, one on the wakeup and one beside it: the first passes it on.
#[test]
fn loom_room_goes_to_all_who_wait_for_it() {
    slots_model(1, |slots| {
        let seeks = loom::thread::spawn({
            let slots = slots.clone();
            move || {
                slots.wait_for_room();
                slots.release();
            }
        });
        slots.release();
        slots.wait_for_room();
        slots.release();
        seeks.join().unwrap();
    });
}

/// The slot belongs to an abandoned call: the server's answer makes room, whichever thread takes it.
#[test]
fn loom_an_answer_that_makes_room_is_told_of() {
    slots_model(2, |slots| {
        slots.calls.lock().unwrap().abandoned = true;
        let seeks = seeker(&slots);
        slots.arrived.store(true, Ordering::Release);
        slots.wakeup.wake();
        seeks.join().unwrap();
    });
}

/// Another case of an abandoned call: a thread that does not sleep takes the answer, and the slot only if no
/// other did.
#[test]
fn loom_who_makes_room_for_others_tells_them() {
    slots_model(2, |slots| {
        slots.calls.lock().unwrap().abandoned = true;
        let seeks = seeker(&slots);
        slots.arrived.store(true, Ordering::Release);
        if slots.find(SleeperSlot::Beside) {
            slots.release();
        }
        seeks.join().unwrap();
    });
}
