//! Effect of remote memory on a program: questions and their answers, computed in process.
//!
//! A question is a plain struct. Its method `ask` runs the program, simulates, draws conclusions, writes the run folder, and returns plain
//! data, from which the command makes its JSON and its text. [`QuestionCaller`] receives the progress of a question, and cancels it.
//!
//! | question | asks | answer |
//! |---|---|---|
//! | [`ComparisonQuestion`] | how much each fabric slows a program down with part of its memory remote | [`ComparisonAnswer`] |
//! | [`MapQuestion`] | the program's slowdown over latency, bandwidth and local share | [`MapAnswer`] |
//! | [`LinesQuestion`] | its slowdown by the latency of remote memory, from its loads and stores | [`LinesSummary`](unrack_record::LinesSummary) |
//! | [`SwapQuestion`] | how far the predicted run time is from that under the kernel's swap | [`SwapAnswer`] |
//! | [`RunQuestion`] | how long the program takes with part of its memory remote, by one run | [`RunAnswer`] |
//! | [`BorrowQuestion`] | how a process that already runs is slowed while part of its memory is remote | [`BorrowAnswer`] |
//!
//! | module | does |
//! |---|---|
//! | `asking`, `steps`, `left` | progress, cancellation, and the predicted time of the remaining steps |
//! | `budget` | the time budget of a whole command |
//! | `load` | other work on the machine: checked before the first run and during each run |
//! | `runs` | runs by pages, natively and at injected delays, and the line through them |
//! | `lines` | an instrumented run, the core model, and the slowdowns that follow from both |
//! | `compare`, `map`, `swap`, `run` | one question each |
//!
//! All times come from one of two estimators: for pages, the line that `runs` fits; for lines, the core model of `lines`.
//!
//! Runs of the program take over the signals of this process and its orphaned descendants: see [`unrack_paging`]. Therefore a process that
//! has other children or threads lets the command `unrack` make the runs, for questions about pages: [`RunsPlace::Command`]. Instrumented
//! runs and swap need a process that does nothing else.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use unrack_compare::{ComparisonQuestion, QuestionCaller, StepProgress};
//!
//! struct Steps;
//!
//! impl StepProgress for Steps {
//!     fn begin(&self, step: &str) {
//!         eprintln!("{step}");
//!     }
//! }
//!
//! # fn main() -> Result<(), unrack_compare::Error> {
//! let question = ComparisonQuestion {
//!     nodes: 32,
//!     ..ComparisonQuestion::of(vec!["sort".into(), "big.txt".into()])
//! };
//! let cancel = AtomicBool::new(false);
//! let answer = question.ask(QuestionCaller::here(&Steps, &cancel))?;
//! println!("{}", answer.report.display());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod asking;
mod budget;
mod compare;
mod error;
mod folder;
mod left;
mod lines;
mod load;
mod map;
mod run;
mod runs;
mod steps;
mod swap;

pub use asking::{QuestionCaller, RunsPlace, StepProgress, TimeLeft};
pub use budget::parse_budget;
pub use compare::question::{ComparisonQuestion, compared_fabric};
pub use compare::rack::ComparedRack;
pub use compare::{ComparisonAnswer, ComparisonFound};
pub use error::Error;
pub use lines::calibration::measure_machine;
pub use lines::native::run as native_run;
pub use lines::placed::PlacementRule;
pub use lines::question::{AskedPlacements, LinesQuestion};
pub use map::question::{MapAnswer, MapQuestion};
pub use run::answer::{RunAnswer, size_text};
pub use run::asked::AskedDelay;
pub use run::borrow::{BorrowAnswer, BorrowQuestion};
pub use run::question::RunQuestion;
pub use runs::apart::{PARENT_VARIABLE, RUNS_VERB};
pub use runs::serve::serve_runs;
pub use swap::answer::{PredictedSwap, SwapAnswer, Swapped};
pub use swap::cost::{FaultCost, SWAP_TOUCH_VERB, Touches};
pub use swap::question::SwapQuestion;
