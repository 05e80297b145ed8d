//! `unrack sweep`: kept points, and results that do not depend on how it was run.

use crate::desk;

use desk::{Desk, example};
use std::process::{Command, Stdio};
use unrack_record::{Sweep, read_json, write_json};

/// A grid of two fabrics, two loads and two seeds: 8 points.
fn grid(out: &str) -> Vec<String> {
    let star = example("star-edm.toml");
    let words = ["sweep", &star, "--set", "fabric.protocol=edm,ideal", "--set", "workload.load=0.2,0.6"];
    let more = ["--set", "workload.messages=3000", "--seeds", "1..2", "--out", out];
    words.iter().chain(&more).map(|word| word.to_string()).collect()
}

fn run(desk: &Desk, out: &str, more: &[&str]) -> String {
    let words = grid(out);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
    desk.done(&words)
}

fn kept(desk: &Desk, out: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(desk.path(&format!("{out}/points"))).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_same_bytes_on_any_number_of_threads_and_those_of_single_runs() {
    let desk = Desk::new("sweep-threads");
    let text = run(&desk, "one", &["--threads", "1"]);
    assert_eq!(text, run(&desk, "four", &["--threads", "4"]));
    for file in ["sweep.json", "sweep.parquet", "sweep-mean.svg", "sweep-p99.svg"] {
        assert_eq!(desk.bytes(&format!("one/{file}")), desk.bytes(&format!("four/{file}")), "{file}");
    }
    let sweep: Sweep = read_json(desk.path("one/sweep.json")).unwrap();
    assert_eq!(sweep.keys, ["fabric.protocol", "workload.load", "seed"]);
    assert_eq!(sweep.points.len(), 8);
    assert_eq!(sweep.points[5].values, ["ideal", "0.2", "2"]);
    let star = example("star-edm.toml");
    let point = &sweep.points[3];
    let sets = ["workload.load=0.6", "workload.messages=3000", "seed=2"];
    let mut words = vec!["sim", star.as_str(), "--json"];
    sets.iter().for_each(|set| words.extend(["--set", *set]));
    let alone: serde_json::Value = serde_json::from_str(&desk.done(&words)).unwrap();
    assert_eq!(point.values, ["edm", "0.6", "2"]);
    assert_eq!(alone["slowdown"]["p99"].as_f64(), point.figures.slowdown_p99);
    assert_eq!(alone["packet_hops"].as_u64(), Some(point.figures.packet_hops));
}

#[test]
fn a_sweep_goes_on_where_it_was_killed() {
    let desk = Desk::new("sweep-killed");
    let whole = run(&desk, "whole", &[]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_unrack"))
        .args(grid(&desk.path("killed")))
        .args(["--threads", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let some = || std::fs::read_dir(desk.path("killed/points")).is_ok_and(|entries| entries.count() > 2);
    while !some() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = kept(&desk, "killed");
    let done: Vec<_> = before.iter().filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    let written: Vec<_> = done.iter().map(|path| path.metadata().unwrap().modified().unwrap()).collect();
    assert!(!done.is_empty());
    assert_eq!(run(&desk, "killed", &[]), whole);
    // Finished points are not run again.
    let still: Vec<_> = done.iter().map(|path| path.metadata().unwrap().modified().unwrap()).collect();
    assert_eq!(still, written);
    assert_eq!(desk.bytes("killed/sweep.json"), desk.bytes("whole/sweep.json"));
}

#[test]
fn all_points_are_checked_before_the_first_runs() {
    let desk = Desk::new("sweep-refused");
    let star = example("star-edm.toml");
    let said = |more: &[&str]| desk.refused(2, &[&["sweep", star.as_str(), "--out", "out"], more].concat());
    let wrong = said(&["--set", "workload.load=0.5,1.5"]);
    assert!(wrong.contains("workload.load=1.5") && !wrong.contains("at workload.load=0.5"), "{wrong}");
    assert!(said(&["--set", "workload.lod=0.5,0.6"]).contains("did you mean `load`"));
    assert!(said(&["--seeds", "3..1"]).contains("FIRST..LAST"));
    assert!(!std::path::Path::new(&desk.path("out")).exists());
}

/// Points that another build of the same version has kept are run again; only those of this build are trusted.
#[test]
fn a_point_of_another_build_is_not_handed_out() {
    let desk = Desk::new("sweep-stale");
    let star = example("star-edm.toml");
    let words = ["sweep", &star, "--set", "workload.messages=3000", "--seeds", "1..2", "--out", "out"];
    let whole = desk.done(&words);
    let spoil = |sources: Option<&str>| {
        for path in kept(&desk, "out") {
            let mut point: serde_json::Value = read_json(&path).unwrap();
            point["result"]["slowdown"]["mean"] = 99.0.into();
            if let Some(sources) = sources {
                point["key"]["sources"] = sources.into();
            }
            write_json(&path, &point).unwrap();
        }
    };
    spoil(None);
    assert_ne!(desk.done(&words), whole, "this build's points are trusted");
    spoil(Some("0123456789abcdef"));
    assert_eq!(desk.done(&words), whole);
}

/// Files of a sweep's table, which do not depend on how it was run.
const TABLE: [&str; 4] = ["sweep.json", "sweep.parquet", "sweep-mean.svg", "sweep-p99.svg"];

#[test]
fn parts_make_the_table_of_the_whole_in_folders_of_their_own_and_in_one() {
    let desk = Desk::new("sweep-parts");
    let whole = run(&desk, "whole", &[]);
    for of in [1, 3, 11] {
        let folders: Vec<String> = (1..=of).map(|part| format!("part-{part}-{of}")).collect();
        for (part, folder) in (1..=of).zip(&folders) {
            assert_eq!(run(&desk, folder, &["--part", &format!("{part}/{of}")]), "");
            run(&desk, &format!("shared-{of}"), &["--part", &format!("{part}/{of}")]);
            assert!(!std::path::Path::new(&desk.path(&format!("{folder}/sweep.json"))).exists());
        }
        let merge = |folders: &[&str], out: &str| {
            desk.done(&[&["sweep", "merge"], folders, &["--out", out]].concat())
        };
        let folders: Vec<&str> = folders.iter().map(String::as_str).rev().collect();
        let (own, shared) = (format!("own-{of}"), format!("one-{of}"));
        assert_eq!(merge(&folders, &own), whole);
        assert_eq!(merge(&[&format!("shared-{of}")], &shared), whole);
        for file in TABLE {
            assert_eq!(desk.bytes(&format!("whole/{file}")), desk.bytes(&format!("{own}/{file}")), "{file}");
            assert_eq!(
                desk.bytes(&format!("whole/{file}")),
                desk.bytes(&format!("{shared}/{file}")),
                "{file}"
            );
        }
    }
    // A merged folder is that of a sweep: the same command has nothing left to run, and says the same.
    let before = kept(&desk, "own-3");
    let times = |files: &[std::path::PathBuf]| -> Vec<_> {
        files.iter().map(|file| file.metadata().unwrap().modified().unwrap()).collect()
    };
    let at = times(&before);
    assert_eq!(run(&desk, "own-3", &[]), whole);
    assert_eq!(times(&before), at);
}

#[test]
fn a_part_that_is_missing_is_named_and_parts_of_two_sweeps_are_refused() {
    let desk = Desk::new("sweep-parts-missing");
    for part in [1, 3] {
        run(&desk, &format!("p{part}"), &["--part", &format!("{part}/4")]);
    }
    let said = desk.refused(1, &["sweep", "merge", "p1", "p3", "--out", "merged"]);
    assert!(said.contains("4 of 8 points are missing"), "{said}");
    assert!(said.contains("seed=2") && said.contains("run part 2, 4 of 4 again"), "{said}");
    assert!(!std::path::Path::new(&desk.path("merged/sweep.json")).exists());
    run(&desk, "other", &["--part", "2/4", "--set", "network.mtu=9000B"]);
    let said = desk.refused(2, &["sweep", "merge", "p1", "other", "--out", "merged"]);
    assert!(said.contains("parts of two sweeps"), "{said}");
    std::fs::create_dir(desk.path("empty")).unwrap();
    let said = desk.refused(2, &["sweep", "merge", "p1", "empty", "--out", "merged"]);
    assert!(said.contains("empty has no part of a sweep"), "{said}");
    let said = desk.refused(2, &["sweep", "merge", "p1", "nowhere", "--out", "merged"]);
    assert!(said.contains("nowhere"), "{said}");
    desk.file("p1/part-9-of-9.json", "{");
    let said = desk.refused(2, &["sweep", "merge", "p1", "--out", "merged"]);
    assert!(said.contains("part-9-of-9.json"), "{said}");
    for wrong in ["0/4", "5/4", "x", "1/"] {
        let words = grid("wrong");
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["--part", wrong]).collect();
        let said = desk.refused(2, &words);
        assert!(said.contains("such as 2/4"), "{said}");
    }
}

/// A part and a merge remove the table in their folder, so they are refused as a sweep is if that has points which they lack.
#[test]
fn parts_and_merges_keep_the_table_of_another_sweep() {
    let desk = Desk::new("sweep-kept-table");
    run(&desk, "mine", &[]);
    let before = desk.bytes("mine/sweep.json");
    let other = ["--set", "network.mtu=9000B", "--threads", "1"];
    run(&desk, "part", &[&other[..2], &["--part", "1/1"]].concat());
    let words = grid("mine");
    let asked = |more: &[&str]| {
        words.iter().map(String::as_str).chain(more.iter().copied()).collect::<Vec<_>>().join("\0")
    };
    let part = asked(&[&other[..], &["--part", "1/2"]].concat());
    let whole = asked(&other);
    let merge = ["sweep", "merge", "part", "--out", "mine"].join("\0");
    for words in [part, whole, merge] {
        let said = desk.refused(2, &words.split('\0').collect::<Vec<_>>());
        assert!(said.contains("8 points that are not in this grid") && said.contains("--replace"), "{said}");
        assert_eq!(desk.bytes("mine/sweep.json"), before, "{words:?}");
    }
    desk.file("mine/sweep.json", "{");
    let said = desk.refused(2, &words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(said.contains("cannot read"), "{said}");
    desk.done(&["sweep", "merge", "part", "--out", "mine", "--replace"]);
    assert_ne!(desk.bytes("mine/sweep.json"), before);
}

/// A setting that never acted is named once for each fabric, and in the JSON of each point; a single run names it too.
#[test]
fn settings_that_never_acted_are_named() {
    let desk = Desk::new("sweep-notes");
    let star = example("star-dctcp.toml");
    let quiet = ["--set", "workload.messages=20", "--set", "workload.load=0.001"];
    let sim = [&["sim", &star][..], &quiet].concat();
    let text = desk.done(&sim);
    assert!(
        text.contains("note       dctcp ran as tcp: nothing was marked") && text.contains("[marks]"),
        "{text}"
    );
    let alone: serde_json::Value =
        serde_json::from_str(&desk.done(&[&sim[..], &["--json"]].concat())).unwrap();
    assert!(alone["notes"].as_array().unwrap().iter().any(|note| note["key"] == "marks"), "{alone}");
    let sweep =
        [&["sweep", &star][..], &quiet, &["--set", "fabric.protocol=dctcp,ideal", "--seeds", "1,2"]].concat();
    let text = desk.done(&[&sweep[..], &["--out", "out"]].concat());
    assert_eq!(text.matches("dctcp ran as tcp").count(), 1, "{text}");
    assert!(text.contains("(2 of 2 points of dctcp)"), "{text}");
    let sweep: Sweep = read_json(desk.path("out/sweep.json")).unwrap();
    let has = |point: &unrack_record::SweepPoint| point.notes.iter().any(|note| note.key == "marks");
    assert!(sweep.points.iter().all(|point| has(point) == (point.figures.fabric == "dctcp")));
}
