//! Runs targets on seeded inputs, and records failures.

use crate::corpus::{Corpus, corpus};
use crate::draws::Draws;
use crate::mutation::mutated;
use crate::targets::{FuzzTarget, TARGETS};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time above which the processing of an input counts as a failure. Valid inputs take milliseconds, but the machine may be busy.
const SLOW: Duration = Duration::from_secs(30);
/// Seconds after which an input counts as hanging, and the process is ended. Otherwise the input would hang the whole campaign.
const HANGS_S: u64 = 300;

/// Extent of a campaign: the seed, and the number of executions.
#[derive(Debug, Clone, Copy)]
pub struct CampaignPlan {
    pub seed: u64,
    /// Number of inputs for each target.
    pub executions: u64,
}

/// An input on which a target failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingInput {
    pub target: &'static str,
    pub seed: u64,
    pub number: u64,
    pub why: String,
    pub input: Vec<u8>,
}

impl FailingInput {
    /// Writes the input to a file in `folder`, and returns the path of the file.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    pub fn save(&self, folder: &Path) -> std::io::Result<std::path::PathBuf> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}-{}-{}", self.target, self.seed, self.number));
        std::fs::write(&path, &self.input)?;
        Ok(path)
    }
}

impl std::fmt::Display for FailingInput {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let FailingInput { target, seed, number, why, .. } = self;
        write!(f, "{why}\n  again: unrack-mutate --seed {seed} --first {number} --executions 1 {target}")
    }
}

/// Returns the target with this name.
pub fn target(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs `target` on the inputs from number `first` on, and calls `failed` with each failure.
pub fn run(
    target: &'static FuzzTarget,
    first: u64,
    plan: CampaignPlan,
    mut failed: impl FnMut(FailingInput),
) {
    catch_quietly();
    let corpus = corpus(target);
    let watch = Watchdog::start(target.name, plan.seed);
    for number in first..first + plan.executions {
        watch.number.store(number, Relaxed);
        let input = input(target, &corpus, plan.seed, number);
        let begin = Instant::now();
        let ended = execute(target, &input);
        let why = match ended {
            Err(why) => why,
            Ok(()) if begin.elapsed() > SLOW => format!("took {} s", begin.elapsed().as_secs()),
            Ok(()) => continue,
        };
        failed(FailingInput { target: target.name, seed: plan.seed, number, why, input });
    }
}

/// Returns input number `number` of a seed.
fn input(target: &FuzzTarget, corpus: &Corpus, seed: u64, number: u64) -> Vec<u8> {
    let mut draws = Draws::new(seed, number);
    let empty = Vec::new();
    let good = draws.one_of(&corpus.inputs).unwrap_or(&empty).clone();
    let other = draws.one_of(&corpus.inputs).unwrap_or(&empty).clone();
    mutated(target.grammar, &good, &other, &corpus.words, &mut draws)
}

/// Runs a target on one input.
///
/// # Errors
/// The panic message, if the target panics.
pub fn execute(target: &FuzzTarget, input: &[u8]) -> Result<(), String> {
    catch_quietly();
    QUIET.set(true);
    let ended = catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    QUIET.set(false);
    ended.map_err(|_| LAST.take())
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

fn catch_quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match QUIET.get() {
            true => LAST.set(panic.to_string()),
            false => before(panic),
        }));
    });
}

/// Watchdog that ends the process if one input hangs.
struct Watchdog {
    number: std::sync::Arc<AtomicU64>,
}

impl Watchdog {
    fn start(target: &'static str, seed: u64) -> Watchdog {
        let number = std::sync::Arc::new(AtomicU64::new(0));
        let watched = std::sync::Arc::downgrade(&number);
        std::thread::spawn(move || {
            let (mut last, mut same) = (0, 0);
            while let Some(number) = watched.upgrade().map(|number| number.load(Relaxed)) {
                (last, same) = if number == last { (last, same + 1) } else { (number, 0) };
                if same > HANGS_S {
                    eprintln!("{target}: input {number} of seed {seed} does not come to an end");
                    std::process::exit(1);
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Watchdog { number }
    }
}
