//! The figures of a report. Each module turns data into a [`Picture`](crate::Picture).

mod cdf;
mod cells;
mod explain;
mod fetch_rate;
mod heat;
mod line_curve;
mod line_heat;
mod lines;
mod links;
mod map_lines;
mod messages;
mod near;
mod ranges;
mod ratio_map;
mod series;
mod slowdown;
mod sweep;

pub(crate) use cdf::completion_cdf;
pub use explain::explain_figure;
pub(crate) use fetch_rate::fetch_rate;
pub(crate) use heat::heat;
pub use heat::heat_of_programs;
pub(crate) use line_curve::line_curve;
pub(crate) use line_heat::line_heat;
pub(crate) use links::{link_queues, link_use};
pub(crate) use map_lines::map_lines;
pub(crate) use messages::{slowdown_by_size, slowdown_cdf};
pub(crate) use near::near_fabrics;
pub(crate) use ranges::{by_fabric, by_simulation};
pub use ratio_map::{RatioMap, RatioPanel};
pub use series::{ChartSeries, SeriesAxis, SeriesChart};
pub(crate) use slowdown::against_latency;
pub use sweep::sweep_figures;
