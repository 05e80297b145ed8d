//! Charts as SVG: one builder for the page and for `.svg` files.
//!
//! Why not plotters: its SVG has neither classes nor titles nor a colour scheme that follows the reader's. So its
//! marks could not be explained under the pointer, found by a test, or printed in black on white from a dark page.
//! Little is needed here: two kinds of axis, lines, bands, dots and cells.
//!
//! | part | job |
//! |---|---|
//! | [`Axis`] | values to positions, ticks |
//! | [`Plot`] | the frame: axes, grid, labels, legend; positions on the page |
//! | [`ChartData`] | the values shown, and the Vega-Lite specification made from them (`vega`) |
//! | [`Labels`] | places of labels, none of which covers another |
//! | [`Picture`] | a finished picture in two widths, inline or as a file of its own |
//! | [`style`] | colours, fonts and strokes, light and dark |

mod axis;
mod data;
mod figure;
mod labels;
mod legend;
mod plot;
pub(crate) mod style;
mod vega;

pub(crate) use axis::Axis;
pub(crate) use data::{ChartData, Place, Range, Scale, ScaleKind, Shape, Shown};
pub use figure::Picture;
pub(crate) use figure::{Drawing, WIDE};
pub(crate) use labels::{Labels, fitted};
pub(crate) use legend::{Key, legend};
pub(crate) use plot::{Ink, Plot, text_width, value_at};
