//! `unrack sim`: the behaviour that programs rely on.

use crate::desk;

use desk::{Desk, example, stderr, stdout};
use serde_json::Value;
use unrack_record::{completions, messages, trace};

/// Enough messages for a distribution, and soon over.
const FEW: [&str; 2] = ["--set", "workload.messages=20000"];
const STATISTICS: [&str; 6] = ["mean", "p50", "p95", "p99", "p999", "max"];

fn json(desk: &Desk, arguments: &[&str]) -> Value {
    let text = desk.done(&[&["sim", "--json"], arguments].concat());
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

#[test]
fn the_object_has_every_field_of_the_contract() {
    let desk = Desk::new("contract");
    let star = example("star-edm.toml");
    let object = json(&desk, &[&[star.as_str()], &FEW[..]].concat());
    let numbers = [
        "nodes",
        "messages",
        "completed",
        "dropped",
        "throughput_gbps",
        "sim_time_ns",
        "events",
        "packet_hops",
        "seed",
    ];
    assert!(numbers.iter().all(|field| object[field].is_number()), "{object}");
    let machine = &object["machine"];
    assert!(["wall_s", "packet_hops_per_s"].iter().all(|field| machine[field].is_number()), "{machine}");
    let kinds = ["read", "write"].map(|kind| &object["by_kind"][kind]);
    for one in [&object, kinds[0], kinds[1]] {
        for field in STATISTICS {
            assert!(one["slowdown"][field].as_f64().unwrap() >= 1.0, "{field}: {object}");
            assert!(one["completion_ns"][field].as_f64().unwrap() > 200.0, "{field}: {object}");
        }
    }
    assert!(["mean", "p99", "max"].iter().all(|field| object["queue_bytes"][field].is_number()), "{object}");
    assert_eq!((object["fabric"].as_str(), object["nodes"].as_u64()), (Some("edm"), Some(144)));
    assert_eq!((object["messages"].as_u64(), object["completed"].as_u64()), (Some(20_000), Some(20_000)));
    assert_eq!(object["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
}

#[test]
fn every_example_without_a_trace_runs() {
    let desk = Desk::new("examples");
    let mut found = 0;
    for entry in std::fs::read_dir(example(".")).unwrap() {
        let path = entry.unwrap().path();
        let is_scenario = path.extension().is_some_and(|ending| ending == "toml");
        let text = if is_scenario { std::fs::read_to_string(&path).unwrap() } else { continue };
        if text.contains("[[host]]") {
            // Virtual machines, which have no network to simulate.
            continue;
        }
        if text.contains("kind = \"jobs\"") {
            assert!(desk.done(&["sim", path.to_str().unwrap()]).contains("communicating"));
        } else if !text.contains("kind = \"trace\"") {
            let mut arguments = vec!["sim", path.to_str().unwrap(), "--set", "workload.messages=300"];
            if text.contains("warm_up") {
                arguments.extend(["--set", "workload.warm_up=30", "--set", "workload.cool_down=30"]);
            }
            let table = desk.done(&arguments);
            assert!(table.contains("300"), "{table}");
            found += 1;
        }
    }
    assert!(found >= 2);
}

#[test]
fn values_are_replaced_and_the_last_one_counts() {
    let desk = Desk::new("set");
    let star = example("star-edm.toml");
    let set = ["--set", "seed=3", "--set", "fabric={protocol=\"ideal\"}", "--set", "seed=9"];
    let object = json(&desk, &[&[star.as_str()], &FEW[..], &set].concat());
    assert_eq!((object["fabric"].as_str(), object["seed"].as_u64()), (Some("ideal"), Some(9)));
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let desk = Desk::new("bytes");
    let star = example("star-edm.toml");
    for (folder, seed) in [("a", "seed=1"), ("b", "seed=1"), ("c", "seed=2")] {
        desk.done(&["sim", &star, FEW[0], FEW[1], "--set", seed, "--out", folder]);
    }
    for table in ["messages.parquet", "completions.parquet"] {
        let of = |folder: &str| desk.bytes(&format!("{folder}/{table}"));
        assert!(of("a") == of("b"), "{table} differs with the same seed");
        assert!(of("a") != of("c"), "{table} does not depend on the seed");
    }
}

#[test]
fn a_run_over_several_threads_is_the_same_run() {
    let desk = Desk::new("threads");
    let racks = example("leaf-spine-dctcp.toml");
    for threads in ["1", "2"] {
        let few = ["--set", "workload.messages=100"];
        desk.done(&["sim", &racks, few[0], few[1], "--threads", threads, "--out", threads]);
    }
    assert!(desk.bytes("2/messages.parquet") == desk.bytes("1/messages.parquet"));
    let of = |folder: &str| {
        let mut summary: Value =
            serde_json::from_slice(&desk.bytes(&format!("{folder}/summary.json"))).unwrap();
        summary["machine"] = Value::Null;
        summary
    };
    assert_eq!(of("2"), of("1"));
    let said = desk.refused(2, &["sim", &racks, "--threads", "99"]);
    assert!(said.contains("--threads") && said.contains("9 racks"), "{said}");
    let said = desk.refused(2, &["sim", &racks, "--threads", "2", "--explain", "1"]);
    assert!(said.contains("--threads"), "{said}");
}

#[test]
fn a_folder_holds_the_run_and_agrees_with_what_was_printed() {
    let desk = Desk::new("folder");
    let printed = json(&desk, &[&example("star-edm.toml"), FEW[0], FEW[1], "--out", "run"]);
    let summary: Value = serde_json::from_slice(&desk.bytes("run/summary.json")).unwrap();
    assert_eq!(printed, summary);
    let manifest: unrack_record::Manifest = serde_json::from_slice(&desk.bytes("run/manifest.json")).unwrap();
    let scenario = String::from_utf8(desk.bytes("run/scenario.toml")).unwrap();
    assert_eq!(manifest.scenario.as_deref(), Some(scenario.as_str()));
    assert_eq!(manifest.settings["set"][0], FEW[1]);

    let (meta, rows) = messages::read(desk.path("run/messages.parquet")).unwrap();
    assert_eq!((meta.fabric.as_str(), rows.len()), ("edm", 20_000));
    let mean = rows.iter().map(|row| row.slowdown).sum::<f64>() / rows.len() as f64;
    assert!((mean - summary["slowdown"]["mean"].as_f64().unwrap()).abs() < 1e-9);
    let (meta, pages) = completions::read(desk.path("run/completions.parquet")).unwrap();
    assert_eq!((meta.fabric.as_str(), meta.link_rate_bps), ("edm", 100_000_000_000));
    let of = |kind| pages.iter().filter(|page| page.kind == kind).count() as u64;
    assert_eq!(of(completions::Kind::Fetch), summary["by_kind"]["read"]["messages"]);
    assert_eq!(of(completions::Kind::WriteBack), summary["by_kind"]["write"]["messages"]);

    // The written file is the scenario: it gives the same run.
    let again = json(&desk, &["run/scenario.toml", "--out", "again"]);
    assert_eq!(again["slowdown"], summary["slowdown"]);
    assert!(desk.bytes("again/messages.parquet") == desk.bytes("run/messages.parquet"));
}

#[test]
fn a_bad_scenario_is_shown_with_its_line_and_leaves_earlier_results_alone() {
    let desk = Desk::new("bad");
    let star = example("star-edm.toml");
    desk.done(&["sim", &star, FEW[0], FEW[1], "--out", "run"]);
    let before = desk.bytes("run/summary.json");
    let text = std::fs::read_to_string(&star).unwrap();
    let line = text.lines().position(|line| line.starts_with("chunk")).unwrap() + 1;
    // An error found while parsing, and one found only by the fabric.
    for (bad, why) in [("chunkk = \"256B\"", "did you mean `chunk`"), ("chunk = \"100B\"", "multiple of 64B")]
    {
        let file = desk.file("bad.toml", text.replace("chunk = \"256B\"", bad));
        let said = desk.refused(2, &["sim", &file, "--out", "run"]);
        assert!(said.contains(why) && said.contains(&format!("bad.toml:{line}:")), "{said}");
        assert!(said.contains("^^^"), "{said}");
    }
    assert_eq!(desk.bytes("run/summary.json"), before);
    let said = desk.refused(2, &["sim", "absent.toml"]);
    assert!(said.contains("cannot read absent.toml"), "{said}");
    let said = desk.refused(2, &["sim", &star, "--set", "workload.load=7"]);
    assert!(said.contains("--set") && said.contains("workload.load=7"), "{said}");
}

#[test]
fn a_folder_of_something_else_is_refused_before_anything_runs() {
    let desk = Desk::new("foreign");
    std::fs::create_dir(desk.path("mine")).unwrap();
    desk.file("mine/summary.json", "mine");
    let said = desk.refused(2, &["sim", &example("star-edm.toml"), "--out", "mine"]);
    assert!(said.contains("not a run folder"), "{said}");
    assert_eq!(desk.bytes("mine/summary.json"), b"mine");
}

/// Writes a trace of one thread that fetches a page every 10 us, after 1 us of waiting.
fn capture(desk: &Desk, pages: u64) {
    let mut table = trace::Writer::create(desk.path("trace.parquet")).unwrap();
    for page in 0..pages {
        let (t_ns, kind) = (page * 10_000, trace::Kind::Fetch);
        let row = trace::Row { t_ns, thread: 0, page, kind, bytes: 4096, wait_ns: 1_000, overhead_ns: 0 };
        table.push(row).unwrap();
    }
    let meta = trace::Meta {
        program: "program".into(),
        command_line: vec!["program".into()],
        page_size: 4096,
        local_bytes: 1 << 20,
        footprint_bytes: 4 << 20,
        run_ns: pages * 10_000,
        native_ns: None,
    };
    table.finish(&meta).unwrap();
}

fn replay(desk: &Desk) -> String {
    desk.file("replay.toml", std::fs::read_to_string(example("trace-replay.toml")).unwrap())
}

#[test]
fn a_captured_program_is_replayed_on_every_blade() {
    let desk = Desk::new("captured");
    capture(&desk, 1_000);
    let object = json(&desk, &[&replay(&desk), "--set", "fabric.protocol=ideal"]);
    assert_eq!((object["messages"].as_u64(), object["program"]["replicas"].as_u64()), (Some(8_000), Some(8)));
    // 9 us of computing, then a page at 100 Gb/s: 327.68 ns, two links there and back, an address.
    let least = 9_000.0 + 327.68 + 4.0 * 10.0 + 0.64;
    let fetch = object["program"]["run_time_ns"].as_f64().unwrap() / 1_000.0;
    assert!((least - 10.0..least + 10.0).contains(&fetch), "{fetch} for {least}: {object}");
    let table = desk.done(&["sim", &replay(&desk)]);
    assert!(table.contains("mean of 8 copies"), "{table}");
}

#[test]
fn a_trace_that_is_cut_is_said_to_be() {
    let desk = Desk::new("cut");
    capture(&desk, 1_000);
    let output = desk.unrack(&["sim", &replay(&desk), "--json", "--transfers", "800"]);
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(object["messages"].as_u64(), Some(800));
    let said = stderr(&output);
    assert!(said.contains("replaying 100 of the trace's 1000 transfers on each of 8"), "{said}");
}

#[test]
fn lists_are_read_as_csv_and_from_another_runs_messages() {
    let desk = Desk::new("listed");
    let list = "src,dst,bytes,start_ns,kind\n0,1,64,0,read\n2,3,4096,5,write\n1,0,64,9,flow\n";
    desk.file("flows.csv", list);
    let file = |name: &str| format!("workload.file={name}");
    let first = json(&desk, &[&replay(&desk), "--set", &file("flows.csv"), "--out", "first"]);
    assert_eq!(
        (first["messages"].as_u64(), first["by_kind"]["flow"]["messages"].as_u64()),
        (Some(3), Some(1))
    );
    let again = json(&desk, &[&replay(&desk), "--set", &file("first/messages.parquet")]);
    assert_eq!(again["completion_ns"], first["completion_ns"]);
}

#[test]
fn a_trace_that_cannot_be_replayed_is_shown_where_it_is_named() {
    let desk = Desk::new("no-trace");
    let replay = replay(&desk);
    let said = desk.refused(2, &["sim", &replay]);
    assert!(said.contains("replay.toml:14:") && said.contains("No such file"), "{said}");
    for (content, why) in [
        (&b"PAR1 and then nothing of the kind"[..], "not a readable Parquet file"),
        (b"\xff\xfe", "UTF-8"),
        (b"a,b\n1,2\n", "src,dst,bytes,start_ns"),
        (b"src,dst,bytes,start_ns\n0,99,64,0\n", "nodes of the rack"),
    ] {
        desk.file("trace.parquet", content);
        let said = desk.refused(2, &["sim", &replay]);
        assert!(said.contains("workload.file") && said.contains(why), "{why}: {said}");
    }
}
