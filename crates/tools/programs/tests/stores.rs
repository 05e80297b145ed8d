//! YCSB on stores of its own: the same in each run, and what the workloads ask for.

use clap::Parser;
use unrack_programs::{Cli, ProgramError};
use unrack_testing::{TestRequirement, skip};

fn run(words: &str) -> Result<String, ProgramError> {
    Cli::parse_from(["unrack-programs"].into_iter().chain(words.split_whitespace())).run()
}

/// Runs a command line; `None` if the store is not installed.
fn done(words: &str) -> Option<String> {
    match run(words) {
        Err(why @ ProgramError::Lacking { .. }) => {
            skip(TestRequirement::Stores, why);
            None
        }
        result => Some(result.unwrap()),
    }
}

#[test]
fn each_run_reads_the_same() {
    for store in ["redis", "memcached"] {
        for (connections, seed) in [(1, 1), (16, 1), (7, 3)] {
            let words = format!(
                "ycsb {store} --records 300 --operations 200 --connections {connections} --seed {seed}"
            );
            let Some(text) = done(&words) else { return };
            assert_eq!(done(&words).unwrap(), text);
            let workloads = if store == "redis" { "abcfde" } else { "abcfd" };
            assert!(
                text.starts_with(&format!("{store}: 300 records, workloads {workloads} of 200")),
                "{text}"
            );
        }
    }
}

#[test]
fn reads_are_of_whole_records() {
    for store in ["redis", "memcached"] {
        let Some(text) = done(&format!("ycsb {store} --records 100 --operations 500 --workload c")) else {
            return;
        };
        assert!(text.ends_with("500 records and 500000 bytes read"), "{text}");
        let text = done(&format!("ycsb {store} --records 100 --operations 500 --workload c,c")).unwrap();
        assert!(text.ends_with("1000 records and 1000000 bytes read"), "{text}");
    }
}

/// A scan reads as many records as there are from its first on, at most 100.
#[test]
fn scans_read_many_records() {
    let Some(text) = done("ycsb redis --records 2000 --operations 200 --workload e") else { return };
    let records: u64 = text.rsplit(' ').nth(5).unwrap().parse().unwrap();
    assert!((190 * 30..190 * 55).contains(&records), "{text}");
}

#[test]
fn a_store_without_scans_refuses_them() {
    let why = run("ycsb memcached --workload e").unwrap_err().to_string();
    assert_eq!(why, "memcached does not support workload e, because it has no scans");
}

#[test]
fn components_are_not_computed_on_a_dataflow() {
    let why = run("graph components --by dataflow --size 1").unwrap_err().to_string();
    assert!(why.contains("give --by threads"), "{why}");
}
