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
use unrack_protocol::r2c2::{RateControl, Routing};
use unrack_units::Time;

/// Returns the values of fig. 2.
pub(super) fn throughput() -> Computed {
    let named = |(routing, pattern, share)| (format!("{routing}.{pattern}"), share);
    throughput::all().into_iter().map(named).collect()
}

/// Returns the values of fig. 2 if all flows take the route of their destination tag.
pub(super) fn one_routing() -> Computed {
    let shares = throughput::all();
    let of = |pattern: &str| {
        let is_it =
            |(routing, of, _): &&(Routing, &str, f64)| (*routing, *of) == (Routing::DestinationTag, pattern);
        shares.iter().find(is_it).map_or(f64::NAN, |(.., share)| *share)
    };
    shares.iter().map(|(routing, pattern, _)| (format!("{routing}.{pattern}"), of(pattern))).collect()
}

/// Returns the values of figs. 3 and 4, the costs of broadcasts, and the limits of the formats.
pub(super) fn arithmetic() -> Computed {
    arithmetic_of(0.0)
}

/// Returns the same values with this share of each link free in the examples of figs. 3 and 4.
pub(super) fn arithmetic_of(headroom: f64) -> Computed {
    let all = [arithmetic::examples(headroom), arithmetic::broadcast(), arithmetic::formats()];
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
    intervals::errors(scale, Time::from_us).into_iter().collect()
}

/// Returns the same values if rates are computed at each start and end of a flow instead of at intervals.
pub(super) fn no_intervals(scale: StudyScale) -> Computed {
    intervals::errors(scale, |_| Time::ZERO).into_iter().collect()
}

/// Returns the values of fig. 18.
pub(super) fn selection(scale: StudyScale) -> Computed {
    selection::gains(scale, true).into_iter().collect()
}

/// Returns the same values for routings that are drawn instead of searched.
pub(super) fn no_selection(scale: StudyScale) -> Computed {
    selection::gains(scale, false).into_iter().collect()
}

/// Returns the values of fig. 19.
pub(super) fn control(scale: StudyScale) -> Computed {
    control_of(scale, RateControl::Central)
}

/// Returns the same values for racks without a controller.
pub(super) fn no_controller(scale: StudyScale) -> Computed {
    control_of(scale, RateControl::Decentralized)
}

fn control_of(scale: StudyScale, control: RateControl) -> Computed {
    let all = [arithmetic::controller(), control::measured(scale, control)];
    all.into_iter().flatten().map(|(name, value)| (name.into(), value)).collect()
}
