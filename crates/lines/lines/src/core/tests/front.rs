//! Front end: what it takes to fetch instructions.

use super::written::register;
use super::*;
use crate::window::ServedBy;

/// Runs so many instructions behind a lead of as many, after each of which `then` may say more. Returns the cycles.
fn cycles(parameters: &CoreParameters, count: u64, then: impl Fn(&mut Written, u64)) -> f64 {
    let mut written = Written::default();
    for number in 0..2 * count {
        if number == count {
            written.end_lead();
        }
        written.add(0, register(number as u8));
        then(&mut written, number);
    }
    run(parameters, &far_lanes(), &written)[0]
}

fn wide(fetch_groups: usize, fetch_width: usize) -> CoreParameters {
    CoreParameters { fetch_groups, fetch_width, dispatch_width: 16, retire_width: 16, ..super::parameters() }
        .with_ports(64)
}

impl CoreParameters {
    /// Returns the core with so many ports for integers.
    fn with_ports(mut self, integer: usize) -> CoreParameters {
        self.ports.integer = integer;
        self
    }
}

#[test]
fn a_group_is_fetched_in_a_cycle_and_ends_at_a_taken_branch() {
    for (groups, width, between) in [(1, 8, 3), (1, 8, 8), (1, 6, 9), (2, 6, 5), (2, 6, 6), (1, 4, 2)] {
        let rounds = 64;
        let found = cycles(&wide(groups, width), rounds * between, |written, number| {
            if number % between == 0 {
                written.elsewhere();
            }
        });
        let expected = (rounds * between.div_ceil(width as u64)) as f64 / groups as f64;
        assert_eq!(found, expected, "{groups} groups of {width}, a branch every {between}");
    }
}

#[test]
fn a_turn_of_another_thread_makes_fetch_slower() {
    let parameters = CoreParameters { turn: 1.5, ..wide(1, 8) };
    assert_eq!(cycles(&parameters, 800, |_, _| {}), 150.0);
}

/// Code from the second level is asked for ahead of dispatch: lines of 16 instructions come at the rate of fetch, and where the
/// latency is longer than what the queue of 24 groups covers, at that rate.
#[test]
fn fetch_runs_ahead_of_dispatch_by_its_queue() {
    for (latency, line) in [(14.0, 2.0), (24.0, 2.0), (60.0, 5.0), (240.0, 20.0)] {
        let mut parameters = wide(1, 8);
        parameters.caches.l2 = latency;
        let lines = 240;
        let found = cycles(&parameters, lines * 16, |written, number| {
            if number % 16 == 0 {
                written.fetch(number * 4, ServedBy::L2);
            }
        });
        let expected = lines as f64 * line;
        assert!((found / expected - 1.0).abs() < 0.1, "{latency}: {found} cycles, expected {expected}");
    }
}

#[test]
fn code_behind_a_mispredicted_branch_is_waited_for() {
    let found = cycles(&parameters(), 1, |written, number| {
        if number == 0 {
            written.mispredicted(0);
        } else {
            written.fetch(0, ServedBy::L2);
        }
    });
    let without = cycles(&parameters(), 1, |written, number| {
        if number == 0 {
            written.mispredicted(0);
        }
    });
    assert_eq!(found - without, f64::from(parameters().caches.l2));
}
