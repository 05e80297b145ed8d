//! Benchmark of the core model: nanoseconds of simulation per instruction, for the Zen 3 core with 16 memory lanes.
//!
//! Run it with `cargo bench -p unrack-lines --bench core`. For each of four workloads, it prints the minimum over
//! several executions of one recorded window. *integer* consists of additions. In *hits*, every third instruction loads
//! from the first-level cache. *stream* loads a prefetched line every 24 instructions. *misses* loads a line from
//! memory every 10 instructions.

use std::hint::black_box;
use std::time::Instant;
use unrack_lines::core::{CoreParameters, CoreReplay, MemoryLane, MemoryParameters, NearPages};
use unrack_lines::instruction::{BlockEnding, CodeBlock, GENERAL, Instruction, MemoryUse, OperationClass};
use unrack_lines::window::{BlockStep, LineAccess, Prefetch, RecordedWindow, ServedBy, WalkLoads};

const STEPS: u32 = 4000;
const PASSES: usize = 15;

fn main() {
    // `cargo test` also runs this benchmark, but only to check that it works. Fewer steps suffice for this.
    let (steps, passes) =
        if std::env::args().any(|word| word == "--test") { (10, 1) } else { (STEPS, PASSES) };
    println!("{:>10}{:>16}", "program", "ns/instruction");
    let programs = [
        ("integer", block(10, 0), 0, 0),
        ("hits", block(12, 4), 0, 0),
        ("stream", block(24, 8), 0, 1),
        ("misses", block(10, 1), 1, 0),
    ];
    let parameters = CoreParameters::by_name("zen3").expect("Zen 3 is known");
    for (name, block, misses, prefetches) in programs {
        let window = window(&block, steps, misses, prefetches);
        let blocks = [block];
        let mut replay = CoreReplay::new(&parameters, &lanes(), 0).expect("the parameters are valid");
        let pass = || {
            let start = Instant::now();
            black_box(replay.run(&window, &blocks));
            start.elapsed().as_nanos() as f64
        };
        let least = std::iter::repeat_with(pass).take(passes).fold(f64::INFINITY, f64::min);
        let instructions = f64::from(steps) * blocks[0].instructions.len() as f64;
        println!("{name:>10}{:>16.1}", least / instructions);
    }
}

/// Returns a code block of `instructions` instructions. Its first `loads` instructions are loads.
fn block(instructions: u8, loads: u8) -> CodeBlock {
    let one = |number: u8| Instruction {
        address: [if number < loads { GENERAL } else { 0 }, 0],
        sources: if number < loads {
            [0; 4]
        } else {
            [GENERAL + number % 16, GENERAL + (number + 3) % 16, 0, 0]
        },
        targets: [GENERAL + 1 + number % 15, 0, 0],
        operation: OperationClass::Integer,
        slots: 1,
        memory: if number < loads { MemoryUse::Load } else { MemoryUse::None },
    };
    let bytes = 4 * u32::from(instructions);
    let instructions = (0..instructions).map(one).collect();
    CodeBlock { pc: 0, bytes, instructions, ending: BlockEnding::Conditional }
}

/// Returns a recorded window that repeats `block` `steps` times. In each repetition, memory serves the first `misses`
/// loads, and the first-level cache serves the others.
fn window(block: &CodeBlock, steps: u32, misses: usize, prefetches: u32) -> RecordedWindow {
    let mut window = RecordedWindow::default();
    let loads = block.instructions.iter().filter(|one| one.memory == MemoryUse::Load).count();
    for number in 0..steps {
        let first_access = window.accesses.len() as u32;
        let instructions = block.instructions.len() as u16;
        window.steps.push(BlockStep { block: 0, instructions, first_access, is_mispredicted: false });
        window.accesses.extend((0..loads).map(|load| LineAccess {
            instruction: load as u16,
            address: u64::from(number) * 64 + load as u64 * 8,
            bytes: 8,
            is_store: false,
            served: if load < misses { ServedBy::Memory } else { ServedBy::L1 },
            near: 0,
            walk: WalkLoads::default(),
        }));
        window.prefetches.extend((0..prefetches).map(|_| Prefetch {
            after: first_access,
            line: u64::from(number + 8) * 64,
            served: ServedBy::Memory,
            near: 0,
        }));
    }
    window
}

fn lanes() -> Vec<MemoryLane> {
    let near = MemoryParameters { latency: 300.0, interval: 9.5, ..MemoryParameters::default() };
    let lane = |number: u8| MemoryLane {
        pages: NearPages::Placement(number % 2),
        near,
        far: MemoryParameters { latency: 400.0 + 100.0 * f32::from(number), ..near },
    };
    (0..16).map(lane).collect()
}
