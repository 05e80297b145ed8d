//! Tests of the wrong path: what loads behind a mispredicted branch, on which both of its ways meet, wait for.

use super::written::{access, instruction, register};
use super::*;
use crate::instruction::{BlockEnding, CodeBlock, FLAGS, Instruction, MemoryUse, OperationClass, Register};
use crate::window::{BlockStep, RecordedWindow, ServedBy};

/// Latency of memory, in cycles.
const LATENCY: f32 = 600.0;
/// Rounds of a loop.
const ROUNDS: u64 = 400;

/// Returns a load from `base` to `target`.
fn load(base: Register, target: Register) -> Instruction {
    let mut load = instruction(OperationClass::Integer, &[], &[target]);
    (load.address[0], load.memory) = (base, MemoryUse::Load);
    load
}

/// Returns a loop of a load from memory, with the address in `base`, and a mispredicted branch on its value. The branch goes
/// two ways in turns, each of one instruction that writes `written`; then the loop begins anew.
fn probes(base: Register, written: Register) -> (Vec<CodeBlock>, RecordedWindow) {
    let branch = instruction(OperationClass::Branch, &[register(1), FLAGS], &[]);
    let block =
        |pc, bytes, instructions| CodeBlock { pc, bytes, instructions, ending: BlockEnding::Conditional };
    let way = || instruction(OperationClass::Integer, &[], &[written]);
    let probe = vec![load(base, register(1)), branch];
    let blocks = vec![block(0, 2, probe), block(100, 1, vec![way()]), block(200, 1, vec![way()])];
    let mut window = RecordedWindow::default();
    for round in 0..ROUNDS {
        let first_access = window.accesses.len() as u32;
        window.steps.push(BlockStep { block: 0, instructions: 2, first_access, is_mispredicted: true });
        window.accesses.push(access(round << 20, false, ServedBy::Memory));
        let block = 1 + (round % 2) as u32;
        let first_access = window.accesses.len() as u32;
        window.steps.push(BlockStep { block, instructions: 1, first_access, is_mispredicted: false });
    }
    (blocks, window)
}

fn cycles_a_round(parameters: &CoreParameters, (blocks, window): &(Vec<CodeBlock>, RecordedWindow)) -> f64 {
    let mut replay = CoreReplay::new(parameters, &[far(LATENCY, 0.0)], 0).unwrap();
    replay.run(window, blocks).cycles[0] / ROUNDS as f64
}

/// As many rounds as the reorder buffer holds wait for memory together: the others find their lines there, and take the
/// penalty of their branches. A round has three instructions.
#[test]
fn misses_behind_mispredicted_branches_overlap() {
    let parameters = CoreParameters { fill_buffers: 64, ..parameters() };
    let together = (parameters.reorder_buffer / 3) as f64;
    let cycles = cycles_a_round(&parameters, &probes(register(2), register(3)));
    let least = f64::from(parameters.mispredict_penalty);
    let most = least + f64::from(parameters.caches.l1) + 4.0 + f64::from(LATENCY) / together * 2.0;
    assert!((least..most).contains(&cycles), "{cycles} cycles, {least} to {most}");
}

/// With fewer buffers than the reorder buffer has loads, these bound the rounds.
#[test]
fn early_loads_take_fill_buffers() {
    let few = CoreParameters { fill_buffers: 4, ..parameters() };
    let cycles = cycles_a_round(&few, &probes(register(2), register(3)));
    assert!(cycles >= f64::from(LATENCY) / 4.0 * 0.9, "{cycles} cycles");
}

/// An address that the ways of the branch write is not known on the wrong one, nor one that a miss loads: each round waits.
#[test]
fn addresses_that_depend_on_the_way_or_on_a_miss_wait() {
    let each = f64::from(LATENCY + parameters().mispredict_penalty);
    for (base, written) in [(register(3), register(3)), (register(1), register(3))] {
        let cycles = cycles_a_round(&parameters(), &probes(base, written));
        assert!((each..each + 5.0).contains(&cycles), "{cycles} cycles, {each} expected");
    }
}

/// A branch whose other way was never gone tells nothing of the wrong path.
#[test]
fn an_unknown_wrong_way_makes_nothing_early() {
    let (blocks, mut window) = probes(register(2), register(3));
    window.steps.iter_mut().filter(|step| step.block == 2).for_each(|step| step.block = 1);
    let cycles = cycles_a_round(&parameters(), &(blocks, window));
    assert!(cycles >= f64::from(LATENCY), "{cycles} cycles");
}

/// Lanes are apart: local memory, for which no branch waits long, is as fast alone as beside remote memory.
#[test]
fn lanes_do_not_mix() {
    let (blocks, window) = probes(register(2), register(3));
    let lanes = far_lanes();
    let run =
        |lanes: &[MemoryLane]| CoreReplay::new(&parameters(), lanes, 0).unwrap().run(&window, &blocks).cycles;
    let all = run(&lanes);
    for (index, lane) in lanes.iter().enumerate() {
        assert_eq!(run(&[*lane])[0], all[index], "lane {index}");
    }
}
