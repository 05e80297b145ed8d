//! Jobs: work of several ranks, in which messages depend on each other and on computation.
//!
//! | module | holds |
//! |---|---|
//! | [`tasks`] | tasks and their dependencies, which represent every kind of job |
//! | [`RunningJobs`] | the [`Source`] that runs jobs |
//! | [`policy`] | policies that choose the hosts of jobs, and which jobs may send first |
//! | [`graph`], [`kronecker`] | PageRank and connected components |
//! | [`training`], [`model`] | data-parallel training, whose messages depend on the sizes of a model's layers |
//! | [`key_value`], [`word_count`], [`embedding`] | a sharded key-value store, MapReduce, and DLRM's embedding tables |
//! | [`experts`] | a mixture of experts that are distributed over ranks |
//!
//! When the tasks of an application are created, the application is executed on data drawn from the seed, because its
//! messages depend on its data. Computing times are derived from rates that the scenario gives, because no processor is
//! simulated.

mod computed;
pub mod embedding;
pub mod experts;
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
use std::collections::BTreeSet;
use std::sync::Arc;
use unrack_rack::Collective;
use unrack_rack::jobs::PlacementPolicy;
use unrack_units::{Rate, Time};

/// Jobs of a workload, and the policy that places them on hosts.
#[derive(Debug, Clone)]
pub struct JobsSpec {
    pub jobs: Arc<Vec<ComputedJob>>,
    pub policy: PlacementPolicy,
    /// Number of ranks that each host can run.
    pub slots: u32,
}

impl JobsSpec {
    /// Returns the specification of a single job, which executes a collective operation repeatedly on all nodes.
    ///
    /// # Errors
    /// If the operation is not possible among these nodes.
    pub fn collective(spec: &Collective, nodes: u32) -> Result<JobsSpec, WorkloadError> {
        let on_all = ComputedJob {
            on: Some((0..nodes).collect()),
            ..collective::job(spec, nodes).map_err(|why| why.inside("workload"))?
        };
        let jobs = Arc::new(vec![on_all]);
        Ok(JobsSpec { jobs, policy: PlacementPolicy::FirstFit, slots: 1 })
    }
}

/// Source of messages that runs jobs.
pub struct RunningJobs {
    jobs: Vec<RunningJob>,
    policy: Box<dyn JobPolicy>,
    demands: Vec<JobDemand>,
    racks: BladeRacks,
    /// Number of tasks of all jobs together. An actor of this source with a lower number is a task. An actor with this
    /// or a higher number starts a job.
    tasks: u32,
    begun: Vec<Computing>,
    /// Hosts that the policy has paused.
    paused: BTreeSet<NodeId>,
    total: u64,
}

/// Result of a job.
#[derive(Debug, Clone)]
pub struct JobOutcome<'a> {
    pub name: &'a str,
    /// Host of each rank, indexed by rank.
    pub hosts: &'a [NodeId],
    pub started: Time,
    /// Time at which the job ended. `None` if the run ended before the job, or the network lost a message of the job
    /// for good.
    pub ended: Option<Time>,
    /// Total time during which at least one message of the job was in flight and not stopped by the policy.
    pub communicated: Time,
    /// Total time during which the job had messages to send or in flight, but none that moved, because the policy let other jobs
    /// send first.
    pub waited: Time,
    /// Computing time of that rank of the job which computed for the longest time.
    pub computed: Time,
    pub messages: u64,
    pub bytes: u64,
    /// Duration of each request; empty if the job has no requests.
    pub requests: &'a [Time],
}

impl RunningJobs {
    /// Creates a source that runs the jobs of `spec` on racks whose hosts send at `rate`. If `loads_take_time` is set,
    /// a computation is submitted with the memory loads of its task, so that the carrier can add the time of the loads.
    ///
    /// # Errors
    /// If the hosts have too little room for all ranks, or there are too many messages and tasks.
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
        Ok(RunningJobs {
            jobs,
            policy,
            demands,
            racks,
            tasks: base as u32,
            begun: Vec::new(),
            paused: BTreeSet::new(),
            total,
        })
    }

    /// Returns the result of each job. `now` is the end of the run.
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

    /// Returns the index of the job to which a task belongs. `number` is the number of the task among the tasks of all
    /// jobs.
    fn job_of(&self, number: u32) -> usize {
        self.jobs.partition_point(|running| running.base <= number) - 1
    }

    /// Submits those messages of the jobs that the policy allows to be sent, and starts waiting tasks on idle cores.
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
        if self.policy.pauses() {
            self.pause_hosts(now, out);
        }
    }

    /// Pauses the hosts all of whose sending jobs have to wait, and resumes the others.
    fn pause_hosts<O: Outbox>(&mut self, now: Time, out: &mut O) {
        let (mut paused, mut sends) = (BTreeSet::new(), BTreeSet::new());
        for (number, running) in self.jobs.iter().enumerate().filter(|(_, job)| job.traffic.open > 0) {
            let hosts = if self.may_send(number) { &mut sends } else { &mut paused };
            hosts.extend(running.hosts.iter().copied());
        }
        paused.retain(|host| !sends.contains(host));
        for running in &mut self.jobs {
            running.traffic.is_paused = running.hosts.iter().all(|host| paused.contains(host));
            running.traffic.settle(running.wants_to_send(), now);
        }
        let before = std::mem::replace(&mut self.paused, paused);
        // Hosts stop before others go on, so that a host that goes on finds the links free.
        self.paused.difference(&before).for_each(|host| out.pause(*host, true));
        before.difference(&self.paused).for_each(|host| out.pause(*host, false));
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

    /// Returns `true` only when the last job has ended, even if no job will send more messages before that.
    fn is_exhausted(&self) -> bool {
        self.jobs.iter().all(|running| running.ended.is_some())
    }
}

#[cfg(test)]
pub(crate) mod tests;
