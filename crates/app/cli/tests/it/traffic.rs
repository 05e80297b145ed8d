//! `unrack sim`: messages that count in the figures, and work that is refused before the run starts.

use crate::desk;

use desk::{Desk, example};
use serde_json::Value;
use unrack_record::{completions, messages};

fn json(desk: &Desk, arguments: &[&str]) -> Value {
    let text = desk.done(&[&["sim", "--json"], arguments].concat());
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// Returns these values, each with `--set` before it.
fn set<'a>(values: &[&'a str]) -> Vec<&'a str> {
    values.iter().flat_map(|value| ["--set", value]).collect()
}

#[test]
fn warm_up_and_cool_down_are_left_out_and_said_to_be() {
    let desk = Desk::new("margins");
    let star = example("star-edm.toml");
    let few = "workload.messages=20000";
    let all = json(&desk, &[&[star.as_str()], &set(&[few])[..]].concat());
    assert_eq!(all["excluded"], serde_json::json!({ "warm_up": 0, "cool_down": 0 }));

    let counted = [few, "workload.warm_up=4000", "workload.cool_down=1000"];
    let part = json(&desk, &[&[star.as_str()], &set(&counted)[..]].concat());
    assert_eq!(part["excluded"], serde_json::json!({ "warm_up": 4_000, "cool_down": 1_000 }));
    assert_eq!((part["messages"].as_u64(), part["completed"].as_u64()), (Some(20_000), Some(20_000)));
    assert_eq!(part["slowdown"]["count"].as_u64(), Some(15_000));
    // The network is empty at first: without that part, the mean is higher.
    assert!(part["slowdown"]["mean"].as_f64() > all["slowdown"]["mean"].as_f64(), "{part}");

    // The messages come within about 944 ns.
    let timed = [few, "workload.warm_up=200ns", "workload.cool_down=100ns"];
    let part = json(&desk, &[&[star.as_str()], &set(&timed)[..]].concat());
    let left_out = |key: &str| part["excluded"][key].as_u64().unwrap();
    let ratio = left_out("warm_up") as f64 / left_out("cool_down") as f64;
    assert!((1.8..2.2).contains(&ratio), "{part}");
    let kept = 20_000 - left_out("warm_up") - left_out("cool_down");
    assert_eq!(part["slowdown"]["count"].as_u64(), Some(kept));

    let table = desk.done(&[&["sim", &star], &set(&counted)[..]].concat());
    assert!(
        table.contains("15000 of 20000 messages; left out: 4000 of warm-up, 1000 of cool-down"),
        "{table}"
    );
}

#[test]
fn work_that_makes_no_sense_is_refused_where_it_is_written() {
    let desk = Desk::new("senseless");
    let star = example("star-edm.toml");
    for (value, why) in [
        ("workload.load=1.01", "outside 0% to 100%"),
        ("workload.rmw_fraction=60%", "at most 1 together"),
        ("workload.pattern={kind=\"rack-local\",fraction=0.5}", "no other rack"),
        ("workload.pattern={kind=\"incast\",fan_in=144}", "number of other nodes"),
        ("workload.pattern={kind=\"hot-spots\",exponent=9}", "from 0 to 4"),
        ("workload.arrivals={kind=\"log-normal\",sigma=0}", "above 0 and at most 3"),
        ("workload.blades={compute=140,memory=5}", "145 blades do not fit on 144 nodes"),
        ("workload.disk={fraction=0.5}", "needs blades of disk"),
        ("workload.warm_up=1ms", "leaves messages to be counted"),
        ("workload.cool_down=20000", "all 20000 messages are excluded"),
        ("network.topology={kind=\"fat-tree\",ports=7}", "7 is odd"),
        ("network.topology={kind=\"leaf-spine\",racks=0,hosts_per_rack=1,spines=1}", "0 is outside 1"),
        (
            "network.topology={kind=\"leaf-spine\",racks=999,hosts_per_rack=999,spines=1}",
            "998001 nodes is outside",
        ),
    ] {
        let few = "workload.messages=20000";
        let said = desk.refused(2, &[&["sim", &star], &set(&[few, value])[..]].concat());
        assert!(said.contains(why) && said.contains("-->") && said.contains('^'), "{value}: {said}");
    }
}

#[test]
fn a_file_that_is_no_distribution_is_shown_with_its_line() {
    let desk = Desk::new("distribution");
    let star = example("star-edm.toml");
    let sized = ["workload.messages=2000", "workload.size={cdf_file=\"sizes.toml\",unit=\"bytes\"}"];
    let arguments = [&["sim", &star], &set(&sized)[..]].concat();
    for (points, why) in [
        (
            "[64, 0.0],\n[128, 0.5],\n[256, 0.9],\n",
            "ends at probability 1, but is `sizes.toml`: 0.9 in line 4",
        ),
        ("[64, 0.0],\n[128, 0.5],\n[96, 1.0],\n", "rises in both columns"),
        ("[64, 0.5],\n[128, 0.4],\n[256, 1.0],\n", "in line 3"),
        ("[64, -0.1],\n[128, 1.0],\n", "probabilities from 0 to 1"),
        ("[0, 0.1],\n[128, 1.0],\n", "has probability 0 at size 0"),
        ("[64, 0.0],\n[128, 1.1],\n", "in line 3"),
        ("", "at least one point"),
        ("[64],\n", "holds `points = [[size, probability], ...]`"),
    ] {
        desk.file("sizes.toml", format!("points = [\n{points}]\n"));
        let said = desk.refused(2, &arguments);
        assert!(said.contains(why) && said.contains("workload.size"), "{points}: {said}");
    }
    desk.file("sizes.toml", "points = [[64, 0.0], [64, 0.5], [128, 1.0]]\n");
    assert_eq!(json(&desk, &arguments[1..])["completed"].as_u64(), Some(2_000));
}

#[test]
fn a_rack_of_any_cables_runs_whatever_forwards() {
    let desk = Desk::new("cables");
    let torus = example("torus-r2c2.toml");
    desk.file("cables.txt", "0 1\n1 2 40Gbps\n2 3\n3 0 5Gbps 300ns # slow and long\n1 4\n");
    let graph = "network.topology={ kind = \"graph\", file = \"cables.txt\" }";
    for protocol in ["r2c2", "pfq", "tcp", "dctcp", "ideal"] {
        let fabric = format!("fabric={{ protocol = \"{protocol}\" }}");
        let few = [graph, &fabric, "workload.messages=300", "workload.load=20%"];
        let run = json(&desk, &[&[torus.as_str()], &set(&few)[..]].concat());
        assert_eq!((run["nodes"].as_u64(), run["completed"].as_u64()), (Some(5), Some(300)), "{run}");
        assert!(run["slowdown"]["mean"].as_f64() >= Some(1.0), "{run}");
    }
    let said =
        desk.refused(2, &[&["sim", &torus], &set(&[graph, "fabric={ protocol = \"ndp\" }"])[..]].concat());
    assert!(said.contains("with switches"), "{said}");
    desk.file("cables.txt", "0 1\n1 2 40\n");
    let said = desk.refused(2, &[&["sim", &torus], &set(&[graph])[..]].concat());
    assert!(said.contains("`cables.txt`: line 2: ") && said.contains("network.topology.file"), "{said}");
}

#[test]
fn pareto_sizes_are_drawn_or_refused() {
    let desk = Desk::new("pareto");
    let star = example("star-dctcp.toml");
    let few = "workload.messages=2000";
    let sized = |size| [&[star.as_str()], &set(&[few, size])[..]].concat();
    let good = "workload.size={ pareto = 1.05, mean = \"20kB\", maximum = \"1MB\" }";
    assert_eq!(json(&desk, &sized(good))["completed"].as_u64(), Some(2_000));
    for (size, why) in [
        ("workload.size={ pareto = 0, minimum = \"1kB\" }", "`pareto` above 0 and at most 100, but is 0"),
        ("workload.size={ pareto = 1, mean = \"1kB\" }", "give `minimum`"),
        ("workload.size={ pareto = 2, mean = \"1kB\", maximum = \"499B\" }", "but is 499B beside 500B"),
    ] {
        let said = desk.refused(2, &[vec!["sim"], sized(size)].concat());
        assert!(said.contains(why) && said.contains("--> --set"), "{size}: {said}");
    }
}

#[test]
fn a_list_with_unknown_nodes_or_time_going_back_is_refused() {
    let desk = Desk::new("unsound");
    let replay = std::fs::read_to_string(example("trace-replay.toml")).unwrap();
    let replay = desk.file("replay.toml", replay.replace("trace.parquet", "list.csv"));
    for (rows, why) in [
        ("0,1,64,5\n0,99,64,6\n", "0 to 99 of 16 in message 2"),
        ("0,1,64,5\n1,0,64,4\n", "sorted by time, but is 4ns after 5ns in message 2"),
        ("0,1,64,5\n3,3,64,6\n", "between different nodes"),
        ("0,1,0,5\n", "messages of 1B to 1024GiB, but is 0B in message 1"),
        ("0,1,64,-5\n", "in line 2"),
        ("0,1,64,99999999999999999999\n", "in line 2"),
    ] {
        desk.file("list.csv", format!("src,dst,bytes,start_ns\n{rows}"));
        let said = desk.refused(2, &["sim", &replay]);
        assert!(said.contains(why) && said.contains("workload.file"), "{rows}: {said}");
    }
}

#[test]
fn jobs_have_a_line_each_and_are_in_the_report() {
    let desk = Desk::new("jobs");
    let jobs = example("drack-jobs.toml");
    let table = desk.done(&["sim", &jobs, "--out", "jobs"]);
    let line = |name: &str| {
        let found = table.lines().find(|line| line.starts_with(&format!("job        {name} on 4 hosts: ")));
        found.unwrap_or_else(|| panic!("{table}")).to_string()
    };
    assert!(line("pagerank").contains("60 messages") && line("training").contains("200.000 ms computing"));
    desk.done(&["report", "jobs", "-o", "page.html"]);
    let page = String::from_utf8(desk.bytes("page.html")).unwrap();
    assert!(page.contains("Jobs, by run") && page.contains("training"));
}

/// Overrides of a star whose packets are the largest: a message of 5 GiB is 82,000 of them.
const JUMBO: [&str; 3] = ["fabric.protocol=dctcp", "network.mtu=64KiB", "network.switch.buffer=64MiB"];

#[test]
fn messages_of_4_gib_and_more_are_in_all_tables() {
    let desk = Desk::new("large");
    desk.file(
        "list.csv",
        "src,dst,bytes,start_ns,kind\n0,1,5368709120,0,read\n2,3,4294967296,0,write\n4,5,4294967297,0,flow\n",
    );
    let replay = std::fs::read_to_string(example("trace-replay.toml")).unwrap();
    let replay = desk.file("replay.toml", replay.replace("trace.parquet", "list.csv"));
    let run = ["--out", "run", "--explain", "0", "--pcap", "one.pcapng", "--only", "message=2"];
    let figures = json(&desk, &[&[replay.as_str()], &set(&JUMBO)[..], &run].concat());
    assert_eq!(figures["completed"].as_u64(), Some(3));
    assert_eq!(figures["explained"]["bytes"].as_u64(), Some(5 << 30));
    let bytes = |rows: &[messages::Row]| rows.iter().map(|row| row.bytes).collect::<Vec<_>>();
    let (_, rows) = messages::read(desk.path("run/messages.parquet")).unwrap();
    assert_eq!(bytes(&rows), [5 << 30, 1 << 32, (1 << 32) + 1]);
    assert!(rows.iter().all(|row| row.slowdown == 1.0), "{rows:?}");
    let (_, pages) = completions::read(desk.path("run/completions.parquet")).unwrap();
    assert_eq!(pages.iter().map(|page| page.bytes).collect::<Vec<_>>(), [5 << 30, 1 << 32]);
    let checked = desk.done(&[&["scenario", "check", replay.as_str()], &set(&JUMBO)[..]].concat());
    assert!(checked.contains("can be run"), "{checked}");
}

#[test]
fn a_message_that_the_fabric_cannot_carry_is_refused_by_its_key() {
    let desk = Desk::new("too-large");
    desk.file(
        "list.csv",
        "src,dst,bytes,start_ns\n0,1,64,5\n0,1,200GiB,6\n".replace("200GiB", "214748364800"),
    );
    let replay = std::fs::read_to_string(example("trace-replay.toml")).unwrap();
    let replay = desk.file("replay.toml", replay.replace("trace.parquet", "list.csv"));
    let star = example("star-dctcp.toml");
    let sized = |size| ["fabric.protocol=tcp", "network.mtu=64B", size];
    for (scenario, values, why) in [
        (
            &replay,
            set(&["fabric.protocol=cxl"]),
            "at most 128GiB for cxl (2^31 lines: cut it into several messages), but is 200GiB in message 2",
        ),
        (
            &star,
            set(&sized("workload.size=25GiB")),
            "at most 24GiB for tcp (2^31 packets of 12B: raise `network.mtu`), but is 25GiB",
        ),
        (&star, set(&["workload.size=2TiB"]), "2048GiB is outside 1B to 1024GiB"),
    ] {
        for command in [&["sim"][..], &["scenario", "check"]] {
            let said = desk.refused(2, &[command, &[scenario.as_str()], &values[..]].concat());
            assert!(said.contains(why) && said.contains("workload."), "{said}");
        }
    }
}
