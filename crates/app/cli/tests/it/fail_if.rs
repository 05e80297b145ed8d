//! `--fail-if`: limits on results.

use crate::{common, desk};

use common::Lab;
use desk::{Desk, example, stderr, stdout};
use std::ffi::OsStr;

const FEW: [&str; 2] = ["--set", "workload.messages=2000"];

#[test]
fn a_simulation_beyond_its_limit_ends_with_1_and_one_line() {
    let desk = Desk::new("fail-if-sim");
    let star = example("star-edm.toml");
    // A load at which so short a run has no link that is busy all the time, which would be warned of.
    let run = |limit: &str| {
        let load = ["--set", "workload.load=0.2"];
        desk.unrack(
            &[&["sim", &star, FEW[0], FEW[1], "--json", "--out", "run", "--fail-if", limit], &load[..]]
                .concat(),
        )
    };
    let within = run("slowdown.p99>1000 or completed<messages");
    assert_eq!((within.status.code(), stderr(&within).lines().count()), (Some(0), 1), "{}", stderr(&within));
    let beyond = run("slowdown.p99>1");
    let (result, said) = (stdout(&beyond), stderr(&beyond));
    assert_eq!(beyond.status.code(), Some(1), "{said}");
    let p99 = serde_json::from_str::<serde_json::Value>(&result).unwrap()["slowdown"]["p99"].clone();
    assert!(
        said.ends_with(&format!("unrack: --fail-if 'slowdown.p99>1' holds: slowdown.p99 is {p99}\n")),
        "{said}"
    );
    assert!(std::path::Path::new(&desk.path("run/manifest.json")).exists(), "results are kept");
    // No message counts: without a figure, there is no proof that it is within its limit.
    let none = ["--set", "workload.warm_up=2000", "--fail-if", "slowdown.p99>1000"];
    let unknown = desk.unrack(&[&["sim", &star, FEW[0], FEW[1]], &none[..]].concat());
    assert!(matches!(unknown.status.code(), Some(1 | 2)), "{}", stderr(&unknown));
}

#[test]
fn a_limit_on_nothing_is_refused_before_anything_runs() {
    let desk = Desk::new("fail-if-refused");
    let star = example("star-edm.toml");
    for (limit, why) in [
        ("slowdwon.p99>3", "did you mean `slowdown`"),
        ("slowdown.p99>5us", "number without a unit"),
        ("slowdown.p99", "compared with nothing"),
    ] {
        for verb in ["sim", "sweep"] {
            let said = desk.refused(2, &[verb, &star, "--out", "run", "--fail-if", limit]);
            assert!(said.contains(why), "{said}");
            assert!(!std::path::Path::new(&desk.path("run")).exists());
        }
    }
    let lab = Lab::new("fail-if-program");
    let mark = lab.path("mark");
    let refused = |limit: &str| {
        let (out, fabric) = (lab.path("out"), "edm,cxl");
        let options: [&dyn AsRef<OsStr>; 7] =
            [&"compare", &"--out", &out, &"--fabric", &fabric, &"--fail-if", &limit];
        let output = lab.unrack(&[&options[..], &[&"--", &"touch", &mark]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", common::stderr(&output));
        assert!(!mark.exists());
        common::stderr(&output)
    };
    assert!(refused("fabrics.dctcp.slowdown>1.05").contains("`fabrics` has no `dctcp`"));
    assert!(refused("fabrics.edm.slowdonw>1.05").contains("did you mean `slowdown"));
}

#[test]
fn one_point_beyond_its_limit_fails_a_sweep() {
    let desk = Desk::new("fail-if-sweep");
    let star = example("star-edm.toml");
    let run = |limit: &str| {
        let grid = ["--set", "workload.load=0.1,0.8", "--seeds", "1..2", "--out", "run", "--fail-if", limit];
        desk.unrack(&[&["sweep", &star, FEW[0], FEW[1]], &grid[..]].concat())
    };
    assert_eq!(run("slowdown.p99>1000").status.code(), Some(0));
    let p99 = |n: usize| {
        let sweep: unrack_record::Sweep = unrack_record::read_json(desk.path("run/sweep.json")).unwrap();
        sweep.points[n].figures.slowdown_p99.unwrap()
    };
    assert!(p99(1) < p99(2) && p99(2) != p99(3));
    // A limit between the light load and the heavy one holds for kept points, too.
    let limit = format!("slowdown.p99>{}", (p99(1).max(p99(0)) + p99(2).min(p99(3))) / 2.0);
    let output = run(&limit);
    let last = stderr(&output).lines().last().unwrap_or_default().to_string();
    assert_eq!(output.status.code(), Some(1), "{last}");
    let first =
        format!("first at workload.messages=2000 workload.load=0.8 seed=1: slowdown.p99 is {}", p99(2));
    assert!(
        last.contains(&format!("'{limit}' holds at 2 of 4 points, ")) && last.ends_with(&first),
        "{last}"
    );
}

#[test]
fn a_comparison_beyond_its_limit_ends_with_1() {
    let lab = Lab::new("fail-if-compare");
    let out = lab.path("out");
    let work =
        "d = bytearray(8 << 20)\nfor i in range(0, len(d), 4096): d[i] = 1\nimport time\ntime.sleep(0.1)\n";
    let options = ["--repeat=1", "--transfers=2000", "--nodes=4", "--local=40%", "--fabric=edm", "--json"];
    let mut arguments: Vec<&dyn AsRef<OsStr>> =
        vec![&"compare", &"--out", &out, &"--fail-if", &"native.median_s>1us"];
    arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
    arguments.extend([&"--" as &dyn AsRef<OsStr>, &"python3", &"-c", &work]);
    // A machine that seems idle: of a busy one, no native time may be stated.
    let output = lab.command(&arguments).env("UNRACK_PROC", lab.proc(0)).output().unwrap();
    let said = common::stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--fail-if 'native.median_s>1us' holds: native.median_s is "), "{said}");
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(object["machine"]["wall_s"].as_f64() > object["native"]["median_s"].as_f64(), "{object}");
    let simulated = object["fabrics"][0]["simulation"].as_object().unwrap();
    assert!(
        !simulated.contains_key("wall_s") && !simulated.contains_key("packet_hops_per_s"),
        "{simulated:?}"
    );
}
