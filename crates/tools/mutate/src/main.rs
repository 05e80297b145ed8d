//! `unrack-mutate`: feeds damaged inputs to parsers and wire formats.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_mutate::campaign::{self, CampaignPlan};
use unrack_mutate::targets::{FuzzTarget, TARGETS};

/// Gives damaged inputs to every parser and wire, and keeps those that make one fail.
#[derive(Parser)]
struct Args {
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first input
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Inputs in all, shared by the targets
    #[arg(long, default_value_t = 100_000)]
    executions: u64,
    /// Folder for inputs of failures
    #[arg(long, default_value = "runs/mutate")]
    save: PathBuf,
    /// Names of targets; all by default
    targets: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let named: Option<Vec<&'static FuzzTarget>> =
        args.targets.iter().map(|name| campaign::target(name)).collect();
    let Some(mut targets) = named else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("there are the targets {}", names.join(", "));
        return ExitCode::from(2);
    };
    if targets.is_empty() {
        targets = TARGETS.iter().collect();
    }
    let mut failures = 0;
    let executions = args.executions.div_ceil(targets.len() as u64);
    for target in targets {
        let begin = std::time::Instant::now();
        campaign::run(target, args.first, CampaignPlan { seed: args.seed, executions }, |failure| {
            failures += 1;
            let kept = failure
                .save(&args.save)
                .map_or_else(|why| why.to_string(), |path| path.display().to_string());
            eprintln!("{failure}\n  input: {kept}");
        });
        println!("{:<14} {executions} inputs in {:.1} s", target.name, begin.elapsed().as_secs_f64());
    }
    println!("seed {}: {failures} failures", args.seed);
    ExitCode::from(u8::from(failures > 0))
}
