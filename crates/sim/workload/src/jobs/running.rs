//! State of a running job: which of its tasks are waiting, computing or done, and which messages the job has to send.

use super::ComputedJob;
use super::tasks::{CoreUse, Tasks};
use crate::message::{Message, NodeId};
use crate::source::{Computing, TaskLoads};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use unrack_units::Time;

/// A job that runs on its hosts.
#[derive(Debug)]
pub(super) struct RunningJob {
    pub job: ComputedJob,
    /// Host of each rank, indexed by rank.
    pub hosts: Vec<NodeId>,
    /// Number of the job's first task among the tasks of all jobs.
    pub base: u32,
    /// Whether memory loads of tasks take time. If not, they are ignored.
    loads_take_time: bool,
    round: usize,
    /// Number of tasks in the current round that are not done yet.
    left: u32,
    /// Number of inputs that each task still waits for, indexed by task.
    missing: Vec<u32>,
    /// Time at which each task was done, indexed by task. Empty unless the round has requests.
    done_at: Vec<Time>,
    cores: Vec<Core>,
    /// Ready tasks that any of the ranks in `anywhere_on` may compute. The map `moved` contains, for each such task
    /// that has begun, the rank that computes it.
    anywhere: VecDeque<u32>,
    anywhere_on: BTreeSet<u32>,
    moved: BTreeMap<u32, u32>,
    /// Ranks whose core may have become idle while a task waits for the core to compute.
    changed: Vec<u32>,
    /// Ranks with a task that waits for the core in order to send.
    to_send: BTreeSet<u32>,
    /// Tasks that have received all inputs and are not processed yet.
    ready: VecDeque<u32>,
    /// Messages that the job has to send and that the policy has not allowed yet.
    pub held: Vec<Message>,
    pub traffic: JobTraffic,
    pub ended: Option<Time>,
    /// Durations of the requests that were answered so far.
    pub requests: Vec<Time>,
    /// Computing time of each rank so far, indexed by rank.
    pub computed: Vec<Time>,
}

/// Core of a rank, which runs one task at a time. Tasks that send take precedence over tasks that compute. Within each
/// kind, tasks run in the order in which they became ready.
#[derive(Debug, Clone, Default)]
struct Core {
    is_busy: bool,
    /// If the core is computing: the time at which the computation began.
    since: Time,
    to_send: VecDeque<u32>,
    to_compute: VecDeque<u32>,
}

/// Counts of the messages of a job, and the total times during which messages were in flight or had to wait. Messages in flight
/// that the policy has stopped wait.
#[derive(Debug, Clone, Default)]
pub(super) struct JobTraffic {
    /// Number of messages in flight.
    pub open: u32,
    /// Whether the policy has stopped the messages in flight.
    pub is_paused: bool,
    /// Time since which at least one message has been in flight; `None` if no message is in flight.
    open_since: Option<Time>,
    /// Time since which messages have waited to be sent while no message was in flight; `None` if this is not the case.
    waits_since: Option<Time>,
    communicated: Time,
    waited: Time,
    pub messages: u64,
    pub bytes: u64,
}

impl JobTraffic {
    /// Returns the total time until `now` during which at least one message was in flight and not stopped.
    pub(super) fn communicated(&self, now: Time) -> Time {
        self.communicated + self.open_since.map_or(Time::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns the total time until `now` during which messages waited to be sent while no message was in flight.
    pub(super) fn waited(&self, now: Time) -> Time {
        self.waited + self.waits_since.map_or(Time::ZERO, |since| now.saturating_sub(since))
    }

    /// Returns the time since which messages have been in flight or, if none is, since which messages have waited to be
    /// sent. Returns `None` if there are no messages.
    pub(super) fn since(&self) -> Option<Time> {
        self.open_since.or(self.waits_since)
    }

    /// Updates the times after the messages of the job have changed. `wants` is whether messages wait to be sent.
    pub(super) fn settle(&mut self, wants: bool, now: Time) {
        let is_sending = self.open > 0 && !self.is_paused;
        advance(&mut self.open_since, &mut self.communicated, is_sending, now);
        advance(&mut self.waits_since, &mut self.waited, !is_sending && (wants || self.open > 0), now);
    }
}

/// Updates `sum`, the total time during which a condition has held. If `since` is set, the condition has held from that
/// time until now. `lasts` is whether the condition holds from now on.
fn advance(since: &mut Option<Time>, sum: &mut Time, lasts: bool, now: Time) {
    match (*since, lasts) {
        (None, true) => *since = Some(now),
        (Some(began), false) => {
            *sum += now - began;
            *since = None;
        }
        _ => {}
    }
}

impl RunningJob {
    /// Creates the state of a job that has not started yet.
    pub(super) fn new(job: ComputedJob, hosts: Vec<NodeId>, base: u32, loads_take_time: bool) -> RunningJob {
        let ranks = hosts.len();
        RunningJob {
            job,
            hosts,
            base,
            loads_take_time,
            round: 0,
            left: 0,
            missing: Vec::new(),
            done_at: Vec::new(),
            cores: vec![Core::default(); ranks],
            anywhere: VecDeque::new(),
            anywhere_on: BTreeSet::new(),
            moved: BTreeMap::new(),
            changed: Vec::new(),
            to_send: BTreeSet::new(),
            ready: VecDeque::new(),
            held: Vec::new(),
            traffic: JobTraffic::default(),
            ended: None,
            requests: Vec::new(),
            computed: vec![Time::ZERO; ranks],
        }
    }

    fn tasks(&self) -> Arc<Tasks> {
        self.job.rounds[self.round].clone()
    }

    /// Starts the job.
    pub(super) fn start(&mut self, now: Time) {
        self.prepare();
        self.go_on(now);
    }

    /// Handles the arrival of a message that is an input of this task.
    pub(super) fn arrived(&mut self, task: u32, now: Time) {
        self.input(task);
        self.go_on(now);
    }

    /// Handles the completion of a task's computation.
    pub(super) fn computed(&mut self, task: u32, now: Time) {
        let tasks = self.tasks();
        let rank = self.moved.remove(&task).unwrap_or_else(|| tasks.rank_of(task));
        self.computed[rank as usize] += now - self.cores[rank as usize].since;
        self.free(rank);
        self.done(&tasks, task, now);
        self.go_on(now);
    }

    /// Returns whether the job has messages to send, or a ready task that sends and whose core is idle.
    pub(super) fn wants_to_send(&self) -> bool {
        let waits = |rank: &u32| !self.cores[*rank as usize].is_busy;
        !self.held.is_empty() || self.to_send.iter().any(waits)
    }

    /// Runs the tasks that send, because the policy now allows the job to send. Each of these tasks takes the core of
    /// its rank, if that core is idle.
    pub(super) fn take_cores_to_send(&mut self, now: Time) {
        let tasks = self.tasks();
        for rank in std::mem::take(&mut self.to_send) {
            let core = &mut self.cores[rank as usize];
            if !core.is_busy
                && let Some(task) = core.to_send.pop_front()
            {
                core.is_busy = true;
                self.done(&tasks, task, now);
            }
            if !self.cores[rank as usize].to_send.is_empty() {
                self.to_send.insert(rank);
            }
        }
        self.go_on(now);
    }

    /// Starts tasks that wait to compute on idle cores. Adds their computations to `begun`.
    pub(super) fn compute(&mut self, now: Time, begun: &mut Vec<Computing>) {
        for rank in std::mem::take(&mut self.changed) {
            let core = &mut self.cores[rank as usize];
            if !core.is_busy
                && let Some(task) = core.to_compute.pop_front().or_else(|| self.take_moving(rank))
            {
                let core = &mut self.cores[rank as usize];
                (core.is_busy, core.since) = (true, now);
                let tasks = self.tasks();
                let (time, loads) = (tasks.compute_of(task), self.loads_of(&tasks, task));
                let node = self.hosts[rank as usize];
                begun.push(Computing { actor: self.base + task, node, time, loads });
            }
        }
    }

    /// Returns a ready task that any rank may compute, and records that this rank computes it. Returns `None` if there
    /// is no such task or this rank may not compute one.
    fn take_moving(&mut self, rank: u32) -> Option<u32> {
        if !self.anywhere_on.contains(&rank) {
            return None;
        }
        let task = self.anywhere.pop_front()?;
        self.moved.insert(task, rank);
        Some(task)
    }

    /// Returns the memory loads of a task, or no loads if loads take no time.
    fn loads_of(&self, tasks: &Tasks, task: u32) -> TaskLoads {
        if self.loads_take_time { tasks.loads_of(task) } else { TaskLoads::default() }
    }

    fn free(&mut self, rank: u32) {
        self.cores[rank as usize].is_busy = false;
        self.changed.push(rank);
    }

    /// Prepares the current round, at the start of which no task is done.
    fn prepare(&mut self) {
        let tasks = self.tasks();
        self.left = tasks.len();
        self.missing.clear();
        self.missing.extend((0..self.left).map(|task| tasks.inputs_of(task)));
        if tasks.has_requests() {
            self.done_at.clear();
            self.done_at.resize(self.left as usize, Time::ZERO);
        }
        self.ready.extend((0..self.left).filter(|task| self.missing[*task as usize] == 0));
    }

    fn input(&mut self, task: u32) {
        let missing = &mut self.missing[task as usize];
        *missing -= 1;
        if *missing == 0 {
            self.ready.push_back(task);
        }
    }

    /// Processes ready tasks until no task is ready. If this completes a round, the next round begins, so that several
    /// rounds may be completed.
    fn go_on(&mut self, now: Time) {
        loop {
            let tasks = self.tasks();
            while let Some(task) = self.ready.pop_front() {
                let rank = tasks.rank_of(task);
                let needs_no_core = self.loads_of(&tasks, task).is_empty();
                let core = &mut self.cores[rank as usize];
                match tasks.core_of(task) {
                    CoreUse::Computes(Time::ZERO) if needs_no_core => self.done(&tasks, task, now),
                    CoreUse::Computes(_) => {
                        core.to_compute.push_back(task);
                        self.changed.push(rank);
                    }
                    CoreUse::Anywhere(_) => {
                        self.anywhere.push_back(task);
                        self.anywhere_on.insert(rank);
                        self.changed.extend(&self.anywhere_on);
                    }
                    CoreUse::Keeps => {
                        core.to_send.push_back(task);
                        self.to_send.insert(rank);
                    }
                    CoreUse::Frees => {
                        self.free(rank);
                        self.done(&tasks, task, now);
                    }
                }
            }
            if self.left > 0 || self.ended.is_some() {
                return;
            }
            if self.round + 1 == self.job.rounds.len() {
                self.ended = Some(now);
                return;
            }
            self.round += 1;
            self.prepare();
        }
    }

    fn done(&mut self, tasks: &Tasks, task: u32, now: Time) {
        self.left -= 1;
        if tasks.has_requests() {
            self.done_at[task as usize] = now;
            if let Some(asked) = tasks.asked_by(task) {
                self.requests.push(now - self.done_at[asked as usize]);
            }
        }
        let src = self.hosts[tasks.rank_of(task) as usize];
        for output in tasks.outputs_of(task) {
            let dst = self.hosts[tasks.rank_of(output.to) as usize];
            // Ranks on the same host share its memory, and therefore need no message.
            if output.bytes == 0 || dst == src {
                self.input(output.to);
            } else {
                let message = Message::flow(src, dst, output.bytes).tagged(self.base + output.to);
                self.held.push(message);
            }
        }
    }
}
