//! Jobs: work whose messages depend on each other and on computation.
//!
//! | module | holds |
//! |---|---|
//! | [`tasks`] | tasks and their dependencies, in one representation for all jobs |
//! | [`RunningJobs`] | the [`Source`] that runs jobs |
//! | [`policy`] | placement on hosts, and priority in sending |
//! | [`graph`], [`kronecker`] | PageRank and connected components |
//! | [`training`], [`model`] | data-parallel training by the sizes of layers |
//! | [`key_value`], [`word_count`], [`embedding`] | a sharded store, MapReduce, DLRM's embeddings |
//!
//! Applications are executed from the seed when their tasks are made, because the messages that they send depend on
//! their data. Computing times follow from given rates, because no processor is simulated.

mod computed;
pub mod embedding;
pub mod graph;
pub mod key_value;
pub mod kronecker;
pub mod model;
pub mod policy;
mod running;
pub mod tasks;
pub mod training;
pub mod word_count;

pub use self::computed::ComputedJob;
use self::policy::{JobDemand, JobPolicy, JobSending};
use self::running::RunningJob;
use self::tasks::Tasks;
use crate::blades::BladeRacks;
use crate::collective;
use crate::error::WorkloadError;
use crate::message::{Message, NodeId};
use crate::source::{Computing, Outbox, Source};
use std::sync::Arc;
use unrack_rack::Collective;
use unrack_rack::jobs::PlacementPolicy;
use unrack_units::{Rate, Time};

/// Jobs, and the policy that places them.
#[derive(Debug, Clone)]
pub struct JobsSpec {
    pub jobs: Arc<Vec<ComputedJob>>,
    pub policy: PlacementPolicy,
    /// Number of ranks that a host has room for.
    pub slots: u32,
}

impl JobsSpec {
    /// Returns one collective operation on all nodes, repeated.
    ///
    /// # Errors
    /// If the operation is not possible on these nodes.
    pub fn collective(spec: &Collective, nodes: u32) -> Result<JobsSpec, WorkloadError> {
        let on_all = ComputedJob {
            on: Some((0..nodes).collect()),
            ..collective::job(spec, nodes).map_err(|why| why.inside("workload"))?
        };
        let jobs = Arc::new(vec![on_all]);
        Ok(JobsSpec { jobs, policy: PlacementPolicy::FirstFit, slots: 1 })
    }
}

/// Source that runs jobs.
pub struct RunningJobs {
    jobs: Vec<RunningJob>,
    policy: Box<dyn JobPolicy>,
    demands: Vec<JobDemand>,
    racks: BladeRacks,
    /// Number of tasks of all jobs. Actors with higher numbers are the starts of jobs.
    tasks: u32,
    begun: Vec<Computing>,
    total: u64,
}

/// Outcome of a job.
#[derive(Debug, Clone)]
pub struct JobOutcome<'a> {
    pub name: &'a str,
    /// Host of each rank.
    pub hosts: &'a [NodeId],
    pub started: Time,
    /// Time at which the job ended, or `None` if the run ended first or a message was lost for good.
    pub ended: Option<Time>,
    /// Total time during which a message of the job was in flight.
    pub communicated: Time,
    /// Total time during which no message was in flight because other jobs were to send first.
    pub waited: Time,
    /// Computing time of the rank that computed for the longest time.
    pub computed: Time,
    pub messages: u64,
    pub bytes: u64,
    /// Duration of each request, if the job has requests.
    pub requests: &'a [Time],
}

impl RunningJobs {
    /// Places the jobs of `spec` on racks whose hosts send at `rate`. With `loads_take_time`, computations are
    /// submitted with the loads of their tasks, for which the carrier adds time.
    ///
    /// # Errors
    /// If there is no room for all ranks, or if there are too many messages and tasks.
    pub fn new(
        spec: &JobsSpec,
        racks: BladeRacks,
        rate: Rate,
        loads_take_time: bool,
    ) -> Result<RunningJobs, WorkloadError> {
        let policy = policy::policy(spec.policy);
        let demands: Vec<JobDemand> = spec.jobs.iter().map(|job| JobDemand::new(job, rate)).collect();
        let placed = policy::place(policy.as_ref(), &spec.jobs, racks, spec.slots)?;
        let (mut jobs, mut base, mut total) = (Vec::new(), 0u64, 0u64);
        for (job, hosts) in spec.jobs.iter().zip(placed) {
            let largest = job.rounds.iter().map(|round| u64::from(round.len())).max().unwrap_or(0);
            let apart = |ranks: (u32, u32)| hosts[ranks.0 as usize] != hosts[ranks.1 as usize];
            let sent = |tasks: &Tasks| tasks.messages().filter(|(a, b, _)| apart((*a, *b))).count() as u64;
            total += job.sum(sent);
            let number = u32::try_from(base).unwrap_or(u32::MAX);
            jobs.push(RunningJob::new(job.clone(), hosts, number, loads_take_time));
            base += largest;
        }
        if total.max(base + jobs.len() as u64) > u64::from(u32::MAX) {
            return Err(WorkloadError::new(
                "workload",
                "has less than 2^32 messages and tasks",
                total.max(base),
            ));
        }
        Ok(RunningJobs { jobs, policy, demands, racks, tasks: base as u32, begun: Vec::new(), total })
    }

    /// Returns the outcome of each job at `now`, the end of the run.
    pub fn outcomes(&self, now: Time) -> impl Iterator<Item = JobOutcome<'_>> {
        self.jobs.iter().map(move |running| JobOutcome {
            name: &running.job.name,
            hosts: &running.hosts,
            started: running.job.start,
            ended: running.ended,
            communicated: running.traffic.communicated(now),
            waited: running.traffic.waited(now),
            computed: running.computed.iter().copied().max().unwrap_or(Time::ZERO),
            messages: running.traffic.messages,
            bytes: running.traffic.bytes,
            requests: &running.requests,
        })
    }

    /// Returns the job of a task, by its number among the tasks of all jobs.
    fn job_of(&self, number: u32) -> usize {
        self.jobs.partition_point(|running| running.base <= number) - 1
    }

    /// Submits the messages that jobs want to send, as far as the policy allows, and starts idle cores.
    fn settle<O: Outbox>(&mut self, now: Time, out: &mut O) {
        for running in &mut self.jobs {
            running.traffic.settle(running.wants_to_send(), now);
        }
        for number in 0..self.jobs.len() {
            while self.jobs[number].wants_to_send() && self.may_send(number) {
                let running = &mut self.jobs[number];
                running.take_cores_to_send(now);
                for message in running.held.drain(..) {
                    running.traffic.open += 1;
                    running.traffic.messages += 1;
                    running.traffic.bytes += message.bytes;
                    out.submit(message);
                }
            }
            let running = &mut self.jobs[number];
            running.compute(now, &mut self.begun);
            running.traffic.settle(running.wants_to_send(), now);
        }
        for computing in self.begun.drain(..) {
            out.compute(now, computing);
        }
    }

    fn may_send(&self, number: usize) -> bool {
        let sending = |(running, demand): (&RunningJob, &JobDemand)| JobSending {
            hosts: running.hosts.clone(),
            is_sending: running.traffic.open > 0,
            wants_since: running.traffic.since().filter(|_| running.wants_to_send()),
            intensity: demand.intensity,
        };
        self.policy.always_sends() || {
            let all: Vec<JobSending> = self.jobs.iter().zip(&self.demands).map(sending).collect();
            self.policy.may_send(number, &all, self.racks)
        }
    }
}

impl Source for RunningJobs {
    fn start<O: Outbox>(&mut self, out: &mut O) {
        for (number, running) in (self.tasks..).zip(&mut self.jobs) {
            match running.job.start {
                Time::ZERO => running.start(Time::ZERO),
                at => out.wake_at(at, number),
            }
        }
        self.settle(Time::ZERO, out);
    }

    fn wake<O: Outbox>(&mut self, actor: u32, now: Time, out: &mut O) {
        match actor.checked_sub(self.tasks) {
            Some(job) => self.jobs[job as usize].start(now),
            None => {
                let job = self.job_of(actor);
                let running = &mut self.jobs[job];
                running.computed(actor - running.base, now);
            }
        }
        self.settle(now, out);
    }

    fn completed<O: Outbox>(&mut self, message: &Message, now: Time, out: &mut O) {
        let job = self.job_of(message.tag);
        let running = &mut self.jobs[job];
        running.traffic.open -= 1;
        running.arrived(message.tag - running.base, now);
        self.settle(now, out);
    }

    fn total(&self) -> Option<u64> {
        Some(self.total)
    }

    /// Returns `true` only when the last job has finished computing, even if no more messages will be sent before.
    fn is_exhausted(&self) -> bool {
        self.jobs.iter().all(|running| running.ended.is_some())
    }
}

#[cfg(test)]
pub(crate) mod tests;
