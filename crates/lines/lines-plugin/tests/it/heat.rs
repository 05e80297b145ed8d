//! Heat over the whole run, and the placements that go by the use of pages.

use crate::common::{compiled, recorded, tools};
use unrack_lines::heat::Hottest;
use unrack_lines::placement::PagePlacement;
use unrack_lines::window::{RecordedWindow, ServedBy};
use unrack_lines_run::{Options, ProcessRecord};
use unrack_testing::TestFolder;

/// Loads random lines: of ten, nine of 4 MiB and one of the 16 MiB before them, all of which were touched in their order.
const SKEWED: &str = "
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #define COLD (16 << 14)
    #define HOT (4 << 14)
    int main(int argc, char **argv) {
        uint64_t steps = atol(argv[1]), x = 88172645463325252u, sum = 0;
        uint64_t (*data)[8] = aligned_alloc(4096, (COLD + HOT) * 64);
        for (uint64_t i = 0; i < COLD + HOT; i++) data[i][0] = i;
        for (uint64_t i = 0; i < steps; i++) {
            x ^= x << 13; x ^= x >> 7; x ^= x << 17;
            sum += data[x % 10 ? COLD + (x >> 8) % HOT : (x >> 8) % COLD][0];
        }
        printf(\"%lu\\n\", sum);
        return 0;
    }";

const HOT: u64 = 4 << 20;
const ALL: u64 = 20 << 20;

fn placements() -> Vec<PagePlacement> {
    vec![
        PagePlacement::AllFar,
        PagePlacement::Interleaved { near_share: 0.25 },
        PagePlacement::FirstTouch { near_bytes: 5 << 20 },
        PagePlacement::Tiered { near_bytes: 5 << 20, period: 1 << 20 },
        PagePlacement::DramCache { near_bytes: 5 << 20, granule_bytes: 4096, ways: 4 },
    ]
}

fn run() -> Option<(ProcessRecord, Vec<RecordedWindow>)> {
    let tools = tools()?;
    let folder = TestFolder::new("skewed");
    let program = compiled(&folder, "skewed", SKEWED, &["-O2"]);
    let options = Options {
        processor: Some("zen3:l3=1M/16:prefetchers=none".parse().unwrap()),
        cores: Some(1),
        placements: Some(placements()),
        period: Some(500_000),
        ..Options::default()
    };
    let mut kept = recorded(&tools, &[program.into(), "1000000".into()], &options, &folder);
    assert!(kept.run.status.success(), "{}", kept.err);
    let process = kept.run.processes.remove(0);
    let mut reader = process.open().unwrap().expect("windows");
    let windows = std::iter::from_fn(|| reader.next_window().unwrap()).collect();
    // The recordings are removed with the run, so the heat is read here.
    let heat = process.heat().unwrap();
    check_heat(&process, &heat);
    let mut windows: Vec<RecordedWindow> = windows;
    let hottest = Hottest::new(&heat, 5 << 20);
    windows.iter_mut().for_each(|window| hottest.mark(window, 5));
    Some((process, windows))
}

fn check_heat(process: &ProcessRecord, heat: &unrack_lines::heat::HeatTables) {
    let caches = process.summary.threads[0].caches;
    let total = |rows: &[unrack_lines::heat::RangeHeat]| rows.iter().map(|row| row.misses).sum::<u64>();
    let misses = total(&heat.ranges);
    assert_eq!(misses, total(&heat.epochs.concat()));
    assert_eq!(misses, caches.misses(), "the heat and the counts mean the same by a miss");
    let written: u64 = heat.ranges.iter().map(|row| row.write_backs).sum();
    assert_eq!(written, caches.write_backs);
    let instructions = process.summary.threads[0].instructions;
    assert_eq!(heat.epochs.len() as u64, instructions / heat.epoch_instructions + 1);
    // Pages of the hot part are missed 36 times as often as those of the cold one.
    let mut ranges: Vec<u64> = heat.ranges.iter().map(|row| row.misses).collect();
    ranges.sort_unstable();
    let hot: u64 = ranges.iter().rev().take((HOT / heat.range_bytes) as usize).sum();
    assert!(hot * 100 > misses * 55, "{hot} of {misses}");
    assert!(heat.ranges.len() as u64 >= ALL / 4096 && heat.range_bytes == 4096);
}

#[test]
fn what_is_hot_comes_near_by_each_placement_that_goes_by_use() {
    let Some((process, windows)) = run() else { return };
    // The last windows: the program loads at random, and placements have learned.
    let last = &windows[windows.len() - 8..windows.len() - 1];
    let misses: Vec<u16> = last
        .iter()
        .flat_map(|window| &window.accesses)
        .filter(|access| access.served == ServedBy::Memory)
        .map(|access| access.near)
        .collect();
    let share =
        |bit: u16| misses.iter().filter(|near| *near >> bit & 1 == 1).count() as f64 / misses.len() as f64;
    let shares: Vec<f64> = (0..6).map(share).collect();
    println!("near shares of misses: {shares:?}");
    let [all_far, interleaved, first_touch, tiered, cached, oracle] = shares[..] else { unreachable!() };
    assert_eq!(all_far, 0.0);
    assert!((0.2..0.3).contains(&interleaved), "{shares:?}");
    // The first pages touched are cold.
    assert!(first_touch < 0.08, "{shares:?}");
    // Of the misses 88 % are expected near, of about 2,000 that the windows hold: four standard deviations below.
    assert!(oracle > 0.85, "{shares:?}");
    assert!(tiered > 0.6 && tiered < oracle + 0.02, "{shares:?}");
    assert!(cached > 0.6 && cached < oracle + 0.02, "{shares:?}");
    let moved = &process.summary.moved;
    assert_eq!(moved.len(), placements().len());
    assert!(moved[..3].iter().all(|moved| *moved == Default::default()));
    assert!(moved[3].hint_faults > 1000 && moved[3].into_near_bytes >= 3 << 20, "{moved:?}");
    assert!(moved[4].into_near_bytes > HOT, "{moved:?}");
}
