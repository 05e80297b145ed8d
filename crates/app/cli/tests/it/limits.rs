//! Limits of simulated time, memory, inputs and the disk: an error with its reason, and nothing half written.

use crate::desk::Desk;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const EDM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/star-edm.toml");
const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/drack-jobs.toml");

/// Returns status and messages of a command that has to end by itself without a panic.
fn ended(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.code(), said)
}

/// Runs a command under limits that the shell sets, such as `ulimit -v 100000`.
fn limited(limits: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let script = format!("{limits}; exec \"$@\"");
    let mut command = Command::new("bash");
    command
        .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_unrack")])
        .args(arguments)
        .env("RUST_BACKTRACE", "0");
    ended(&command.output().unwrap())
}

#[test]
fn a_load_for_which_simulated_time_is_too_short_is_refused_by_its_key() {
    let desk = Desk::new("limits-time");
    for load in ["1e-16", "1e-20", "1e-300", "5e-324"] {
        let output = desk.unrack(&[
            "sim",
            EDM,
            "--set",
            "workload.messages=1000",
            "--set",
            &format!("workload.load={load}"),
        ]);
        let (status, said) = ended(&output);
        assert_eq!(status, Some(2), "{said}");
        assert!(
            said.contains("workload.load: offers its messages within 106 days of simulated time"),
            "{said}"
        );
    }
}

#[test]
fn a_run_that_comes_to_the_end_of_simulated_time_says_when() {
    let desk = Desk::new("limits-end");
    // 5 us before the end, and a gigabyte takes 80 ms.
    let list = desk.file("late.csv", "src,dst,bytes,start_ns\n0,1,64,1\n0,1,1000000000,9223372036849000\n");
    let out = desk.path("run");
    let work = format!("workload={{kind=\"trace\",file={list:?}}}");
    let output = desk.unrack(&["sim", EDM, "--set", &work, "--out", &out]);
    let (status, said) = ended(&output);
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("workload.file: ends within 106 days") && said.contains("1 messages had finished by"),
        "{said}"
    );
    assert!(
        !Path::new(&out).join("manifest.json").exists() && !Path::new(&out).join("summary.json").exists()
    );
    let late = desk.file("later.csv", "src,dst,bytes,start_ns\n0,1,64,9223372036854776\n");
    let work = format!("workload={{kind=\"trace\",file={late:?}}}");
    let (status, said) = ended(&desk.unrack(&["sim", EDM, "--set", &work]));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("starts its messages within 106 days"), "{said}");
}

#[test]
fn hosts_for_which_the_rack_has_no_room_are_refused_at_once() {
    let desk = Desk::new("limits-hosts");
    let jobs = "workload.jobs=[{ hosts = 1000000000, pagerank = { scale = 4 } }]";
    let (status, said) = ended(&desk.unrack(&["scenario", "check", JOBS, "--set", jobs]));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("hosts: 1000000000 is outside 2 to 8, 8 nodes with room for 1 each"), "{said}");
}

#[test]
fn memory_is_told_by_check_and_what_there_is_not_is_refused_by_its_key() {
    let desk = Desk::new("limits-memory");
    let output = desk.unrack(&["scenario", "check", EDM]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\nmemory: about ") && said.contains("(workload.messages)"), "{said}");
    // 300 M messages, and pairs of 65,536 nodes.
    for (set, key) in [
        ("workload.messages=300000000", "`workload.messages` (messages, 22.4 GiB)"),
        ("network.topology.nodes=65536", "`network.topology.nodes` (pairs of nodes, 100 GiB)"),
    ] {
        for verb in [&["sim", EDM][..], &["scenario", "check", EDM]] {
            let arguments: Vec<&str> = verb.iter().copied().chain(["--set", set]).collect();
            let (status, said) = limited("ulimit -v 8000000", &arguments);
            assert_eq!(status, Some(3), "{said}");
            assert!(said.contains(key) && said.contains("ulimit -v"), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

#[test]
fn samples_that_no_memory_holds_are_refused_or_end_the_run_with_the_reason() {
    let desk = Desk::new("limits-samples");
    let ports = desk.path("ports.parquet");
    let ports = ports.as_str();
    let sim = |set: &[&str]| {
        let mut arguments = vec!["sim", EDM, "--ports", ports, "--every", "1ps"];
        set.iter().for_each(|set| arguments.extend(["--set", set]));
        limited("ulimit -v 4000000", &arguments)
    };
    // 90 us of 288 links.
    let (status, said) = sim(&["workload.messages=1000000"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("`--every` (samples of links, "), "{said}");
    // The time of a collective is not known in advance.
    let work = "workload={ kind = \"collective\", operation = \"all-to-all\", size = \"100MB\" }";
    let (status, said) = sim(&[work, "network.topology.nodes=16"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("--every 1ps: the samples of links up to "), "{said}");
    assert!(!Path::new(ports).exists());
}

#[test]
fn an_allocation_that_is_refused_ends_with_the_reason_and_status_1() {
    let desk = Desk::new("limits-allocation");
    let out = desk.path("run");
    // So little that nothing can be relied on: either the need is refused beforehand, or an allocation later.
    for kib in [45_000, 60_000, 70_000] {
        let arguments = ["sim", EDM, "--set", "workload.messages=500000", "--out", &out];
        let (status, said) = limited(&format!("ulimit -v {kib}"), &arguments);
        match status {
            Some(1) => assert!(said.contains("unrack: out of memory: "), "{kib}: {said}"),
            Some(3) => assert!(said.contains("is left of the address space (ulimit -v)"), "{kib}: {said}"),
            status => panic!("{kib}: {status:?} {said}"),
        }
    }
}

#[test]
fn a_limit_of_address_space_that_the_pager_cannot_live_in_is_told() {
    let (status, said) = limited("ulimit -v 2000000", &["run", "--local", "4MiB", "--", "true"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("ulimit -v") && said.contains("address space"), "{said}");
}

/// Returns the status of a command with an input that never ends, or never begins: it must not take long.
fn at_once(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_unrack")]).args(arguments).stdin(Stdio::null());
    ended(&command.output().unwrap())
}

#[test]
fn what_is_no_file_is_refused_by_every_reader_at_once() {
    let desk = Desk::new("limits-kinds");
    let pipe = desk.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let folder = desk.path("run");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&pipe, Path::new(&folder).join("summary.json")).unwrap();
    for input in [pipe.as_str(), "/dev/zero"] {
        let trace = format!("workload={{kind=\"trace\",file={input:?}}}");
        let cdf = format!("workload.size={{cdf_file={input:?}}}");
        let graph = format!("network.topology={{kind=\"graph\",file={input:?}}}");
        let extending = desk.file("extends.toml", format!("extends = {input:?}\n"));
        for arguments in [
            &["scenario", "check", input][..],
            &["scenario", "check", &extending],
            &["sim", EDM, "--set", &trace],
            &["sim", EDM, "--set", &cdf],
            &["sim", EDM, "--set", &graph],
            &["phy", "encode", input],
            &["phy", "decode", input],
            &["phy", "trace", input],
            &["run", "--local", "4MiB", "--completions", input, "--", "true"],
            &["report", &folder, "-o", "/dev/null"],
        ] {
            let (status, said) = at_once(arguments);
            assert_eq!(status, Some(2), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn no_more_than_a_line_is_quoted_of_a_long_line() {
    let desk = Desk::new("limits-lines");
    let long = "x".repeat(4 << 20);
    let text = desk.file("long.txt", &long);
    let small = desk.file("small.toml", format!("seed = \"{}\"\n", "x".repeat(1 << 19)));
    let list = format!("workload={{kind=\"trace\",file={text:?}}}");
    let rows = desk.file("rows.csv", format!("src,dst,bytes,start_ns\n{long}\n"));
    let rows = format!("workload={{kind=\"trace\",file={rows:?}}}");
    let cdf = format!("workload.size={{cdf_file={text:?}}}");
    let graph = format!("network.topology={{kind=\"graph\",file={text:?}}}");
    let folder = desk.path("run");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(Path::new(&folder).join("summary.json"), format!("{{\"fabric\": {{\"{long}\": 1}}}}"))
        .unwrap();
    for arguments in [
        &["scenario", "check", &small][..],
        &["scenario", "check", &text],
        &["sim", EDM, "--set", &list],
        &["sim", EDM, "--set", &rows],
        &["sim", EDM, "--set", &cdf],
        &["sim", EDM, "--set", &graph],
        &["phy", "encode", &text],
        &["phy", "decode", &text],
        &["report", &folder, "-o", "/dev/null"],
    ] {
        let (status, said) = at_once(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {} characters", said.len());
        assert!(
            said.lines().all(|line| line.chars().count() <= 700),
            "{arguments:?}: {} characters",
            said.len()
        );
    }
}

#[test]
fn a_disk_that_is_full_leaves_nothing_half() {
    let desk = Desk::new("limits-disk");
    let out = desk.path("run");
    let arguments = ["sim", EDM, "--set", "workload.messages=20000", "--out", &out];
    // Blocks of 1 KiB: the tables have some hundred, the manifest two.
    for blocks in [1, 3, 40, 100] {
        let (status, said) = limited(&format!("ulimit -f {blocks}"), &arguments);
        assert_eq!(status, Some(1), "{blocks}: {said}");
        assert!(said.contains("cannot write ") && said.contains("too large"), "{blocks}: {said}");
        let left: Vec<_> = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".unrack-run"], "{blocks}");
    }
    let (status, said) = limited(":", &arguments);
    assert_eq!(status, Some(0), "{said}");
    assert!(Path::new(&out).join("manifest.json").exists());
}

#[test]
fn a_damaged_table_prints_no_panic() {
    let desk = Desk::new("limits-parquet");
    let out = desk.path("run");
    let made = desk.unrack(&["sim", EDM, "--set", "workload.messages=500", "--out", &out]);
    assert!(made.status.success());
    let good = std::fs::read(Path::new(&out).join("messages.parquet")).unwrap();
    let path = desk.path("damaged.parquet");
    let work = format!("workload={{kind=\"trace\",file={:?}}}", path);
    let step = good.len() / 60;
    for at in (0..good.len()).step_by(step.max(1)) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).unwrap();
        let (status, said) = at_once(&["sim", EDM, "--set", &work]);
        assert!(matches!(status, Some(0 | 2)), "byte {at}: {status:?} {said}");
        assert!(status == Some(0) || said.contains("workload.file"), "byte {at}: {said}");
    }
}

#[test]
fn a_report_of_a_damaged_folder_is_bad_input() {
    let desk = Desk::new("limits-report");
    let folder = desk.path("run");
    std::fs::create_dir(&folder).unwrap();
    let damaged = ["{", "[]", "{\"fabric\": 1}", "{\"injection\": {}}", "\0"];
    for summary in damaged {
        std::fs::write(Path::new(&folder).join("summary.json"), summary).unwrap();
        let (status, said) = at_once(&["report", &folder, "-o", "/dev/null"]);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("summary.json"), "{said}");
    }
}
