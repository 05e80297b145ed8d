//! Studies: published results of papers, compared with the results of Unrack ("ours").
//!
//! A study is one file in `studies/`. It has scenarios as a grid, the published figures with their sources, and a remark
//! on each difference. Only figures that are computed instead of simulated need code.
//!
//! | module | does |
//! |---|---|
//! | [`mod@file`] | parses the file of a study |
//! | [`costs`] | replaces costs of a study by costs that were measured on a machine |
//! | [`grid`] | converts every point of a study's grids to a scenario |
//! | [`asked`], [`nics`] | compute results that a study requests in addition to the summary of a run, such as the use of NICs |
//! | [`run`] | runs the points on all cores, and stores the results of finished ones |
//! | [`computed`] | computes the figures that need no simulation |
//! | [`fluid`], [`random`] | flows without packets and random numbers, for computed figures |
//! | [`programs`] | predicts and measures real programs |
//! | [`declared`] | tolerances, causes and mechanisms to break, as files declare them |
//! | [`figure`], [`compared`] | compare published figures with ours, and hold the results |
//! | [`tolerance`], [`cause`] | what counts as the same, and why a figure differs |
//! | [`seeds`], [`stored`] | intervals over seeds, and the values of ours that later versions must keep |
//! | [`breaks`] | breaks mechanisms on purpose, and lists the figures that notice |
//! | [`page`], [`overview`] | write the page of results, and the table of all figures of the papers |
//! | [`charts`], [`maps`], [`timelines`] | draw charts with published points, ratios over two axes, and NICs over time |
//!
//! The same version gives the same results of a study on any number of cores. The exceptions are studies that measure
//! the machine; therefore they run only if the user names them.
#![forbid(unsafe_code)]

pub mod asked;
pub mod breaks;
pub mod cause;
pub mod charts;
pub mod compared;
pub mod computed;
pub mod costs;
pub mod declared;
mod error;
pub mod figure;
pub mod file;
pub mod fluid;
pub mod grid;
mod judge;
pub mod maps;
pub mod nics;
pub mod overview;
pub mod page;
pub mod programs;
pub mod random;
pub mod run;
pub mod seeds;
pub mod stored;
pub mod timelines;
pub mod tolerance;

pub use compared::{Compared, Verdict};
pub use error::StudyError;
pub use file::{Study, StudyScale};
pub use run::{Measured, StudyResults};

/// Studies that are built into the program: name and contents of the file.
const FILES: [(&str, &str); 36] = [
    ("edm/scheduler", include_str!("../../../../studies/edm/scheduler.toml")),
    ("edm/table1", include_str!("../../../../studies/edm/table1.toml")),
    ("edm/fig5-cycles", include_str!("../../../../studies/edm/fig5-cycles.toml")),
    ("edm/failures", include_str!("../../../../studies/edm/failures.toml")),
    ("edm/mac-limits", include_str!("../../../../studies/edm/mac-limits.toml")),
    ("edm/fig6", include_str!("../../../../studies/edm/fig6.toml")),
    ("edm/fig7", include_str!("../../../../studies/edm/fig7.toml")),
    ("edm/fig8a", include_str!("../../../../studies/edm/fig8a.toml")),
    ("edm/fig8b", include_str!("../../../../studies/edm/fig8b.toml")),
    ("edm/fig8-artifact", include_str!("../../../../studies/edm/fig8-artifact.toml")),
    ("ddc/table4", include_str!("../../../../studies/ddc/table4.toml")),
    ("ddc/fig7", include_str!("../../../../studies/ddc/fig7.toml")),
    ("ddc/programs", include_str!("../../../../studies/ddc/programs.toml")),
    ("ddc/spark", include_str!("../../../../studies/ddc/spark.toml")),
    ("ddc/fig8", include_str!("../../../../studies/ddc/fig8.toml")),
    ("ddc/fig9", include_str!("../../../../studies/ddc/fig9.toml")),
    ("ddc/table5", include_str!("../../../../studies/ddc/table5.toml")),
    ("r2c2/fig2", include_str!("../../../../studies/r2c2/fig2.toml")),
    ("r2c2/arithmetic", include_str!("../../../../studies/r2c2/arithmetic.toml")),
    ("r2c2/fig7", include_str!("../../../../studies/r2c2/fig7.toml")),
    ("r2c2/fig8", include_str!("../../../../studies/r2c2/fig8.toml")),
    ("r2c2/fig10", include_str!("../../../../studies/r2c2/fig10.toml")),
    ("r2c2/fig15", include_str!("../../../../studies/r2c2/fig15.toml")),
    ("r2c2/fig17", include_str!("../../../../studies/r2c2/fig17.toml")),
    ("r2c2/fig18", include_str!("../../../../studies/r2c2/fig18.toml")),
    ("r2c2/fig19", include_str!("../../../../studies/r2c2/fig19.toml")),
    ("drack/prototype", include_str!("../../../../studies/drack/prototype.toml")),
    ("drack/wiring", include_str!("../../../../studies/drack/wiring.toml")),
    ("drack/fig9", include_str!("../../../../studies/drack/fig9.toml")),
    ("drack/fig10", include_str!("../../../../studies/drack/fig10.toml")),
    ("drack/sensitivity", include_str!("../../../../studies/drack/sensitivity.toml")),
    ("drack/skew", include_str!("../../../../studies/drack/skew.toml")),
    ("drack/map", include_str!("../../../../studies/drack/map.toml")),
    ("drack/fig11", include_str!("../../../../studies/drack/fig11.toml")),
    ("drack/fig13", include_str!("../../../../studies/drack/fig13.toml")),
    ("trust/kernel-swap", include_str!("../../../../studies/trust/kernel-swap.toml")),
];

/// For each paper, the list of its figures and tables with the study of each. The key is the part of a study's name before `/`.
const LISTS: [(&str, &str); 1] = [("ddc", include_str!("../../../../studies/ddc/figures.md"))];

/// Returns all studies, in the order of the page of results.
///
/// # Errors
/// [`StudyError::File`] if the file of a study is invalid.
pub fn all() -> Result<Vec<Study>, StudyError> {
    FILES.iter().map(|(name, text)| Study::parse(name, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The DDC paper has figures 1 to 9 and tables 1 to 5.
    #[test]
    fn a_list_has_all_figures_and_all_studies_of_its_paper() {
        let rows = LISTS[0].1;
        for figure in 1..=9 {
            let is_there =
                ["Figure ", "Figures "].iter().any(|word| rows.contains(&format!("| {word}{figure}")));
            assert!(
                is_there || rows.contains("| Figures 3, 4, 5:") && (3..=5).contains(&figure),
                "figure {figure}"
            );
        }
        assert!((1..=5).all(|table| rows.contains(&format!("| Table {table}:"))), "{rows}");
        let named = |name: &str| rows.split(['|', ',']).any(|cell| cell.trim() == name);
        for (name, _) in FILES.iter().filter(|(name, _)| name.starts_with("ddc/")) {
            assert!(named(name), "{name} is not listed");
        }
    }
}
