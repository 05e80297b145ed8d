//! Charts as SVG: one builder for the page and for `.svg` files.
//!
//! The crate does not use plotters, because the SVG of plotters has no classes, no titles, and no colour scheme that follows the reader's.
//! Therefore its marks could not be explained under the pointer, found by a test, or printed in black on white from a dark page. Little
//! code is needed here: two kinds of axis, lines, bands, dots and cells.
//!
//! | part | job |
//! |---|---|
//! | [`ChartAxis`] | values to positions, ticks |
//! | [`Plot`] | the frame: axes, grid, labels, legend; positions on the page |
//! | [`ChartData`] | the values shown, and the Vega-Lite specification made from them (`vega`) |
//! | [`PlacedLabels`] | positions of labels, so that they do not overlap |
//! | [`Picture`] | a finished picture in two widths, inline or as a separate file |
//! | [`style`] | colours, fonts and strokes, light and dark |

mod axis;
mod data;
mod figure;
mod labels;
mod legend;
mod plot;
pub(crate) mod style;
mod vega;

pub(crate) use axis::ChartAxis;
pub(crate) use data::{AxisPosition, AxisRange, AxisScale, ChartData, MarkShape, ScaleKind, ShownValue};
pub use figure::Picture;
pub(crate) use figure::{Drawing, WIDE};
pub(crate) use labels::{PlacedLabels, fitted};
pub(crate) use legend::{Key, legend};
pub(crate) use plot::{Ink, Plot, text_width, value_at};
