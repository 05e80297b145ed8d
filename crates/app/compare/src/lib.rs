//! What far memory does to a program: questions and answers, in process.
//!
//! A question is a plain struct. Its method `ask` runs the program, simulates, concludes, writes the run folder, and returns
//! plain data, from which both the JSON and the text of the command are made. [`Asking`] says where progress goes, and
//! cancels.
//!
//! | question | asks | answer |
//! |---|---|---|
//! | [`ComparisonQuestion`] | how much each fabric slows a program down with part of its memory remote | [`ComparisonAnswer`] |
//! | [`MapQuestion`] | its slowdown over latency, bandwidth and local share | [`MapAnswer`] |
//! | [`LinesQuestion`] | its slowdown by the latency of far memory, from its loads and stores | [`LinesSummary`](unrack_record::LinesSummary) |
//! | [`SwapQuestion`] | how far the predicted run time is from that under the kernel's swap | [`SwapAnswer`] |
//! | [`RunQuestion`] | how long it takes with part of its memory remote, by one run | [`RunAnswer`] |
//! | [`BorrowQuestion`] | what comes of a process that is there already | [`BorrowAnswer`] |
//!
//! | module | does |
//! |---|---|
//! | `asking`, `steps`, `left` | progress, cancellation, and the time that the steps to come take |
//! | `budget` | the time for all of it |
//! | `load` | other work on the machine: checked before the first run and beside each |
//! | `runs` | runs by pages, natively and at injected delays, and the line through them |
//! | `lines` | an instrumented run, the core model, and what both say |
//! | `compare`, `map`, `swap`, `run` | one question each |
//!
//! Two estimators state all times: by pages, the line of `runs`; by lines, the core model of `lines`.
//!
//! Runs of the program claim the signals of this process and its orphaned descendants: see [`unrack_paging`]. A process that has
//! other children or threads has the command make them, for questions about pages: [`RunsPlace::Command`]. Instrumented runs and
//! swap are for a process of their own.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use unrack_compare::{Asking, ComparisonQuestion, StepProgress};
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
//! let answer = question.ask(Asking::here(&Steps, &cancel))?;
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

pub use asking::{Asking, RunsPlace, StepProgress, TimeLeft};
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
pub use swap::answer::{Predicted, SwapAnswer, Swapped};
pub use swap::cost::{FaultCost, SWAP_TOUCH_VERB, Touches};
pub use swap::question::SwapQuestion;
