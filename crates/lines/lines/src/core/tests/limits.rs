//! Tests of schedulers, ports and ways between caches.

use super::written::{instruction, register};
use super::*;
use crate::instruction::{OperationClass, VECTOR};
use crate::window::{ServedBy, WalkLoads};

fn rounds(mut round: impl FnMut(&mut Written, u64)) -> Written {
    let mut written = Written::default();
    (0..400).for_each(|number| round(&mut written, number));
    written.end_lead();
    (400..1400).for_each(|number| round(&mut written, number));
    written
}

/// Returns the cycles of a round, of a thousand.
fn round_cycles(parameters: &CoreParameters, written: &Written) -> f64 {
    run(parameters, &far_lanes(), written)[0] / 1000.0
}

#[test]
fn each_kind_is_bound_by_its_ports() {
    let ports = CorePorts {
        integer: 3,
        multiply: 1,
        branch: 2,
        vector: 3,
        float_add: 2,
        float_multiply: 2,
        load: 2,
        store: 1,
        memory: 8,
        vector_load: 2,
        vector_store: 1,
    };
    let parameters = CoreParameters {
        dispatch_width: 8,
        retire_width: 8,
        ports,
        divide_interval: 6.0,
        float_divide_interval: 5.0,
        ..parameters()
    };
    let times = |operation: OperationClass| {
        let written = rounds(|w, _| {
            (0..6).for_each(|_| w.push(instruction(operation, &[], &[register(0)]), &[]));
        });
        round_cycles(&parameters, &written)
    };
    assert_round(times(OperationClass::Nothing), 0.75);
    assert_round(times(OperationClass::Integer), 2.0);
    assert_round(times(OperationClass::Multiply), 6.0);
    assert_round(times(OperationClass::Divide64), 36.0);
    assert_round(times(OperationClass::Branch), 3.0);
    assert_round(times(OperationClass::Vector), 2.0);
    assert_round(times(OperationClass::FloatAdd), 3.0);
    assert_round(times(OperationClass::FloatDivide), 30.0);
    let loads = rounds(|w, n| (0..6).for_each(|_| w.load(0, register(0), n * 64, ServedBy::L1)));
    assert_round(round_cycles(&parameters, &loads), 3.0);
    let stores = rounds(|w, n| (0..6).for_each(|_| w.store(0, n * 64, ServedBy::L1)));
    assert_round(round_cycles(&parameters, &stores), 6.0);
    // Four of one kind and two of another: multiplications take integer ports, vectors have their own.
    let mixed = |operation: OperationClass| {
        rounds(|w, _| {
            (0..4).for_each(|_| w.add(0, register(0)));
            (0..2).for_each(|_| w.push(instruction(operation, &[], &[VECTOR]), &[]));
        })
    };
    assert_round(round_cycles(&parameters, &mixed(OperationClass::Multiply)), 2.0);
    assert_round(round_cycles(&parameters, &mixed(OperationClass::Vector)), 4.0 / 3.0);
}

/// Checks the cycles of a round but for bursts: 16 cycles at the lead's end and at the window's.
fn assert_round(cycles: f64, expected: f64) {
    assert!((cycles - expected).abs() <= 0.032, "{cycles}, expected {expected}");
}

/// Chains that wait fill the scheduler long before the reorder buffer.
#[test]
fn a_full_scheduler_stops_dispatch() {
    // A miss, then a chain of 39 additions on its value: five chains fit a reorder buffer of 224.
    let chains = rounds(|w, n| {
        w.load(0, register(0), n * 64, ServedBy::Memory);
        (0..39).for_each(|_| w.add(register(0), register(0)));
    });
    let with = |scheduler: usize| {
        let parameters = CoreParameters { scheduler, ..parameters() };
        run(&parameters, &[far(2000.0, 0.0)], &chains)[0] / 1000.0
    };
    let unbound = with(4096);
    // With room for 96, the load of the third chain after the one that waits is the last to be dispatched: 2.4 chains, where
    // the reorder buffer holds 5.6.
    let bound = with(96);
    assert!((320.0..480.0).contains(&unbound), "{unbound}");
    assert!((500.0..1000.0).contains(&bound), "{bound}");
    // Vectors have a scheduler of their own.
    let other = CoreParameters { scheduler: 8, vector_scheduler: Some(4096), ..parameters() };
    let vectors = rounds(|w, n| {
        w.load(0, VECTOR, n * 64, ServedBy::Memory);
        (0..39).for_each(|_| w.push(instruction(OperationClass::Vector, &[VECTOR], &[VECTOR]), &[]));
    });
    let cycles = run(&other, &[far(2000.0, 0.0)], &vectors)[0] / 1000.0;
    assert!((320.0..480.0).contains(&cycles), "{cycles}");
}

#[test]
fn loads_that_wait_for_their_lines_leave_the_scheduler() {
    let parameters = CoreParameters { scheduler: 8, ..parameters() };
    let loads = rounds(|w, n| w.load(0, register(0), n * 64, ServedBy::Memory));
    assert_eq!(run(&parameters, &[far(2000.0, 0.0)], &loads)[0], 200_000.0);
}

#[test]
fn lines_of_the_last_level_come_one_after_another() {
    let mut parameters = parameters();
    (parameters.caches.l3_interval, parameters.caches.l3_demand_interval) = (6.0, 8.0);
    let loads = rounds(|w, n| w.load(0, register(0), n * 64, ServedBy::L3));
    assert_eq!(round_cycles(&parameters, &loads), 8.0);
}

#[test]
fn lines_come_to_the_first_level_one_after_another() {
    let mut parameters = parameters();
    (parameters.caches.fill_interval, parameters.caches.store_fill_interval) = (4.0, 6.0);
    let loads = rounds(|w, n| w.load(0, register(0), n * 64, ServedBy::L2));
    assert_eq!(round_cycles(&parameters, &loads), 4.0);
    let copies = rounds(|w, n| {
        w.load(0, register(0), n * 64, ServedBy::L2);
        w.store(register(0), (1 << 30) + n * 64, ServedBy::L2);
    });
    assert_eq!(round_cycles(&parameters, &copies), 10.0);
}

#[test]
fn a_walk_takes_its_own_latency_beside_its_loads() {
    let parameters = CoreParameters { walk_latency: 100.0, cached_walk_latency: 30.0, ..parameters() };
    let chain = |served| {
        rounds(|w, n| {
            w.load(register(0), register(0), n * 64, served);
            w.window.accesses.last_mut().unwrap().walk =
                WalkLoads { caches: [1, 0, 0], ..WalkLoads::default() };
        })
    };
    assert_eq!(round_cycles(&parameters, &chain(ServedBy::L1)), 7.0 + 5.0 + 30.0 + 5.0);
    let data = rounds(|w, n| w.load(register(0), register(0), n * 64, ServedBy::Memory));
    let data = round_cycles(&parameters, &data);
    assert_eq!(round_cycles(&parameters, &chain(ServedBy::Memory)), 7.0 + 5.0 + 100.0 + data);
}
