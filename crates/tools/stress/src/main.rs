//! `unrack-stress`: performs all operations that a program can perform on its memory, and checks every byte.
//!
//! `model` defines the expected bytes. `region`, `heap` and `shared` keep track of their locations. `ops` contains the operations, `worker`
//! chooses them, and `story` reports failures. For a given seed and number of operations, the output does not depend on how the memory is
//! provided. `touch` measures page faults.

mod heap;
mod model;
mod ops;
mod region;
mod shared;
mod story;
mod sys;
mod touch;
mod worker;

use clap::{Args, Parser, Subcommand};
use ops::OPS;
use shared::SharedPages;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_basis::{PAGE, mix_13};
use unrack_units::Bytes;
use worker::{Op, StopCondition, Worker, WorkerOutcome};

#[derive(Parser)]
#[command(
    about = "Does everything a program can do to its memory, and checks every byte of it.",
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    stress: StressArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Measures page faults: touches one word a page, pass after pass
    Touch(touch::TouchOptions),
    /// Role as the program that the stress itself starts
    #[command(hide = true)]
    Mirror { key: u64, len: usize },
}

#[derive(Args)]
struct StressArgs {
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seconds to run
    #[arg(long, default_value_t = 10, conflicts_with = "ops_count")]
    seconds: u64,
    /// Operations of each thread, instead of a time: the output is then always the same
    #[arg(long, value_name = "N")]
    ops_count: Option<usize>,
    /// Threads that each own a part of the memory
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Memory to keep in use
    #[arg(long, default_value = "256MiB")]
    memory: Bytes,
    /// Operations to pick from, with commas between them [default: all but corrupt and rawfork]
    #[arg(long, value_delimiter = ',', value_parser = op_by_name)]
    ops: Vec<&'static Op>,
    /// Print the names of all operations
    #[arg(long)]
    list_ops: bool,
}

fn op_by_name(name: &str) -> Result<&'static Op, String> {
    let names = || OPS.iter().map(|op| op.name).collect::<Vec<_>>().join(", ");
    OPS.iter().find(|op| op.name == name).ok_or_else(|| format!("it is none of {}", names()))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Touch(args)) => touch::run(&args),
        Some(Command::Mirror { key, len }) => ops::mirror(key, len),
        None if cli.stress.list_ops => OPS.iter().for_each(|op| println!("{}", op.name)),
        None => stress(&cli.stress),
    }
    ExitCode::SUCCESS
}

fn stress(args: &StressArgs) {
    ops::install_handlers();
    let brk = Brk::grow(args.seed);
    let ops: Vec<&'static Op> =
        if args.ops.is_empty() { OPS.iter().filter(|op| op.usual).collect() } else { args.ops.clone() };
    let end = match args.ops_count {
        Some(count) => StopCondition::Ops(count),
        None => StopCondition::At(Instant::now() + Duration::from_secs(args.seconds)),
    };
    let threads = usize::from(args.threads);
    let pages = (args.memory.get() as usize / PAGE).max(threads * 64);
    let shared = Arc::new(SharedPages::map(args.seed, pages / 8, threads));
    let start = |id| {
        let heap = pages / 4 / threads * PAGE;
        shared.meet();
        let outcome =
            Worker::new(id, args.seed, pages * 5 / 8 / threads, heap, shared.clone()).run(&ops, end);
        shared.meet();
        outcome
    };
    // The first worker runs on the main thread, whose stack is the stack of the process.
    let outcomes: Vec<WorkerOutcome> = std::thread::scope(|scope| {
        let start = &start;
        let others: Vec<_> = (1..threads).map(|id| scope.spawn(move || start(id))).collect();
        let first = start(0);
        let others =
            others.into_iter().map(|t| t.join().unwrap_or_else(|_| story::fail("a thread panicked")));
        std::iter::once(first).chain(others).collect()
    });
    brk.verify();
    finish(args, &shared, &outcomes);
}

/// Checks the shared memory, and prints the operations that were performed.
fn finish(args: &StressArgs, shared: &SharedPages, outcomes: &[WorkerOutcome]) {
    shared.verify(&shared.freeze());
    let added: Vec<u64> =
        (0..shared.counter_count).map(|i| outcomes.iter().map(|outcome| outcome.added[i]).sum()).collect();
    shared.verify_counters(&added);
    let mut done: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, n) in outcomes.iter().flat_map(|outcome| &outcome.done) {
        *done.entry(name).or_default() += n;
    }
    println!("seed {} threads {} memory {}", args.seed, args.threads, args.memory);
    println!("operations {}", done.values().sum::<usize>());
    for (name, n) in done {
        println!("  {name} {n}");
    }
    let digest = outcomes.iter().fold(shared.digest(), |d, outcome| mix_13(d ^ outcome.digest));
    println!("digest {digest:016x}");
    println!("every byte was right");
}

/// Memory from the program break. It is obtained before threads start, because `sbrk` is not thread-safe.
struct Brk {
    base: usize,
    key: u64,
}

impl Brk {
    const BYTES: usize = 8 << 20;

    fn grow(seed: u64) -> Brk {
        story::begin(seed, 0);
        story::op("sbrk");
        // SAFETY: no other thread runs yet, and malloc tolerates a moved break.
        let base = unsafe { libc::sbrk(2 * Self::BYTES as isize) } as usize;
        if base == usize::MAX {
            story::fail("sbrk");
        }
        story::expect(model::check(sys::bytes(base, 2 * Self::BYTES), model::ZEROS), "fresh from sbrk");
        let brk = Brk { base, key: model::key(seed, 0, 1, 0) };
        model::fill(sys::bytes_mut(base, Self::BYTES), brk.key);
        // SAFETY: this returns the upper half, which is not used.
        unsafe { libc::sbrk(-(Self::BYTES as isize)) };
        brk.verify();
        brk
    }

    fn verify(&self) {
        story::expect(model::check(sys::bytes(self.base, Self::BYTES), self.key), "from sbrk");
    }
}
