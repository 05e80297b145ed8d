//! Tests of far requests: dependences, and the way back from latencies to cycles.

use super::written::{random, register};
use super::*;
use crate::window::ServedBy;
use proptest::prelude::*;

/// Returns a lane in which placement 1 is near.
fn lane(latency: f32) -> MemoryLane {
    MemoryLane {
        pages: NearPages::Placement(1),
        near: MemoryParameters { latency: 150.0, interval: 9.5, ..MemoryParameters::default() },
        ..far(latency, 0.0)
    }
}

proptest! {
    #[test]
    fn constant_latencies_give_the_lane_of_that_latency(written in random(), latency in 0..5000u16) {
        let lane = lane(f32::from(latency));
        let mut requests = FarRequests::new(&parameters(), lane).unwrap();
        let count = requests.trace(&written.window, &written.blocks).requests.len();
        let cycles = requests.replay(&written.window, &written.blocks, &vec![lane.far.latency; count]);
        prop_assert_eq!(cycles, run(&parameters(), &[lane], &written)[0]);
    }

    #[test]
    fn the_requests_do_not_depend_on_the_latency(written in random(), latency in 0..5000u16) {
        let trace = |latency: f32| {
            let traced = FarRequests::new(&parameters(), lane(latency)).unwrap().trace(&written.window, &written.blocks);
            traced.requests.iter().map(|one| (one.address, one.is_write_back)).collect::<Vec<_>>()
        };
        prop_assert_eq!(trace(300.0), trace(f32::from(latency)));
    }

    #[test]
    fn each_request_waits_for_an_earlier_one_that_completes(written in random()) {
        let traced = FarRequests::new(&parameters(), lane(900.0)).unwrap().trace(&written.window, &written.blocks);
        let moments = (0..).zip(traced.requests.iter().map(|one| one.after));
        for (number, after) in moments.chain([(traced.requests.len() as u32, traced.end)]) {
            if let Some(request) = after.request {
                prop_assert!(request < number);
                prop_assert!(!traced.requests[request as usize].is_write_back);
            }
        }
    }

    /// Follows the dependences at the latency of the trace: the end is that of the window.
    #[test]
    fn dependences_add_up_to_the_window(written in random()) {
        let written = written.without_lead();
        let traced = FarRequests::new(&parameters(), lane(900.0)).unwrap().trace(&written.window, &written.blocks);
        let mut ends: Vec<u64> = Vec::new();
        let at = |ends: &[u64], after: After| after.request.map_or(0, |request| ends[request as usize]) + after.gap_ps;
        for one in &traced.requests {
            ends.push(at(&ends, one.after) + 300_000);
        }
        let cycles = at(&ends, traced.end) as f64 * 3.0 / 1000.0;
        let expected = run(&parameters(), &[lane(900.0)], &written)[0];
        // A store's line that a load overtakes may make the sum longer; rounding may do so by a picosecond each.
        prop_assert!(cycles >= expected - 1.0, "{} {}", cycles, expected);
        let has_stores = written.window.accesses.iter().any(|access| access.is_store);
        prop_assert!(has_stores || cycles <= expected + 1.0, "{} {}", cycles, expected);
    }
}

#[test]
fn a_chain_is_one_request_after_the_other_and_independent_loads_wait_for_buffers() {
    let chain = |base| {
        let mut written = Written::default();
        (0..30).for_each(|n| {
            written.load(base, register(0), n * 64, ServedBy::Memory);
            written.add(register(0), register(0));
        });
        FarRequests::new(&parameters(), far(600.0, 0.0))
            .unwrap()
            .trace(&written.window, &written.blocks)
            .requests
    };
    for (number, request) in (0u32..).zip(chain(register(0))).skip(1) {
        let expected = After { request: Some(number - 1), gap_ps: 333 };
        assert_eq!((request.after, request.address), (expected, u64::from(number) * 64));
    }
    // Ten buffers: each of the first ten is issued as soon as it is dispatched, the others as one comes back.
    for (number, request) in (0u32..).zip(chain(0)) {
        assert_eq!(request.after.request, number.checked_sub(10), "{number}");
    }
}
