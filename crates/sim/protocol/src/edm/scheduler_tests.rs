//! Tests of the scheduler's invariants with random demands.

use super::*;
use proptest::prelude::*;

const PORTS: u32 = 6;
const ITERATION: Time = Time::from_ps(1_000);
const BLOCK: Time = Time::from_ps(640);
const CONTROL: Time = Time::from_ps(330);

fn config(policy: GrantPolicy) -> SchedulerConfig {
    SchedulerConfig {
        ports: PORTS,
        chunk: 256,
        policy,
        pairs_in_order: true,
        iteration: ITERATION,
        block: BLOCK,
        framing: Time::ZERO,
        control: CONTROL,
    }
}

/// Reports demands at their times, runs the scheduler whenever it is due, and returns all grants.
fn grants_of(policy: GrantPolicy, demands: &[(u64, Demand)]) -> Vec<Grant> {
    grants_with(config(policy), demands)
}

fn grants_with(config: SchedulerConfig, demands: &[(u64, Demand)]) -> Vec<Grant> {
    let mut scheduler = Scheduler::new(config);
    let mut grants = Vec::new();
    let mut waiting = demands.iter().peekable();
    let mut now = Time::ZERO;
    loop {
        let next_run = scheduler.poll_at().map(|at| at.max(now));
        let next_demand = waiting.peek().map(|(at, _)| Time::from_ps(*at));
        match (next_demand, next_run) {
            (Some(demand), run) if run.is_none_or(|run| demand <= run) => {
                now = demand;
                scheduler.handle_demand(now, waiting.next().unwrap().1);
            }
            (_, Some(run)) => {
                now = run;
                scheduler.run(now, &mut grants);
            }
            (_, None) => return grants,
        }
    }
}

fn arbitrary_demands() -> impl Strategy<Value = Vec<(u64, Demand)>> {
    let requests = prop_oneof![Just(Time::ZERO), Just(BLOCK), Just(BLOCK * 3)];
    let one = (0..40_000u64, 0..PORTS, 1..PORTS, 1..1_500u64, requests);
    proptest::collection::vec(one, 1..80).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.0);
        let demand = |(token, (at, src, offset, bytes, request)): (usize, (u64, u32, u32, u64, Time))| {
            (at, Demand { src, dst: (src + offset) % PORTS, bytes, token: token as u32, request })
        };
        rows.into_iter().enumerate().map(demand).collect()
    })
}

fn policies() -> impl Strategy<Value = GrantPolicy> {
    prop_oneof![Just(GrantPolicy::Fcfs), Just(GrantPolicy::Srpt)]
}

fn length(grant: &Grant) -> Time {
    BLOCK * u64::from(grant.bytes.div_ceil(8))
}

proptest! {
    #[test]
    fn no_port_is_granted_twice_at_once(policy in policies(), demands in arbitrary_demands()) {
        let mut sources = [Time::ZERO; PORTS as usize];
        let mut destinations = sources;
        for grant in grants_of(policy, &demands) {
            for free_at in [&mut sources[grant.src as usize], &mut destinations[grant.dst as usize]] {
                prop_assert!(grant.at >= *free_at, "{grant:?} before {free_at}");
                *free_at = grant.at + length(&grant);
            }
        }
    }

    #[test]
    fn every_byte_is_granted_once_and_pairs_stay_in_order(policy in policies(), demands in arbitrary_demands()) {
        let mut left: Vec<u64> = demands.iter().map(|(_, demand)| demand.bytes).collect();
        let mut newest = std::collections::BTreeMap::new();
        for grant in grants_of(policy, &demands) {
            let of = demands[grant.token as usize].1;
            prop_assert_eq!((of.src, of.dst), (grant.src, grant.dst));
            prop_assert_eq!(grant.first, left[grant.token as usize] == of.bytes);
            left[grant.token as usize] -= u64::from(grant.bytes);
            prop_assert_eq!(grant.last, left[grant.token as usize] == 0);
            let newest = newest.entry((of.src, of.dst)).or_insert(grant.token);
            prop_assert!(grant.token >= *newest, "order within a pair");
            *newest = grant.token;
        }
        prop_assert!(left.iter().all(|left| *left == 0));
    }

    /// The matching is maximal if control messages take no time. Whenever both ports of a waiting pair become free,
    /// one of them gets a grant within the iterations that the matching takes to settle, at most one per port.
    #[test]
    fn no_pair_waits_while_both_its_ports_stay_free(policy in policies(), demands in arbitrary_demands()) {
        let demands: Vec<_> =
            demands.into_iter().map(|(at, demand)| (at, Demand { request: Time::ZERO, ..demand })).collect();
        let grants = grants_with(SchedulerConfig { control: Time::ZERO, ..config(policy) }, &demands);
        let slack = ITERATION * u64::from(PORTS + 1);
        for (index, (at, demand)) in demands.iter().enumerate() {
            let last = grants.iter().find(|grant| grant.token == index as u32 && grant.last).unwrap().at;
            let mut busy: Vec<_> = grants
                .iter()
                .filter(|grant| grant.src == demand.src || grant.dst == demand.dst)
                .map(|grant| (grant.at, grant.at + length(grant)))
                .collect();
            busy.sort();
            let mut covered = Time::from_ps(*at);
            for (from, until) in busy {
                if covered >= last {
                    break;
                }
                prop_assert!(from <= covered + slack, "idle from {covered} to {from} with {demand:?} waiting");
                covered = covered.max(until);
            }
        }
    }
}

/// Port 1 receives without a pause, while it is also granted to send.
#[test]
fn a_port_falls_behind_its_control_by_one_chunk_and_no_more() {
    let demands = [demand(0, 1, 256 * 200, 0), demand(1, 2, 256 * 100, 1)];
    let grants = grants_of(GrantPolicy::Srpt, &demands);
    let received: Vec<_> = grants.iter().filter(|grant| grant.dst == 1).collect();
    // The grants to port 1 as a source use the same link as its incoming data. Each delays the data by its time,
    // except for one chunk's worth in all.
    assert_eq!(received[199].at - received[0].at, length(received[0]) * 198 + CONTROL * 100);
}

fn demand(src: u32, dst: u32, bytes: u64, token: u32) -> (u64, Demand) {
    (0, Demand { src, dst, bytes, token, request: Time::ZERO })
}

fn order(policy: GrantPolicy, demands: &[(u64, Demand)]) -> Vec<u32> {
    grants_of(policy, demands).iter().map(|grant| grant.token).collect()
}

#[test]
fn srpt_takes_the_shortest_across_pairs_and_keeps_each_pair_in_order() {
    let demands = [demand(0, 5, 200, 0), demand(0, 5, 8, 1), demand(1, 5, 64, 2), demand(2, 5, 100, 3)];
    assert_eq!(order(GrantPolicy::Srpt, &demands), [2, 3, 0, 1]);
    assert_eq!(order(GrantPolicy::Fcfs, &demands), [0, 1, 2, 3]);
}

proptest! {
    /// Of messages of 4 GiB and more, the one with the fewest bytes left goes first; among equals, the one that came
    /// first.
    #[test]
    fn srpt_tells_large_messages_apart(
        sizes in prop::collection::vec(prop::sample::select(vec![
            (1 << 32) - 1, 1 << 32, (1 << 32) + 1, (1 << 32) + (1 << 30), 5 << 30, (5 << 30) + 1, 1 << 33, 100,
        ]), 1..6),
    ) {
        let demands: Vec<_> = (0..).zip(&sizes).map(|(src, bytes)| demand(src, 5, *bytes, src)).collect();
        let config = SchedulerConfig { chunk: 1 << 30, ..config(GrantPolicy::Srpt) };
        let granted: Vec<_> =
            grants_with(config, &demands).iter().map(|grant| (grant.token, u64::from(grant.bytes))).collect();
        let (mut left, mut expected) = (sizes.clone(), Vec::new());
        while let Some(next) = (0..left.len()).filter(|n| left[*n] > 0).min_by_key(|n| left[*n]) {
            let bytes = left[next].min(1 << 30);
            left[next] -= bytes;
            expected.push((next as u32, bytes));
        }
        prop_assert_eq!(granted, expected);
    }
}

#[test]
fn without_order_srpt_goes_for_a_pair_too() {
    let demands = [demand(0, 5, 600, 0), demand(0, 5, 8, 1), demand(0, 5, 64, 2), demand(0, 5, 8, 3)];
    let granted = |pairs_in_order| {
        let config = SchedulerConfig { pairs_in_order, ..config(GrantPolicy::Srpt) };
        grants_with(config, &demands).iter().map(|grant| grant.token).collect::<Vec<_>>()
    };
    assert_eq!(granted(true), [0, 0, 0, 1, 2, 3]);
    assert_eq!(granted(false), [1, 3, 2, 0, 0, 0]);
}

#[test]
fn srpt_counts_what_is_left_not_what_was_asked() {
    // 600 B are granted as 256 + 256 + 88, and with 88 B left the message goes before the one of 100 B.
    let demands = [demand(0, 5, 600, 0), (41_000 - 1_000, Demand { src: 1, ..demand(0, 5, 100, 1).1 })];
    assert_eq!(order(GrantPolicy::Srpt, &demands), [0, 0, 0, 1]);
    let demands = [demand(0, 5, 600, 0), (10_000, Demand { src: 1, ..demand(0, 5, 100, 1).1 })];
    assert_eq!(order(GrantPolicy::Srpt, &demands), [0, 1, 0, 0]);
}

#[test]
fn chunks_of_one_message_follow_without_a_gap() {
    let grants = grants_of(GrantPolicy::Srpt, &[demand(0, 1, 1024, 0)]);
    let times: Vec<_> = grants.iter().map(|grant| grant.at.as_ps()).collect();
    assert_eq!(times, [1_000, 21_480, 41_960, 62_440]); // every 256 B at 100 Gb/s
}

#[test]
fn a_destination_that_loses_a_source_asks_again_one_iteration_later() {
    let demands = [demand(0, 4, 64, 0), demand(0, 5, 64, 1), demand(1, 5, 128, 2)];
    let grants = grants_of(GrantPolicy::Srpt, &demands);
    // Destinations 4 and 5 both ask source 0. Destination 5 loses, and takes its longer message from source 1.
    let timed: Vec<_> = grants.iter().map(|grant| (grant.token, grant.at.as_ps())).collect();
    assert_eq!(timed, [(0, 1_000), (2, 2_000), (1, 2_000 + 128 * 80)]);
}
