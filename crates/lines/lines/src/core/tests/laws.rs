//! Laws that hold for every program.

use super::written::{access, instruction, random, register};
use super::*;
use proptest::prelude::*;

/// Returns a small core, of which every queue fills.
fn small() -> CoreParameters {
    CoreParameters {
        reorder_buffer: 24,
        load_queue: 6,
        store_queue: 4,
        fill_buffers: 3,
        prefetch_buffers: 2,
        walkers: 1,
        ..parameters()
    }
}

proptest! {
    #[test]
    fn more_latency_never_takes_fewer_cycles(written in random(), more in 0..600u16) {
        let written = written.without_lead();
        let lanes = [far(200.0, 0.0), far(200.0 + f32::from(more), 0.0)];
        let cycles = run(&small(), &lanes, &written);
        prop_assert!(cycles[0] <= cycles[1], "{:?}", cycles);
    }

    #[test]
    fn less_bandwidth_never_takes_fewer_cycles(written in random(), more in 0..600u16) {
        let written = written.without_lead();
        let lanes = [far(300.0, 9.5), far(300.0, 9.5 + f32::from(more))];
        let cycles = run(&small(), &lanes, &written);
        prop_assert!(cycles[0] <= cycles[1], "{:?}", cycles);
    }

    #[test]
    fn longer_queues_never_take_more_cycles(written in random()) {
        let longer = CoreParameters {
            reorder_buffer: 32,
            load_queue: 8,
            store_queue: 8,
            fill_buffers: 6,
            prefetch_buffers: 4,
            walkers: 2,
            ..small()
        };
        let written = written.without_lead();
        let (short, long) = (run(&small(), &far_lanes(), &written), run(&longer, &far_lanes(), &written));
        for (short, long) in short.iter().zip(&long) {
            prop_assert!(long <= short);
        }
    }

    #[test]
    fn a_lane_alone_is_as_among_others(written in random(), lane in 0..16usize) {
        let lanes: Vec<MemoryLane> = FAR
            .iter()
            .zip(0..16u8)
            .map(|(latency, number)| MemoryLane { pages: NearPages::Placement(number % 2), ..far(*latency, f32::from(number)) })
            .collect();
        let all = run(&small(), &lanes, &written);
        prop_assert_eq!(all[lane], run(&small(), &lanes[lane..=lane], &written)[0]);
    }

    #[test]
    fn a_window_does_not_depend_on_the_one_before(first in random(), second in random()) {
        let mut both = Written::default();
        both.blocks.extend(first.blocks.iter().chain(&second.blocks).cloned());
        let mut later = second.clone();
        later.window.steps.iter_mut().for_each(|step| step.block += first.blocks.len() as u32);
        let mut replay = CoreReplay::new(&small(), &far_lanes(), 0).unwrap();
        replay.run(&first.window, &both.blocks);
        prop_assert_eq!(replay.run(&later.window, &both.blocks).cycles, run(&small(), &far_lanes(), &second));
    }

    /// Instructions take at least their slots by the width.
    #[test]
    fn nothing_is_faster_than_the_width(written in random()) {
        let written = written.without_lead();
        let slots: u32 = written.blocks.iter().map(|block| u32::from(block.instructions[0].slots)).sum();
        for cycles in run(&small(), &far_lanes(), &written) {
            prop_assert!(cycles >= f64::from(slots.div_ceil(4)));
        }
    }
}

/// A window that is much longer than the cycles after which times are counted anew.
#[test]
fn times_are_exact_in_a_long_window() {
    let mut written = Written::default();
    for number in 0..20_000u64 {
        let mut load = instruction(crate::instruction::OperationClass::Integer, &[], &[register(0)]);
        (load.address[0], load.memory) = (register(0), crate::instruction::MemoryUse::Load);
        written.push(load, &[access(number * 64, false, crate::window::ServedBy::Memory)]);
    }
    let lanes = [far(1234.0625, 0.0), far(10_000.5, 0.0)];
    assert_eq!(run(&parameters(), &lanes, &written), [20_000.0 * 1234.0625 + 1.0, 20_000.0 * 10_000.5 + 1.0]);
}

#[test]
fn parameters_out_of_range_are_named() {
    let message = |change: fn(&mut CoreParameters)| {
        let mut parameters = parameters();
        change(&mut parameters);
        CoreReplay::new(&parameters, &far_lanes(), 0).err().unwrap().to_string()
    };
    assert_eq!(message(|p| p.walkers = 0), "number of page walkers is 0, but must be 1 to 4096");
    assert_eq!(message(|p| p.caches.l3 = -1.0), "L3 latency is -1 cycles, but must be 0 to 1000000");
    assert_eq!(message(|p| p.caches.l3 = f32::NAN), "L3 latency is NaN cycles, but must be 0 to 1000000");
    assert_eq!(message(|p| p.frequency_ghz = 0.0), "core clock is 0 GHz, but must be above 0 and finite");
    let refused = |lanes: &[MemoryLane]| CoreReplay::new(&parameters(), lanes, 0).err().unwrap();
    assert_eq!(refused(&[]), CoreError::Lanes(0));
    assert_eq!(refused(&vec![far(1.0, 0.0); 17]), CoreError::Lanes(17));
    assert_eq!(
        refused(&[MemoryLane { pages: NearPages::Placement(16), ..far(1.0, 0.0) }]),
        CoreError::Placement(16)
    );
}
