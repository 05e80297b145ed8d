//! Tests of jobs on a network with arbitrary delays.

use super::tasks::Builder;
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Default)]
struct Heard(VecDeque<Message>, Vec<(Time, u32)>, Vec<(NodeId, bool)>);

impl Outbox for Heard {
    fn submit(&mut self, message: Message) {
        self.0.push_back(message);
    }
    fn wake_at(&mut self, at: Time, actor: u32) {
        self.1.push((at, actor));
    }
    fn pause(&mut self, node: NodeId, is_paused: bool) {
        self.2.push((node, is_paused));
    }
}

/// Returns all messages sent, in an order of arrival that `pick` chooses, and the time of the last wake. Messages take
/// no time; those in flight arrive before any actor wakes up.
pub(crate) fn run_in(jobs: &mut RunningJobs, mut pick: impl FnMut(usize) -> usize) -> (Vec<Message>, Time) {
    let (mut heard, mut sent, mut now) = (Heard::default(), Vec::new(), Time::ZERO);
    jobs.start(&mut heard);
    loop {
        let waiting = heard.0.len();
        if waiting > 0 {
            let message = heard.0.remove(pick(waiting) % waiting).unwrap();
            sent.push(message);
            jobs.completed(&message, now, &mut heard);
        } else if let Some(earliest) = (0..heard.1.len()).min_by_key(|n| heard.1[*n]) {
            let (at, actor) = heard.1.remove(earliest);
            assert!(at >= now);
            now = at;
            jobs.wake(actor, now, &mut heard);
        } else {
            break;
        }
    }
    assert!(jobs.is_exhausted());
    assert_eq!(jobs.total(), Some(sent.len() as u64));
    assert!(jobs.outcomes(Time::ZERO).all(|outcome| outcome.ended.is_some()));
    (sent, now)
}

/// Returns jobs on a rack of `nodes` hosts.
pub(crate) fn jobs_on(
    nodes: u32,
    jobs: Vec<ComputedJob>,
    policy: PlacementPolicy,
    slots: u32,
) -> RunningJobs {
    let spec = JobsSpec { jobs: Arc::new(jobs), policy, slots };
    RunningJobs::new(&spec, nodes.into(), Rate::from_gbps(10), false).unwrap()
}

/// Returns a job whose ranks compute and then send to the next rank.
fn shift(name: &str, ranks: u32, compute: Time, rounds: usize) -> ComputedJob {
    let mut builder = Builder::new();
    let all: Vec<u32> = (0..ranks).map(|rank| builder.task(rank, compute)).collect();
    let end = builder.layer(ranks);
    all.iter().zip(0..).for_each(|(task, rank)| builder.send(*task, end + (rank + 1) % ranks, 1_000));
    let round = Arc::new(builder.finish());
    ComputedJob::new(name, ranks, vec![round; rounds])
}

/// Job 1 computes longer for its bytes, and begins to send while job 0, which shares a rack with it, has messages in flight.
#[test]
fn hosts_of_a_job_that_has_to_wait_are_paused() {
    let us = Time::from_us;
    let two = || {
        let jobs = [("slow", 2), ("urgent", 9)].map(|(name, compute)| shift(name, 2, us(compute), 1));
        jobs.into_iter().collect::<Vec<_>>()
    };
    let mut heard = Heard::default();
    let mut jobs = jobs_on(4, two(), PlacementPolicy::Crux, 1);
    jobs.start(&mut heard);
    for (at, actor) in std::mem::take(&mut heard.1) {
        jobs.wake(actor, at, &mut heard);
        assert_eq!(heard.2.is_empty(), at < us(9), "job 1 begins to send after 9 us: {:?}", heard.2);
    }
    assert_eq!(heard.2, [(0, true), (1, true)]);
    // The messages of job 1, which are the last ones, arrive first.
    for at in [12, 13, 15, 15] {
        let message = heard.0.pop_back().unwrap();
        jobs.completed(&message, us(at), &mut heard);
    }
    assert_eq!(heard.2[2..], [(0, false), (1, false)]);
    let times: Vec<[Time; 2]> =
        jobs.outcomes(us(20)).map(|outcome| [outcome.communicated, outcome.waited]).collect();
    // Job 0 sends from 2 to 9 and from 13 to 15 us, and waits meanwhile. Job 1 sends from 9 to 13 us.
    assert_eq!(times, [[us(9), us(4)], [us(4), us(0)]]);
    let mut free = jobs_on(4, two(), PlacementPolicy::FirstFit, 1);
    let mut heard = Heard::default();
    free.start(&mut heard);
    let wakes = std::mem::take(&mut heard.1);
    wakes.into_iter().for_each(|(at, actor)| free.wake(actor, at, &mut heard));
    assert!(heard.2.is_empty() && heard.0.len() == 4, "other policies pause no host");
}

#[test]
fn tasks_move_to_a_core_that_is_idle() {
    let mut builder = Builder::new();
    let compute = Time::from_us(10);
    for rank in [0, 0, 0, 1, 0] {
        builder.anywhere(rank, compute);
    }
    // A task of another rank stays on that rank.
    builder.task(2, compute);
    let mut jobs = jobs_on(
        3,
        vec![ComputedJob::new("job", 3, vec![Arc::new(builder.finish())])],
        PlacementPolicy::FirstFit,
        1,
    );
    assert_eq!(run_in(&mut jobs, |_| 0), (Vec::new(), Time::from_us(30)));
    assert_eq!(jobs.outcomes(Time::ZERO).next().unwrap().computed, Time::from_us(30));
}

#[test]
fn a_core_computes_one_task_at_a_time() {
    let mut builder = Builder::new();
    for _ in 0..3 {
        builder.task(0, Time::from_us(5));
    }
    builder.task(1, Time::from_us(7));
    let job = ComputedJob::new("job", 2, vec![Arc::new(builder.finish())]);
    let mut jobs = jobs_on(2, vec![job], PlacementPolicy::FirstFit, 1);
    assert_eq!(run_in(&mut jobs, |_| 0).1, Time::from_us(15));
    assert_eq!(jobs.outcomes(Time::ZERO).next().unwrap().computed, Time::from_us(15));
}

#[test]
fn ranks_on_one_host_send_each_other_nothing() {
    let job = shift("job", 4, Time::from_us(1), 3);
    assert_eq!((job.messages(), job.bytes()), (12, 12_000));
    let mut jobs = jobs_on(2, vec![job], PlacementPolicy::FirstFit, 2);
    // Ranks 0 and 2 are on host 0: each sends to a rank on the other host.
    assert_eq!(run_in(&mut jobs, |_| 0).0.len(), 12);
    let mut jobs = jobs_on(
        2,
        vec![ComputedJob { on: Some(vec![0, 0, 1, 1]), ..shift("job", 4, Time::ZERO, 3) }],
        PlacementPolicy::FirstFit,
        2,
    );
    assert_eq!(run_in(&mut jobs, |_| 0).0.len(), 6);
}

#[test]
fn a_job_starts_when_it_is_to_start() {
    let late = ComputedJob { start: Time::from_us(20), ..shift("late", 2, Time::from_us(3), 2) };
    let mut jobs =
        jobs_on(4, vec![shift("early", 2, Time::from_us(1), 1), late], PlacementPolicy::FirstFit, 1);
    assert_eq!(run_in(&mut jobs, |_| 0).1, Time::from_us(26));
    let ended: Vec<_> = jobs.outcomes(Time::ZERO).map(|outcome| outcome.ended.unwrap()).collect();
    assert_eq!(ended, [Time::from_us(1), Time::from_us(26)]);
}

#[test]
fn a_request_takes_from_its_question_to_its_answer() {
    let mut builder = Builder::new();
    let asks = builder.task(0, Time::from_us(2));
    let answers = builder.task(1, Time::from_us(9));
    let end = builder.task(0, Time::ZERO);
    builder.send(asks, answers, 10);
    builder.send(answers, end, 100);
    builder.request(asks, end);
    let mut jobs = jobs_on(
        2,
        vec![ComputedJob::new("job", 2, vec![Arc::new(builder.finish())])],
        PlacementPolicy::FirstFit,
        1,
    );
    run_in(&mut jobs, |_| 0);
    assert_eq!(jobs.outcomes(Time::ZERO).next().unwrap().requests, [Time::from_us(9)]);
}

proptest! {
    /// Under every policy, with any times and in any order, all jobs end and all of their bytes are carried once.
    #[test]
    fn every_mix_comes_to_an_end(
        word in prop::sample::select(vec![PlacementPolicy::FirstFit, PlacementPolicy::RoundRobin, PlacementPolicy::ShuffleWatcher, PlacementPolicy::Crux]),
        drawn in prop::collection::vec((2u32..6, 0u64..20, 1usize..4, 0u64..30), 1..6),
        picks in prop::collection::vec(any::<usize>(), 1..50),
    ) {
        let job = |(ranks, compute, rounds, start): (u32, u64, usize, u64)| {
            ComputedJob { start: Time::from_us(start), ..shift("job", ranks, Time::from_us(compute), rounds) }
        };
        let all: Vec<ComputedJob> = drawn.into_iter().map(job).collect();
        let expected: u64 = all.iter().map(ComputedJob::bytes).sum();
        let spec = JobsSpec { jobs: Arc::new(all), policy: word, slots: 3 };
        let racks = BladeRacks { racks: 3, hosts: 3 };
        let mut jobs = RunningJobs::new(&spec, racks, Rate::from_gbps(10), false).unwrap();
        let mut picks = picks.into_iter().cycle();
        let (sent, _) = run_in(&mut jobs, |_| picks.next().unwrap());
        // Three slots on nine hosts are enough to separate the ranks of a job with at most nine.
        prop_assert_eq!(sent.iter().map(|message| message.bytes).sum::<u64>(), jobs.outcomes(Time::ZERO).map(|outcome| outcome.bytes).sum::<u64>());
        prop_assert!(sent.iter().map(|message| message.bytes).sum::<u64>() <= expected);
    }
}
