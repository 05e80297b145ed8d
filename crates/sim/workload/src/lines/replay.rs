//! Closed-loop replay of a program's requests for cache lines, on many compute blades at once.
//!
//! Each compute blade runs one replica of the program. Each thread of a replica replays its windows one after the
//! other. A window starts when the thread's previous window ends. A request is issued when the requests on which it
//! depends are complete and the computing time after them is over. Every replica begins with a different window, so
//! that at any time the network carries requests from all phases of the program.

use super::{Dependence, LINE_BYTES, LineMessage, LineTrace};
use crate::blades::BladeRacks;
use crate::error::WorkloadError;
use crate::message::Message;
use crate::source::{Outbox, Source};
use crate::trace::Placement;
use std::sync::Arc;
use unrack_rack::Blades;
use unrack_units::Time;

/// Number of address bits within a page. The bits above them determine the memory blade.
const PAGE_BITS: u32 = 12;

/// Source that replays the windows of a program. It shares the trace with the sources of other runs.
///
/// The tag of a message identifies the request; see [`LineTrace::place`].
pub struct LineReplay {
    trace: Arc<LineTrace>,
    placement: Placement,
    /// Progress of each thread of each replica, replica by replica.
    threads: Vec<ThreadProgress>,
    submitted: u64,
    total: u64,
}

/// Progress of one thread of one replica.
#[derive(Debug, Clone, Copy)]
struct ThreadProgress {
    /// Window that the thread is replaying.
    window: u32,
    /// Number of windows that the thread will replay after the current window.
    left: u32,
}

/// Action of an actor of this source when it is woken.
enum Actor {
    /// Issues the request with this number, counted over all replicas.
    Request(u32),
    /// Starts the next window of the thread with this number, counted over all replicas.
    Thread(u32),
}

impl LineReplay {
    /// Creates a replay on these racks. A number of nodes can be given instead, which are then in one rack.
    ///
    /// # Errors
    /// If the racks cannot hold the blades, or there are too many requests.
    pub fn new(
        trace: Arc<LineTrace>,
        blades: Blades,
        seed: u64,
        racks: impl Into<BladeRacks>,
    ) -> Result<LineReplay, WorkloadError> {
        let placement = Placement::new(blades, racks.into(), seed)?;
        let replicas = placement.replicas();
        let total = trace.len() * u64::from(replicas);
        let threads = u64::from(trace.threads()) * u64::from(replicas);
        if total + threads >= u64::from(u32::MAX) {
            let rule = "replays fewer than 2^32 lines: replay fewer windows, or on fewer blades";
            return Err(WorkloadError::new("workload.lines", rule, total));
        }
        let first = |replica, thread| first_window(&trace, replica, replicas, thread);
        let threads =
            (0..replicas).flat_map(|replica| (0..trace.threads()).map(move |thread| (replica, thread)));
        let threads = threads.map(|(replica, thread)| first(replica, thread)).collect();
        Ok(LineReplay { placement, threads, submitted: 0, total, trace })
    }

    fn actor(&self, number: u32) -> Actor {
        match u64::from(number).checked_sub(self.total) {
            None => Actor::Request(number),
            Some(thread) => Actor::Thread(thread as u32),
        }
    }

    /// Starts the current window of a thread.
    fn start_window<O: Outbox>(&self, thread: u32, now: Time, out: &mut O) {
        let replica = thread / self.trace.threads();
        self.wake_dependents(replica, self.threads[thread as usize].window, None, now, out);
        self.end_after(None, thread, now, out);
    }

    /// Schedules wakeups for all requests of a window that wait for the request `completed`, or for the start of the
    /// window if it is `None`. Each wakeup is at the end of the request's computing time.
    fn wake_dependents<O: Outbox>(
        &self,
        replica: u32,
        window: u32,
        completed: Option<u32>,
        now: Time,
        out: &mut O,
    ) {
        let window = &self.trace.windows[window as usize];
        let base = replica as usize * self.trace.requests.len() + window.range.start;
        for index in window.waiting_for(completed) {
            let gap = self.trace.requests[window.range.start + *index as usize].when.gap;
            out.wake_at(now + gap, (base + *index as usize) as u32);
        }
    }

    /// Schedules the end of a thread's window, if this end waits for the request `completed`, or for the start of the
    /// window if it is `None`.
    fn end_after<O: Outbox>(&self, completed: Option<u32>, thread: u32, now: Time, out: &mut O) {
        let ThreadProgress { window, left } = self.threads[thread as usize];
        let Dependence { after, gap } = self.trace.windows[window as usize].end;
        if left > 0 && after == completed {
            out.wake_at(now + gap, (self.total + u64::from(thread)) as u32);
        }
    }

    fn message(&self, number: u32) -> Message {
        let requests = self.trace.requests.len();
        let (replica, index) = (number as usize / requests, number as usize % requests);
        let LineMessage { address, is_write_back, .. } = self.trace.requests[index];
        let src = self.placement.compute_node(replica as u32);
        let dst = self.placement.memory_node(replica as u32, address >> PAGE_BITS);
        let make = if is_write_back { Message::write } else { Message::read };
        make(src, dst, LINE_BYTES).tagged(number)
    }
}

/// Returns the window with which a thread of a replica begins. The first windows of the replicas are evenly spaced over
/// the thread's windows.
fn first_window(trace: &LineTrace, replica: u32, replicas: u32, thread: u32) -> ThreadProgress {
    let windows = thread_windows(trace, thread);
    let count = windows.len() as u64;
    let window = windows.start as u64 + count * u64::from(replica) / u64::from(replicas);
    ThreadProgress { window: window as u32, left: count.saturating_sub(1) as u32 }
}

fn thread_windows(trace: &LineTrace, thread: u32) -> std::ops::Range<usize> {
    trace.threads[thread as usize]..trace.threads[thread as usize + 1]
}

impl Source for LineReplay {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        for thread in 0..self.threads.len() as u32 {
            if !thread_windows(&self.trace, thread % self.trace.threads()).is_empty() {
                self.start_window(thread, Time::ZERO, out);
            }
        }
    }

    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        match self.actor(actor) {
            Actor::Request(number) => {
                out.submit(self.message(number));
                self.submitted += 1;
            }
            Actor::Thread(thread) => {
                let windows = thread_windows(&self.trace, thread % self.trace.threads());
                let progress = &mut self.threads[thread as usize];
                let next = progress.window as usize + 1;
                progress.window = if next < windows.end { next } else { windows.start } as u32;
                progress.left -= 1;
                self.start_window(thread, now, out);
            }
        }
    }

    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O) {
        let place = self.trace.place(message.tag);
        self.wake_dependents(place.replica, place.window, Some(place.request), now, out);
        let thread = place.replica * self.trace.threads() + place.thread;
        // A window may end before its last request is complete.
        if self.threads[thread as usize].window == place.window {
            self.end_after(Some(place.request), thread, now, out);
        }
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn is_exhausted(&self) -> bool {
        self.submitted == self.total
    }
}
