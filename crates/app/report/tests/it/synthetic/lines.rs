//! Result of loads and stores, as the command writes it.

use std::path::{Path, PathBuf};

use unrack_record::*;

use super::{command, known, runs, simulation, spread};

fn point(latency_ns: f64) -> CurvePoint {
    let slowdown = 1.0 + latency_ns / 2000.0;
    CurvePoint { latency_ns, slowdown: known(slowdown, slowdown - 0.1, slowdown + 0.1) }
}

fn placed(name: &str) -> PlacementCurve {
    PlacementCurve { placement: name.into(), curve: [200.0, 400.0, 1000.0].map(point).to_vec() }
}

fn thread(thread: u32, misses: u64) -> ThreadSlowdown {
    ThreadSlowdown {
        program: "/usr/bin/sort".into(),
        pid: 7,
        thread,
        instructions: 2_000_000,
        misses,
        windows: 20,
        near_s: known(0.5, 0.4, 0.6),
        curve: placed("").curve,
    }
}

fn misses(name: &str, misses: u64) -> NamedMisses {
    NamedMisses { name: name.into(), misses }
}

pub(crate) fn summary() -> LinesSummary {
    let level = |(level, accesses): (&str, u64)| ServedCount { level: level.into(), accesses };
    let served = [("L1", 900_000), ("L2", 80_000), ("memory", 20_000)].map(level).to_vec();
    let fabric = LinesFabric {
        fabric: "edm".into(),
        unloaded_ns: Some(300.0),
        read_ns: Some(spread(400.0, 350.0, 900.0)),
        slowdown: known(1.2, 1.1, 1.3),
        slowdown_closed_loop: known(1.4, 1.3, 1.5),
        simulation: simulation("edm", 1.2),
    };
    let lines = LinesResult {
        processor: "zen4".into(),
        seen: None,
        threads: vec![thread(0, 500), thread(1, 19_500)],
        placement: "interleaved".into(),
        local: "25%".into(),
        footprint_bytes: 64 << 20,
        native: Some(NativeTimes {
            wall: runs(2.0, 0.01),
            processor: runs(2.5, 0.01),
            user: runs(2.4, 0.01),
        }),
        machine_times: MachineTimes { frequency_ghz: 3.5, near_ns: 100.0, is_measured: true },
        counts: LineCounts {
            memory_reads: 1_900_000,
            processes: 1,
            threads: 2,
            instructions: 4_000_000,
            loads: 700_000,
            stores: 300_000,
            branches: 200_000,
            mispredicted: 3_000,
            served,
            write_backs: 5_000,
            windows: 40,
            window_instructions: 800_000,
        },
        critical: Some(CriticalThread {
            program: "/usr/bin/sort".into(),
            pid: 7,
            thread: 1,
            instructions: 3_000_000,
            cycles_per_instruction: known(0.8, 0.7, 0.9),
        }),
        predicted_near_s: known(1.9, 1.8, 2.0),
        kernel_s: Some(0.1),
        predicted_processor_s: known(2.375, 2.3, 2.45),
        curve: placed("").curve,
        placements: ["all remote", "50 % local, hottest"].map(placed).to_vec(),
        stalls: Some(StallShares {
            memory: 0.5,
            caches: 0.2,
            stores: 0.1,
            core: 0.15,
            mispredicted: 0.05,
            overlap: 3.0,
        }),
        fabrics: vec![fabric],
        mappings: vec![misses("[heap]", 15_000), misses("</td>&", 5_000)],
        functions: vec![misses("compare", 20_000)],
        warnings: vec![Warning::new("waits", "the rest are waits")],
    };
    LinesSummary {
        version: "0.1.0".into(),
        command: command(),
        seed: 1,
        access: AccessUnit::Lines,
        pages: None,
        lines,
        machine: None,
    }
}

/// A folder as `unrack compare --access lines` leaves it.
pub(crate) fn folder(parent: &Path, name: &str) -> PathBuf {
    let folder = RunFolder::create(parent.join(name), &RunPurpose::new("test", name, name), false).unwrap();
    folder.write_json("summary.json", &summary()).unwrap();
    let mut heat = line_heat::Writer::create(folder.path("heat.parquet")).unwrap();
    for cell in 1..64u64 {
        let row = line_heat::Row { epoch: (cell / 8) as u32, page: cell % 8, misses: cell, write_backs: 0 };
        heat.push(row).unwrap();
    }
    let meta = line_heat::Meta {
        command_line: command(),
        program: "/usr/bin/sort".into(),
        page_size: 4096,
        epoch_instructions: 500_000,
    };
    heat.finish(&meta).unwrap();
    parent.join(name)
}
