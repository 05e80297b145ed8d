//! Tables, charts and the one-file HTML report.
//!
//! | to | use |
//! |---|---|
//! | print a result in a terminal | [`comparison_text`], [`lines_text`], [`simulation_text`], [`map_text`], [`sweep_text`] |
//! | read run folders | [`RecordedRun::read`], [`ReportPage::read`] |
//! | make the page | [`ReportPage::html`], [`ReportPage::write`] |
//! | draw where a message spent its time | [`explain_figure`] |
//! | draw other lines, a sweep, or the maps of several programs | [`SeriesChart`], [`sweep_figures`], [`heat_of_programs`] |
//! | draw ratios over two settings | [`RatioMap`] |
//! | compare two run folders | [`Difference::between`] |
//! | export figures | [`ReportPage::figures`], [`write_svgs`] |
//!
//! The page is one file, which loads no fonts, scripts or other files; its content security policy makes the browser enforce that. All text
//! from outside (commands, scenarios, names) passes through one writer that escapes it, `markup`.
//!
//! Modules: `run` reads folders, `answer` and `needs` turn results into sentences, `figures` draws them with `chart`, `page` assembles the
//! page, `export` writes figures as files.
#![forbid(unsafe_code)]

mod answer;
mod chart;
mod difference;
mod distribution;
mod error;
mod explained;
mod export;
mod figures;
mod lines_answer;
mod lines_text;
mod links;
mod markup;
mod messages;
mod needs;
mod page;
mod run;
mod settings;
mod simulation;
mod table;
mod text;
mod words;

pub use chart::Picture;
pub use difference::{Difference, DifferenceSide, DifferentResult, DifferentText, Kind, Noise};
pub use distribution::{Cdf, FetchRate};
pub use error::ReportError;
pub use explained::{ExplainedMessage, ExplainedPart};
pub use export::write_svgs;
pub use figures::{
    ChartSeries, RatioMap, RatioPanel, SeriesAxis, SeriesChart, explain_figure, heat_of_programs,
    sweep_figures,
};
pub use lines_text::lines_text;
pub use links::{LinkOverTime, LinksOverTime};
pub use messages::{MessageSlowdowns, SizeSlowdown};
pub use page::ReportPage;
pub use run::{ComparedRun, LinesRun, RecordedRun, RunResult, SimulatedRun};
pub use simulation::{
    ExcludedMessages, KindOfMessage, QueueDepths, ReplayEffect, SimulationSummary, UnfinishedMessages,
};
pub use text::{comparison_text, map_text, simulation_text, sweep_text};
