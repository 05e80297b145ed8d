//! Figures of R2C2 that follow from its formats, topologies, exact loads and rates.

mod arithmetic;
mod assignment;
mod intervals;
mod selection;
mod throughput;

use super::Computed;
use crate::run::Scale;

/// Fig. 2.
pub fn throughput() -> Computed {
    let named = |(routing, pattern, share)| (format!("{routing}.{pattern}"), share);
    throughput::all().into_iter().map(named).collect()
}

/// Figs. 3, 4 and 19; broadcasts and formats.
pub fn arithmetic() -> Computed {
    let all = [arithmetic::examples(), arithmetic::broadcast(), arithmetic::formats()];
    all.into_iter().flatten().map(|(name, value)| (name.into(), value)).collect()
}

/// Figs. 15 and 16.
pub fn intervals(scale: Scale) -> Computed {
    intervals::errors(scale).into_iter().collect()
}

/// Fig. 18.
pub fn selection(scale: Scale) -> Computed {
    selection::gains(scale).into_iter().collect()
}
