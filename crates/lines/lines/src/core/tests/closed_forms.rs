//! Programs whose time is known.

use super::written::{access, instruction, register};
use super::*;
use crate::instruction::{MemoryUse, OperationClass};
use crate::window::{ServedBy, WalkLoads};

/// Returns an address of a line that no other number has.
fn line(number: u64) -> u64 {
    0x10_0000 + number * 64
}

/// Returns a program of `lead` and `count` rounds.
fn rounds(lead: u64, count: u64, mut round: impl FnMut(&mut Written, u64)) -> Written {
    let mut written = Written::default();
    (0..lead).for_each(|number| round(&mut written, number));
    written.end_lead();
    (lead..lead + count).for_each(|number| round(&mut written, number));
    written
}

#[test]
fn a_chain_of_dependent_loads_takes_the_latency_a_step_in_every_lane() {
    let written = rounds(100, 1000, |w, n| w.load(register(0), register(0), line(n), ServedBy::Memory));
    let expected: Vec<f64> = FAR.iter().map(|latency| 1000.0 * f64::from(*latency)).collect();
    assert_eq!(run(&parameters(), &far_lanes(), &written), expected);
    for (served, latency) in
        [(ServedBy::L1, 5.0), (ServedBy::L2, 14.0), (ServedBy::L3, 50.0), (ServedBy::Peer, 90.0)]
    {
        let written = rounds(100, 1000, |w, n| w.load(register(0), register(0), line(n), served));
        assert_eq!(run(&parameters(), &far_lanes(), &written), [1000.0 * latency; 16], "{served:?}");
    }
}

#[test]
fn independent_loads_take_the_latency_by_fill_buffers() {
    let written = rounds(100, 1000, |w, n| w.load(0, register(0), line(n), ServedBy::Memory));
    let expected: Vec<f64> = FAR.iter().map(|latency| 100.0 * f64::from(*latency)).collect();
    assert_eq!(run(&parameters(), &far_lanes(), &written), expected);
}

#[test]
fn loads_far_apart_are_bound_by_the_reorder_buffer() {
    // 56 instructions a round: 4 loads in 224 slots.
    let written = rounds(40, 400, |w, n| {
        w.load(0, register(0), line(n), ServedBy::Memory);
        (0..55).for_each(|_| w.add(0, register(1)));
    });
    let cycles = run(&parameters(), &far_lanes(), &written);
    for (latency, cycles) in FAR.iter().zip(cycles) {
        let expected = 400.0 / 4.0 * f64::from(*latency);
        // Each batch of four also waits for its dispatch: within a reorder buffer of 4 slots a cycle.
        assert!((expected..=expected + 100.0 * 57.0).contains(&cycles), "{latency}: {cycles}");
    }
}

#[test]
fn the_load_queue_bounds_loads_in_flight() {
    let parameters = CoreParameters { load_queue: 4, ..parameters() };
    let written = rounds(100, 1000, |w, n| w.load(0, register(0), line(n), ServedBy::Memory));
    let expected: Vec<f64> = FAR.iter().map(|latency| 250.0 * f64::from(*latency)).collect();
    assert_eq!(run(&parameters, &far_lanes(), &written), expected);
}

#[test]
fn dependent_additions_take_a_cycle_each() {
    let written = rounds(100, 1000, |w, _| w.add(register(0), register(0)));
    assert_eq!(run(&parameters(), &far_lanes(), &written), [1000.0; 16]);
    let chain = |operation| {
        rounds(8, 100, |w, _| w.push(instruction(operation, &[register(0)], &[register(0)]), &[]))
    };
    assert_eq!(run(&parameters(), &far_lanes(), &chain(OperationClass::Multiply))[0], 300.0);
    assert_eq!(run(&parameters(), &far_lanes(), &chain(OperationClass::FloatDivide))[0], 1400.0);
}

#[test]
fn independent_instructions_take_their_slots_by_the_width() {
    for (slots, width) in [(1, 4), (2, 4), (3, 4), (1, 6), (5, 6), (7, 4), (3, 5)] {
        let written = rounds(120, 600, |w, n| {
            let mut plain = instruction(OperationClass::Integer, &[], &[register(n as u8)]);
            plain.slots = slots;
            w.push(plain, &[]);
        });
        let parameters = CoreParameters { dispatch_width: width, retire_width: 8, ..parameters() };
        let cycles = run(&parameters, &far_lanes(), &written);
        assert_eq!(cycles, [600.0 * f64::from(slots) / width as f64; 16], "{slots} of {width}");
        let parameters = CoreParameters { dispatch_width: 8, retire_width: width, ..parameters };
        assert_eq!(run(&parameters, &far_lanes(), &written), cycles, "{slots} of {width} at retirement");
    }
}

/// Where another thread has every second turn, independent instructions take twice as long, by width and by ports, and a chain of
/// them as long as before.
#[test]
fn turns_of_another_thread_slow_what_is_wide() {
    let integers = |is_chain: bool| {
        rounds(120, 600, move |w, n| {
            let read: &[_] = if is_chain { &[register(0)] } else { &[] };
            let written = if is_chain { register(0) } else { register(n as u8) };
            w.push(instruction(OperationClass::Integer, read, &[written]), &[]);
        })
    };
    let wide = CoreParameters { dispatch_width: 4, retire_width: 8, ..parameters() };
    let ports = CorePorts { integer: 2, ..parameters().ports };
    let two_ports = CoreParameters { dispatch_width: 8, retire_width: 8, ports, ..parameters() };
    for (core, alone) in [(wide, 150.0), (two_ports, 300.0)] {
        for turn in [1.0, 1.5, 2.0] {
            let core = CoreParameters { turn, ..core.clone() };
            // Ports bound a rate, over some cycles, and not each beginning.
            let over = run(&core, &far_lanes(), &integers(false))[0] / (alone * f64::from(turn));
            assert!((0.98..1.02).contains(&over), "{over} times, {turn}");
            assert_eq!(run(&core, &far_lanes(), &integers(true)), [600.0; 16], "a chain, {turn}");
        }
    }
}

#[test]
fn a_mispredicted_branch_costs_its_completion_and_the_penalty() {
    // A chain of loads in the first level, each before a branch: 5 + 1 + 15 cycles.
    let written = rounds(10, 100, |w, n| {
        w.load(register(0), register(0), line(n), ServedBy::L1);
        w.mispredicted(register(0));
    });
    assert_eq!(run(&parameters(), &far_lanes(), &written), [2100.0; 16]);
}

#[test]
fn a_mispredicted_branch_on_a_miss_ends_overlap() {
    let written = rounds(10, 100, |w, n| {
        w.load(0, register(0), line(n), ServedBy::Memory);
        w.mispredicted(register(0));
    });
    let expected: Vec<f64> = FAR.iter().map(|latency| 100.0 * (f64::from(*latency) + 16.0)).collect();
    assert_eq!(run(&parameters(), &far_lanes(), &written), expected);
}

#[test]
fn a_stream_with_prefetches_is_bound_by_bandwidth() {
    // A line in 40 slots, asked for 8 lines before.
    let written = rounds(100, 500, |w, n| {
        w.load(0, register(0), line(n), ServedBy::L2);
        w.prefetch(line(n + 8), ServedBy::Memory);
        (0..39).for_each(|_| w.add(0, register(1)));
    });
    let lanes = [far(200.0, 0.0), far(70.0, 9.5), far(200.0, 25.0), far(300.0, 60.0), far(300.0, 100.0)];
    let cycles = run(&parameters(), &lanes, &written);
    // 10 cycles a line where the line is there in time, its interval where that is longer. 300 cycles are too long for 8
    // lines of 10 cycles, but not for 8 lines of 60.
    assert_eq!(cycles[1..].to_vec(), [5000.0, 12500.0, 30000.0, 50000.0]);
    // 200 cycles take 20 lines: the access waits, and the reorder buffer holds about 5 lines further on.
    assert!((5000.0..10000.0).contains(&cycles[0]), "{}", cycles[0]);
}

#[test]
fn prefetch_buffers_bound_prefetched_lines() {
    let parameters = CoreParameters { prefetch_buffers: 4, ..parameters() };
    let written = rounds(400, 1000, |w, n| {
        w.load(0, register(0), line(n), ServedBy::L1);
        w.prefetch(line(n + 64), ServedBy::Memory);
        (0..7).for_each(|_| w.add(0, register(1)));
    });
    let expected: Vec<f64> = FAR.iter().map(|latency| 250.0 * f64::from(*latency)).collect();
    assert_eq!(run(&parameters, &far_lanes(), &written), expected);
}

#[test]
fn stores_that_miss_do_not_stall_until_their_queue_is_full() {
    // 50 stores fit the queue of 56, then 950 instructions without.
    let burst = |stores: u64| {
        rounds(0, 1, |w, _| {
            (0..stores).for_each(|n| w.store(0, line(n), ServedBy::Memory));
            (0..1000 - stores).for_each(|_| w.add(0, register(1)));
        })
    };
    assert_eq!(run(&parameters(), &far_lanes(), &burst(56)), run(&parameters(), &far_lanes(), &burst(0)));
    let full = run(&parameters(), &far_lanes(), &burst(120));
    assert!(full.windows(2).all(|pair| pair[0] < pair[1]), "{full:?}");
    // A long stream asks for a line in each fill buffer at once.
    let stream = rounds(200, 1000, |w, n| w.store(0, line(n), ServedBy::Memory));
    let expected: Vec<f64> = FAR.iter().map(|latency| 100.0 * f64::from(*latency)).collect();
    assert_eq!(run(&parameters(), &far_lanes(), &stream), expected);
}

#[test]
fn stores_to_one_line_share_its_miss() {
    let stream = rounds(240, 1600, |w, n| {
        let served = if n % 8 == 0 { ServedBy::Memory } else { ServedBy::L1 };
        w.store(0, line(0) + n * 8, served);
    });
    let expected: Vec<f64> = FAR.iter().map(|latency| 20.0 * f64::from(*latency)).collect();
    let cycles = run(&parameters(), &far_lanes(), &stream);
    // The queue of 56 holds all of 6 lines and a part of 8 at most, fewer than the 10 fill buffers.
    for (expected, cycles) in expected.iter().zip(cycles) {
        assert!((expected * 10.0 / 8.0..expected * 10.0 / 6.0).contains(&cycles), "{expected}: {cycles}");
    }
}

#[test]
fn non_temporal_stores_take_a_buffer_for_each_line() {
    let stream = rounds(240, 1600, |w, n| {
        let mut store = instruction(OperationClass::Vector, &[register(0)], &[]);
        store.memory = MemoryUse::NontemporalStore;
        w.push(store, &[access(line(0) + n * 8, true, ServedBy::Memory)]);
    });
    let expected: Vec<f64> = FAR.iter().map(|latency| 20.0 * f64::from(*latency)).collect();
    assert_eq!(run(&parameters(), &far_lanes(), &stream), expected);
}

#[test]
fn a_load_takes_the_bytes_of_a_recent_store() {
    // Counter in memory: forwarding and addition a round, whatever the line does.
    let written = rounds(10, 100, |w, _| {
        w.load(0, register(0), line(0), ServedBy::L1);
        w.add(register(0), register(0));
        w.store(register(0), line(0), ServedBy::L1);
    });
    assert_eq!(run(&parameters(), &far_lanes(), &written), [600.0; 16]);
    // The load of other bytes of the line does not wait.
    let written = rounds(10, 100, |w, _| {
        w.load(0, register(0), line(0) + 8, ServedBy::L1);
        w.add(register(0), register(0));
        w.store(register(0), line(0), ServedBy::L1);
    });
    assert!(run(&parameters(), &far_lanes(), &written)[0] < 120.0);
}

#[test]
fn a_load_of_more_than_was_stored_waits_for_the_first_level() {
    let program = |is_wider: bool| {
        rounds(10, 100, |w, _| {
            w.load(0, register(0), line(0), ServedBy::L1);
            w.window.accesses.last_mut().unwrap().bytes = if is_wider { 16 } else { 8 };
            w.store(register(0), line(0), ServedBy::L1);
        })
    };
    let parameters = CoreParameters { forward_latency: 3.0, ..parameters() };
    let cycles = [false, true].map(|is_wider| run(&parameters, &far_lanes(), &program(is_wider))[0]);
    assert_eq!(cycles, [300.0, 500.0]);
}

#[test]
fn a_second_access_to_a_line_on_its_way_waits_for_it() {
    // A miss, then a load of the same line whose result the next address needs.
    let written = rounds(10, 100, |w, n| {
        w.load(register(0), register(1), line(n), ServedBy::Memory);
        w.load(register(0), register(0), line(n) + 8, ServedBy::L1);
    });
    let expected: Vec<f64> = FAR.iter().map(|latency| 100.0 * f64::from(*latency)).collect();
    assert_eq!(run(&parameters(), &far_lanes(), &written), expected);
}

#[test]
fn page_walks_come_one_after_another_before_the_access() {
    let chain = |walk: WalkLoads| {
        rounds(10, 100, |w, n| {
            w.load(register(0), register(0), line(n), ServedBy::L2);
            w.window.accesses.last_mut().unwrap().walk = walk;
        })
    };
    let first = WalkLoads { is_second_level_hit: true, ..WalkLoads::default() };
    assert_eq!(run(&parameters(), &far_lanes(), &chain(first)), [100.0 * (7.0 + 14.0); 16]);
    // Tables stay near: 200 cycles in every lane.
    let walk = WalkLoads { is_second_level_hit: false, caches: [1, 2, 0], memory: 1 };
    assert_eq!(
        run(&parameters(), &far_lanes(), &chain(walk)),
        [100.0 * (7.0 + 5.0 + 28.0 + 200.0 + 14.0); 16]
    );
    // Independent walks share two walkers.
    let independent = rounds(60, 100, |w, n| {
        w.load(0, register(0), line(n), ServedBy::L1);
        w.window.accesses.last_mut().unwrap().walk = walk;
    });
    assert_eq!(run(&parameters(), &far_lanes(), &independent), [50.0 * 233.0; 16]);
}

#[test]
fn fences_separate_memory_accesses() {
    let written = rounds(10, 100, |w, n| {
        w.load(0, register(0), line(n), ServedBy::Memory);
        w.push(instruction(OperationClass::Serializing, &[], &[]), &[]);
    });
    let expected: Vec<f64> = FAR.iter().map(|latency| 100.0 * (f64::from(*latency) + 18.0)).collect();
    assert_eq!(run(&parameters(), &far_lanes(), &written), expected);
}

#[test]
fn software_prefetches_hide_latency_and_hold_nothing_but_a_buffer() {
    let ahead = |distance: u64| {
        rounds(100, 500, |w, n| {
            let mut prefetch = instruction(OperationClass::Integer, &[], &[]);
            prefetch.memory = MemoryUse::Prefetch;
            w.push(prefetch, &[access(line(n + distance), false, ServedBy::Memory)]);
            w.load(0, register(0), line(n), ServedBy::L1);
            w.mispredicted(register(0));
        })
    };
    // A round is 21 cycles; 200 cycles are ten rounds.
    assert_eq!(run(&parameters(), &far_lanes(), &ahead(20))[0], 500.0 * 21.0);
    // Two rounds ahead, three rounds begin in 200 cycles, a branch and its penalty.
    let cycles = run(&parameters(), &far_lanes(), &ahead(2))[0];
    assert!((cycles - 500.0 * 72.0).abs() <= 72.0, "{cycles}");
}

#[test]
fn placements_decide_lane_by_lane() {
    // Lines whose page is near for placement 1 only.
    let mut written = rounds(100, 1000, |w, n| w.load(register(0), register(0), line(n), ServedBy::Memory));
    written.window.accesses.iter_mut().for_each(|access| access.near = 2);
    let base = far(900.0, 0.0);
    let pages = [NearPages::AllNear, NearPages::AllFar, NearPages::Placement(0), NearPages::Placement(1)];
    let lanes = pages.map(|pages| MemoryLane { pages, ..base });
    assert_eq!(run(&parameters(), &lanes, &written), [200e3, 900e3, 900e3, 200e3]);
}
