//! Figures of R2C2 that are computed from its formats, topologies, exact link loads and rates.

mod arithmetic;
mod assignment;
mod control;
mod emulation;
mod intervals;
mod recomputation;
mod selection;
mod throughput;

use crate::computed::Computed;
use crate::file::StudyScale;

/// Returns the values of fig. 2.
pub(super) fn throughput() -> Computed {
    let named = |(routing, pattern, share)| (format!("{routing}.{pattern}"), share);
    throughput::all().into_iter().map(named).collect()
}

/// Returns the values of figs. 3 and 4, the costs of broadcasts, and the limits of the formats.
pub(super) fn arithmetic() -> Computed {
    let all = [arithmetic::examples(), arithmetic::broadcast(), arithmetic::formats()];
    all.into_iter().flatten().map(|(name, value)| (name.into(), value)).collect()
}

/// Returns the values of fig. 7.
pub(super) fn emulation(scale: StudyScale) -> Computed {
    emulation::ratios(scale).into_iter().collect()
}

/// Returns the values of fig. 8.
pub(super) fn recomputation(scale: StudyScale) -> Computed {
    recomputation::shares(scale).into_iter().collect()
}

/// Returns the values of figs. 15 and 16.
pub(super) fn intervals(scale: StudyScale) -> Computed {
    intervals::errors(scale).into_iter().collect()
}

/// Returns the values of fig. 18.
pub(super) fn selection(scale: StudyScale) -> Computed {
    selection::gains(scale).into_iter().collect()
}

/// Returns the values of fig. 19.
pub(super) fn control(scale: StudyScale) -> Computed {
    let all = [arithmetic::controller(), control::measured(scale)];
    all.into_iter().flatten().map(|(name, value)| (name.into(), value)).collect()
}
