//! The rules of the simulator of EDM's authors (artifact `wegul/EDM`, folder `netsimu`), in a separate model, so that each rule can be
//! switched on alone.
//!
//! The rules and their parameters are facts that were read from `netsimu/src/edm.c` and `netsimu/include/params.h`, and from
//! `EDM-workload` of `wegul/EDM-tracegen`.
//!
//! | module | |
//! |---|---|
//! | [`trace`] | traffic as the authors' generator makes it |
//! | [`model`] | nodes, links and the switch, in slots of one block |
//! | [`counting`] | what the authors' average counts |
//! | [`cxl`] | the authors' CXL, with its own rules and average |

mod counting;
mod cxl;
mod model;
mod trace;

use crate::computed::Computed;
use crate::file::StudyScale;
use counting::Counting;
use cxl::CxlRules;
use model::{ModelRun, Rules, run};
use rayon::prelude::*;
use trace::{APPLICATIONS, SHORT_LOADS, Sizes, TraceDraw};

/// A set of rules and of ways to count, by the name that figures use.
const SETS: [(&str, Rules, Counting); 9] = [
    ("plain", Rules::PAPER, Counting::PLAIN),
    ("order", Rules { by_remaining: true, ..Rules::PAPER }, Counting::PLAIN),
    ("instant", Rules { instant: true, ..Rules::PAPER }, Counting::PLAIN),
    ("stepwise", Rules { stepwise: true, ..Rules::PAPER }, Counting::PLAIN),
    ("ideal", Rules::PAPER, Counting { roomy_ideal: true, ..Counting::PLAIN }),
    ("floor", Rules::PAPER, Counting { floor: true, ..Counting::PLAIN }),
    ("stop", Rules::PAPER, Counting { stops: true, ..Counting::PLAIN }),
    ("halves", Rules::PAPER, Counting { halves: true, ..Counting::PLAIN }),
    ("all", Rules::AUTHORS, Counting::AUTHORS),
];

/// Returns the mean slowdowns by all sets of rules for the applications, and by the authors' rules for short messages.
pub(super) fn values(scale: StudyScale) -> Computed {
    let (applications_run, rows, seeds) = match scale {
        StudyScale::Full => (&APPLICATIONS[..], trace::ROWS, 2),
        StudyScale::Quick => (&APPLICATIONS[..1], 100, 1),
    };
    let mut values = applications(applications_run, rows, seeds);
    values.extend(short(trace::ROWS, 10));
    values.extend(of_cxl(applications_run, rows, seeds));
    values
}

/// Returns, for each set of rules, the least, mean and greatest of the five applications' mean slowdowns, and the mean by the authors' rules
/// without other traffic.
fn applications(names: &[&'static str], rows: usize, seeds: u64) -> Computed {
    let traffic = |application| TraceDraw {
        sizes: Sizes::Application(application),
        load: trace::APPLICATION_LOAD,
        writes: 0.5,
        rows,
    };
    let runs = names.iter().flat_map(|application| (1..=seeds).map(move |seed| (*application, seed)));
    let runs: Vec<(&str, u64)> = runs.collect();
    // The slowdown by each set, for each run. Sets with the same rules share the run.
    let slowdowns: Vec<Vec<f64>> = runs
        .par_iter()
        .map(|(application, seed)| {
            let rows = traffic(application).draw(*seed);
            let mut ran: Vec<(Rules, ModelRun)> = Vec::new();
            SETS.iter()
                .map(|(_, rules, counting)| {
                    if ran.iter().all(|(known, _)| known != rules) {
                        ran.push((*rules, run(&rows, *rules)));
                    }
                    let (_, ran) = ran.iter().find(|(known, _)| known == rules).expect("it was run");
                    counting.mean(ran, *rules).unwrap_or(f64::NAN)
                })
                .collect()
        })
        .collect();
    let mut values = Computed::new();
    for (set, (name, ..)) in SETS.iter().enumerate() {
        let seeds = seeds as usize;
        let of = |runs: &[Vec<f64>]| runs.iter().map(|run| run[set]).sum::<f64>() / seeds as f64;
        let means: Vec<f64> = slowdowns.chunks(seeds).map(of).collect();
        values.insert(format!("{name}_least"), means.iter().copied().fold(f64::MAX, f64::min));
        values.insert(format!("{name}_most"), means.iter().copied().fold(0.0, f64::max));
        values.insert(format!("{name}_mean"), means.iter().sum::<f64>() / means.len() as f64);
    }
    // Every message alone, by the authors' rules.
    let counting = Counting { stops: false, ..Counting::AUTHORS };
    let alone =
        traffic("hadoop").draw(1).into_iter().take(rows / 20).map(|row| [trace::Row { slot: 0, ..row }]);
    let ran: Vec<f64> =
        alone.filter_map(|row| counting.mean(&run(&row, Rules::AUTHORS), Rules::AUTHORS)).collect();
    values.insert("all_alone".into(), ran.iter().sum::<f64>() / ran.len() as f64);
    values
}

/// Returns the applications' mean slowdowns by the authors' CXL, and with each of its rules left out.
fn of_cxl(names: &[&'static str], rows: usize, seeds: u64) -> Computed {
    let authors = CxlRules::AUTHORS;
    let sets = [
        ("cxl", authors),
        ("cxl_in_turn", CxlRules { in_turn: true, ..authors }),
        ("cxl_whole_reads", CxlRules { halves: false, ..authors }),
        ("cxl_to_the_end", CxlRules { stops: false, ..authors }),
        ("cxl_alone", CxlRules { roomy_ideal: false, halves: false, ..authors }),
    ];
    let of_set = |(name, rules): &(&str, CxlRules)| {
        let mean = |application: &&'static str| {
            let sizes = Sizes::Application(application);
            let traffic = TraceDraw { sizes, load: trace::APPLICATION_LOAD, writes: 0.5, rows };
            let means: Vec<f64> =
                (1..=seeds).filter_map(|seed| cxl::mean(&traffic.draw(seed), *rules)).collect();
            means.iter().sum::<f64>() / means.len() as f64
        };
        let means: Vec<f64> = names.par_iter().map(mean).collect();
        [
            (format!("{name}_least"), means.iter().copied().fold(f64::MAX, f64::min)),
            (format!("{name}_mean"), means.iter().sum::<f64>() / means.len() as f64),
            (format!("{name}_most"), means.iter().copied().fold(0.0, f64::max)),
        ]
    };
    sets.par_iter().flat_map_iter(of_set).collect()
}

/// Returns the mean slowdowns of messages of 64 B by the authors' rules, and by the plain ones.
fn short(rows: usize, seeds: u64) -> Computed {
    let loads = SHORT_LOADS.into_iter().flat_map(|(label, load)| {
        [(format!("writes_{label}"), load, 1.0), (format!("reads_{label}"), load, 0.0)]
    });
    let at_80 = SHORT_LOADS[3].1;
    let mixes = [20, 50, 80].map(|share| (format!("mix_{share}"), at_80, f64::from(share) / 100.0));
    let points: Vec<(String, f64, f64)> = loads.chain(mixes).collect();
    let of_point = |(name, load, writes): &(String, f64, f64)| {
        let traffic = TraceDraw { sizes: Sizes::Line, load: *load, writes: *writes, rows };
        [("plain", Rules::PAPER, Counting::PLAIN), ("all", Rules::AUTHORS, Counting::AUTHORS)].map(
            |(set, rules, counting)| {
                (format!("{set}_{name}"), mean_slowdown(&traffic, rules, counting, seeds))
            },
        )
    };
    points.par_iter().flat_map_iter(of_point).collect()
}

fn mean_slowdown(traffic: &TraceDraw, rules: Rules, counting: Counting, seeds: u64) -> f64 {
    let of = |seed: u64| counting.mean(&run(&traffic.draw(seed), rules), rules);
    let means: Vec<f64> = (1..=seeds).filter_map(of).collect();
    means.iter().sum::<f64>() / means.len() as f64
}
