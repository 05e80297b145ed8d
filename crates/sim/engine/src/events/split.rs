//! Split runs: one run on several threads, with the results of a run on a single thread.
//!
//! The switches, each with its nodes, are divided among parts. Each part has its own event queue and its own fabric,
//! and the fabric hands over the items that cross to another part. A packet that leaves a switch affects the next
//! switch only after a [lookahead](Fabric::lookahead). Therefore all parts can run through a window of that length in
//! parallel. Between two windows, the parts exchange the items that crossed.
//!
//! The results do not depend on the number of parts: they equal those of a run that is not split. The events at a
//! switch and its nodes depend only on earlier events there and on arrivals over links, and their order is the same in
//! a part as in a whole run (see [`Tied`]: at one instant, new messages come first, then arrivals by the number of
//! their link, then everything else). A run that is not split also ends at the end of a window.

use super::core::{Core, Event};
use super::meeting::SpinBarrier;
use super::{BEFORE_END, BusyTimes, Counters, Progress, Unobserved, end_of_window, ending_after};
use crate::fabric::Fabric;
use crate::run::{Ending, Outcome, Run};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// A fabric that can run one part of its network alone.
pub trait Split: Fabric + Send {
    /// Item that crosses from one part to another.
    type Parcel: Send;

    /// Makes this fabric the part with the number `me`. `part_of` is the part of each switch.
    fn become_part(&mut self, me: u32, part_of: Arc<[u32]>);
    /// Returns the items that have crossed to other parts, each with the number of its destination part. The caller
    /// drains the list.
    fn crossed(&mut self) -> &mut Vec<(u32, Self::Parcel)>;
    /// Takes over an item from another part. The item is due later than all events that this part has handled.
    fn take(&mut self, core: &mut Core<Self::Event, Unobserved>, parcel: Self::Parcel);

    /// Returns the transfers whose sender is in this part and has nothing more to do. The caller drains the list.
    fn closed(&mut self) -> &mut Vec<u32>;
    /// Returns the number of references to a transfer that this part took, minus the number that it released. The sum
    /// over all parts is the number of references that are still in flight.
    fn under_way(&self, transfer: u32) -> i32;
    /// Forgets a transfer that has no reference in flight in any part.
    fn forget(&mut self, transfer: u32);
}

/// Number of windows between two searches for transfers to forget.
const FORGET_EVERY: u64 = 256;
/// Number of windows between two calls of the progress hook.
const PROGRESS_EVERY: u64 = 1 << 12;

struct SplitPart<F: Split> {
    core: Core<F::Event, Unobserved>,
    fabric: F,
    /// Messages that the nodes of this part submit, in order of time.
    calls: std::vec::IntoIter<u32>,
}

/// State that all parts share.
struct SplitState<'a, F: Split> {
    calls: &'a [Time],
    parts: &'a [Mutex<SplitPart<F>>],
    /// Mailboxes for items that cross, indexed by sending part and then by receiving part.
    mail: Vec<Mutex<Vec<F::Parcel>>>,
    earliest: Vec<AtomicU64>,
    finished: Vec<AtomicU64>,
    /// Set if a message was given up in the previous window.
    gave_up: AtomicBool,
    meeting: SpinBarrier,
    window: Time,
    time_limit: Time,
}

/// Runs `calls`, which are sorted by time, on one thread per part. `make` must create an equal fabric each time.
/// `part_of` is the part of each switch, counted from 0, and `switch_of` returns the switch of a node.
pub fn run_split<F: Split>(
    make: impl Fn() -> F,
    calls: &[(Time, Message)],
    part_of: &Arc<[u32]>,
    switch_of: impl Fn(u32) -> u32,
    time_limit: Time,
    progress: &mut dyn FnMut(Progress),
) -> Run {
    let (times, messages): (Vec<Time>, Vec<Message>) = calls.iter().copied().unzip();
    let messages = Arc::new(messages);
    let number = part_of.iter().max().map_or(1, |last| last + 1);
    let home = |message: &Message| part_of[switch_of(message.src) as usize];
    let parts: Vec<Mutex<SplitPart<F>>> = (0..number)
        .map(|me| {
            let own = |(id, message): (usize, &Message)| (home(message) == me).then_some(id as u32);
            let own: Vec<u32> = messages.iter().enumerate().filter_map(own).collect();
            let mut fabric = make();
            fabric.become_part(me, part_of.clone());
            Mutex::new(SplitPart {
                core: Core::with(messages.clone(), Unobserved),
                fabric,
                calls: own.into_iter(),
            })
        })
        .collect();
    let counts = || (0..number).map(|_| AtomicU64::new(0)).collect();
    let shared = SplitState {
        calls: &times,
        parts: &parts,
        mail: (0..number * number).map(|_| Mutex::default()).collect(),
        earliest: counts(),
        finished: counts(),
        gave_up: AtomicBool::new(false),
        meeting: SpinBarrier::new(number as usize),
        window: make().lookahead(),
        time_limit,
    };
    let ending = std::thread::scope(|scope| {
        for me in 1..number {
            let shared = &shared;
            scope.spawn(move || shared.go(me as usize, &mut |_| {}));
        }
        shared.go(0, progress)
    });
    let parts = parts.into_iter().map(|part| part.into_inner().expect("nobody holds it any more")).collect();
    join(parts, calls, time_limit, home, ending)
}

impl<F: Split> SplitState<'_, F> {
    fn part(&self, number: usize) -> MutexGuard<'_, SplitPart<F>> {
        self.parts[number].lock().expect("a thread that panics ends the run")
    }

    /// Runs part `me` through all windows.
    fn go(&self, me: usize, progress: &mut dyn FnMut(Progress)) -> Ending {
        let _hold = self.meeting.attend();
        self.part(me).sleep(self.calls);
        for window in 1.. {
            self.publish(me);
            self.meeting.wait();
            let sum = |all: &[AtomicU64]| all.iter().map(|one| one.load(Ordering::Relaxed)).sum::<u64>();
            let finished = sum(&self.finished);
            let start = self.earliest.iter().map(|one| one.load(Ordering::Relaxed)).min();
            let start = start.map_or(Time::MAX, Time::from_ps);
            if me == 0 && window % PROGRESS_EVERY == 0 {
                let (submitted, total) = (self.calls.len() as u64, Some(self.calls.len() as u64));
                progress(Progress { finished, submitted, total, events: 0, now: start });
            }
            if finished == self.calls.len() as u64 {
                return Ending::Done;
            } else if start == Time::MAX {
                return Ending::Idle;
            } else if start > self.time_limit.min(BEFORE_END) {
                return ending_after(self.time_limit);
            }
            let limit = self.time_limit.min(BEFORE_END) + Time::from_ps(1);
            let end = end_of_window(start, self.window).min(limit);
            self.part(me).run_until(end, self.calls);
            self.hand_over(me);
            self.meeting.wait();
            self.collect(me);
            if window % FORGET_EVERY == 0 || self.gave_up.load(Ordering::Relaxed) {
                self.meeting.wait();
                if me == 0 {
                    self.settle();
                }
                self.meeting.wait();
            }
        }
        unreachable!("a run has fewer than 2^64 windows")
    }

    /// Publishes the progress of this part. The other parts read it after the next meeting and before the one that
    /// follows.
    fn publish(&self, me: usize) {
        let core = &self.part(me).core;
        let earliest = core.earliest().map_or(u64::MAX, Time::as_ps);
        self.earliest[me].store(earliest, Ordering::Relaxed);
        self.finished[me].store(core.finished, Ordering::Relaxed);
    }

    fn hand_over(&self, me: usize) {
        let mut part = self.part(me);
        let part = &mut *part;
        for (to, parcel) in part.fabric.crossed().drain(..) {
            let mail = &self.mail[me * self.parts.len() + to as usize];
            mail.lock().expect("a thread that panics ends the run").push(parcel);
        }
        if !part.core.given_up.is_empty() {
            self.gave_up.store(true, Ordering::Relaxed);
        }
    }

    fn collect(&self, me: usize) {
        let mut part = self.part(me);
        let SplitPart { core, fabric, .. } = &mut *part;
        for from in 0..self.parts.len() {
            let mail = &self.mail[from * self.parts.len() + me];
            for parcel in mail.lock().expect("a thread that panics ends the run").drain(..) {
                fabric.take(core, parcel);
            }
        }
    }

    /// Does the work that needs all parts at once, while their threads wait.
    fn settle(&self) {
        let mut parts: Vec<_> = (0..self.parts.len()).map(|number| self.part(number)).collect();
        let given_up: BTreeSet<_> =
            parts.iter_mut().flat_map(|part| std::mem::take(&mut part.core.given_up)).collect();
        let mut known = BTreeSet::new();
        for (at, id) in given_up {
            if known.insert(id) {
                give_up(&mut parts, at, id);
            }
        }
        self.gave_up.store(false, Ordering::Relaxed);
        // Forget transfers that have no packet in flight.
        for number in 0..parts.len() {
            for transfer in std::mem::take(parts[number].fabric.closed()) {
                match parts.iter().map(|part| part.fabric.under_way(transfer)).sum::<i32>() {
                    0 => parts.iter_mut().for_each(|part| part.fabric.forget(transfer)),
                    _ => parts[number].fabric.closed().push(transfer),
                }
            }
        }
    }
}

/// Gives up message `id` in every part, because one or two parts gave it up, the first of them at `at`. A completion in
/// any part at or before `at` takes precedence.
fn give_up<F: Split>(parts: &mut [MutexGuard<'_, SplitPart<F>>], at: Time, id: MessageId) {
    let outcome = |part: &MutexGuard<'_, SplitPart<F>>| part.core.outcomes[id.index()];
    let complete = parts.iter().any(|part| outcome(part).completed().is_some_and(|then| then <= at));
    let mut counted = complete;
    for part in parts {
        let core = &mut part.core;
        let place = &mut core.outcomes[id.index()];
        if place.completed().is_some_and(|then| then <= at) {
            continue;
        }
        let had_ended = place.completed().is_some() || place.is_given_up();
        place.reopen();
        if had_ended {
            core.finished -= 1;
        }
        if !complete {
            place.give_up();
            core.finished += u64::from(!std::mem::replace(&mut counted, true));
        }
    }
}

/// Joins the results of all parts to one run.
fn join<F: Split>(
    parts: Vec<SplitPart<F>>,
    calls: &[(Time, Message)],
    time_limit: Time,
    home: impl Fn(&Message) -> u32,
    ending: Ending,
) -> Run {
    let submitted = calls.partition_point(|(at, _)| *at <= time_limit);
    let messages: Vec<Message> = calls[..submitted].iter().map(|(_, message)| *message).collect();
    let outcome = |(index, message): (usize, &Message)| {
        let mut outcome = Outcome::submitted(parts[home(message) as usize].core.outcomes[index].submitted);
        for part in &parts {
            outcome.add(&part.core.outcomes[index]);
        }
        outcome
    };
    let outcomes: Vec<Outcome> = messages.iter().enumerate().map(outcome).collect();
    let each = messages.iter().zip(&outcomes);
    let unloaded = each.map(|(message, outcome)| parts[0].fabric.unloaded_beside(message, outcome)).collect();
    let mut counters = Counters::default();
    let mut queue_bytes = parts[0].core.queue_bytes();
    let mut busy = BusyTimes::default();
    for (number, part) in parts.iter().enumerate() {
        counters.add(&part.core.counters);
        busy.add_all(&part.core.busy);
        if number > 0 {
            queue_bytes.add(part.core.queue_bytes()).expect("the same bounds");
        }
    }
    let ended = parts.iter().map(|part| part.core.now()).max().unwrap_or(Time::ZERO);
    Run { messages, outcomes, unloaded, counters, queue_bytes, busy, hosts: None, ended, ending }
}

impl<F: Split> SplitPart<F> {
    /// Schedules a wakeup for the time at which this part submits its next message.
    fn sleep(&mut self, calls: &[Time]) {
        if let Some(id) = self.calls.next() {
            self.core.wake_at(calls[id as usize], id);
        }
    }

    fn run_until(&mut self, end: Time, calls: &[Time]) {
        while let Some((at, event)) = self.core.pop_before(end) {
            self.core.advance(at);
            match event {
                Event::Wake(id) => {
                    self.core.submit(MessageId(id));
                    self.fabric.submit(&mut self.core, MessageId(id));
                    self.sleep(calls);
                }
                Event::Fabric(event) => {
                    self.core.counters.events += 1;
                    self.fabric.handle(&mut self.core, event);
                }
            }
            self.core.forget_completions();
        }
    }
}
