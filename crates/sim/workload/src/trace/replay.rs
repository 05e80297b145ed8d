//! Replay of a captured program on many compute blades at once. Each compute blade runs a replica of the program.
//!
//! In a closed-loop replay, each thread of each replica is a separate actor. It fetches a page, waits for the
//! completion, computes for as long as in the captured run, and fetches again. Therefore a slow fabric slows down the
//! traffic in the same way as it would slow down the program. A write-back is sent at its position in the thread's
//! timeline, and no thread waits for it. Threads do not wait for each other in the replay: if a thread waited for
//! another thread in the captured run, this time counts as its computing time. The program ends with the thread that
//! waited longest for remote memory in the captured run. If threads pass work to one another, the waits of the other
//! threads would have to be added. In this case, the predicted run time is too short.
//!
//! In an open-loop replay, every transfer is sent at its captured time, regardless of the state of the fabric.

use super::placement::Placement;
use super::{CapturedTrace, Step};
use crate::blades::BladeRacks;
use crate::error::WorkloadError;
use crate::message::Message;
use crate::random::{DrawPurpose, generator, unit};
use crate::source::{Outbox, Source};
use std::sync::Arc;
use unrack_rack::{Blades, Replay, TimeOffsets};
use unrack_units::Time;

/// Parameters of the replay of a captured program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplaySpec {
    pub blades: Blades,
    pub mode: Replay,
    /// Start times of the replicas. `TimeOffsets::Run` spreads the start times over the duration of the replayed
    /// window.
    pub offsets: TimeOffsets,
    pub seed: u64,
}

/// Source that replays the trace of a captured program. It shares the trace with the sources of other runs, and needs
/// 16 more bytes for each thread of each replica.
pub struct CapturedReplay {
    trace: Arc<CapturedTrace>,
    mode: Replay,
    placement: Placement,
    starts: Vec<Time>,
    /// State of the actors, one for each thread of each replica, replica by replica.
    actors: Vec<Actor>,
    /// Time at which the program ends on each replica.
    ends: Vec<Time>,
    submitted: u64,
    total: u64,
}

#[derive(Clone, Copy)]
struct Actor {
    /// Time at which the last fetch of the thread was completed.
    resumed: Time,
    next: usize,
}

/// Tag of a message for which no thread waits.
const NOBODY: u32 = u32::MAX;

impl CapturedReplay {
    /// Creates a replay on these racks. A number of nodes can be given instead, which are then in one rack.
    ///
    /// # Errors
    /// If the racks cannot hold the blades, or there are too many transfers.
    pub fn new(
        trace: Arc<CapturedTrace>,
        spec: &ReplaySpec,
        racks: impl Into<BladeRacks>,
    ) -> Result<CapturedReplay, WorkloadError> {
        let racks = racks.into();
        let placement = Placement::new(spec.blades, racks, spec.seed)?;
        let replicas = u64::from(placement.replicas());
        let (total, actors) = (trace.len() * replicas, u64::from(trace.threads()) * replicas);
        if total >= u64::from(u32::MAX) || actors >= u64::from(NOBODY) {
            let rule = "replays fewer than 2^32 transfers: replay a window of the trace, or on fewer blades";
            return Err(WorkloadError::new("workload.messages", rule, total));
        }
        let starts = starts(spec, placement.replicas(), trace.length());
        let actors = vec![Actor { resumed: Time::ZERO, next: 0 }; actors as usize];
        // A program that never waits computes until the end of its window.
        let least = if trace.only_computes() { trace.length() } else { Time::ZERO };
        let ends = starts.iter().map(|start| *start + least).collect();
        Ok(CapturedReplay { trace, mode: spec.mode, placement, starts, actors, ends, submitted: 0, total })
    }

    /// Returns the trace that is replayed.
    pub fn trace(&self) -> &CapturedTrace {
        &self.trace
    }

    /// Returns the run time of the program on each replica. It is valid after the end of the run, and only for a
    /// closed-loop replay.
    ///
    /// The program ends when the thread that represents it has completed its last fetch and then computed until its end
    /// ([`CapturedTrace::tail`]).
    pub fn run_times(&self) -> impl Iterator<Item = Time> + '_ {
        self.ends.iter().zip(&self.starts).map(|(end, start)| *end - *start)
    }

    fn step(&self, actor: u32) -> Option<Step> {
        let thread = actor % self.trace.threads();
        self.trace.steps(thread).get(self.actors[actor as usize].next).copied()
    }

    fn due(&self, actor: u32, step: &Step) -> Time {
        match self.mode {
            Replay::ClosedLoop => self.actors[actor as usize].resumed + step.after,
            Replay::OpenLoop => self.starts[self.replica(actor) as usize] + step.captured,
        }
    }

    fn replica(&self, actor: u32) -> u32 {
        actor / self.trace.threads()
    }

    /// Schedules the wakeup of an actor for its next transfer. If the actor has no more transfers, ends its thread.
    fn go_on<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        match self.step(actor) {
            Some(step) => out.wake_at(self.due(actor, &step).max(now), actor),
            None => self.end(actor),
        }
    }

    fn end(&mut self, actor: u32) {
        if let Some(tail) = self.trace.tail(actor % self.trace.threads()) {
            let replica = self.replica(actor) as usize;
            self.ends[replica] = self.actors[actor as usize].resumed + tail;
        }
    }

    fn message(&self, actor: u32, step: &Step, waits: bool) -> Message {
        let replica = self.replica(actor);
        let src = self.placement.compute_node(replica);
        let dst = self.placement.memory_node(replica, step.page);
        let bytes = u64::from(step.bytes);
        let message =
            if step.write_back { Message::write(src, dst, bytes) } else { Message::read(src, dst, bytes) };
        message.tagged(if waits { actor } else { NOBODY })
    }
}

impl Source for CapturedReplay {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        for actor in 0..self.actors.len() as u32 {
            let start = self.starts[self.replica(actor) as usize];
            self.actors[actor as usize].resumed = start;
            self.go_on(actor, start, out);
        }
    }

    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        let Some(step) = self.step(actor) else {
            return;
        };
        let waits = self.mode == Replay::ClosedLoop && !step.write_back;
        out.submit(self.message(actor, &step, waits));
        self.submitted += 1;
        self.actors[actor as usize].next += 1;
        if !waits {
            self.go_on(actor, now, out);
        }
    }

    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O) {
        if message.tag != NOBODY {
            self.actors[message.tag as usize].resumed = now;
            self.go_on(message.tag, now, out);
        }
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    fn is_exhausted(&self) -> bool {
        self.submitted == self.total
    }
}

fn starts(spec: &ReplaySpec, replicas: u32, window: Time) -> Vec<Time> {
    let within = match spec.offsets {
        TimeOffsets::None => Time::ZERO,
        TimeOffsets::Run => window,
        TimeOffsets::Within(time) => time,
    };
    let start = |replica| {
        let mut draws = generator(spec.seed, DrawPurpose::Offsets, replica);
        Time::from_ps((unit(&mut draws) * within.as_ps() as f64) as u64)
    };
    (0..replicas).map(start).collect()
}
