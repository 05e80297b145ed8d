//! Results as the commands write them, made from formulas, so that every test knows what must be visible.

pub(crate) mod lines;

use std::path::{Path, PathBuf};

use unrack_record::*;

pub(crate) const COMMAND: [&str; 3] = ["/usr/bin/sort", "--parallel=2", "words <b>&amp;.txt"];
pub(crate) const HOSTILE: &str = "</script><script>document.body.id='owned'</script> \"'&";

pub(crate) fn command() -> Vec<String> {
    COMMAND.map(String::from).to_vec()
}

pub(crate) fn spread(mean: f64, p50: f64, p99: f64) -> DistributionSummary {
    let between = |part: f64| p50 + (p99 - p50) * part;
    DistributionSummary { mean, p50, p95: between(0.6), p99, p999: p99 * 1.4, max: p99 * 2.0, count: 40_000 }
}

const NATIVE_S: f64 = 2.0;
const WAITS: f64 = 40_000.0;

fn runs(around: f64, scatter: f64) -> Runs {
    let seconds = vec![around * (1.0 - scatter), around, around * (1.0 + scatter * 1.5)];
    Runs { seconds, median_s: around }
}

fn point(delay_us: f64, off: f64) -> InjectionPoint {
    let run_s = NATIVE_S * 1.01 + WAITS * delay_us / 1e6;
    InjectionPoint {
        delay_ns: delay_us * 1e3,
        runs: runs(run_s * (1.0 + off), 0.015),
        fetches: 41_200,
        write_backs: 9_800,
    }
}

fn fit() -> Fit {
    Fit {
        intercept_s: 2.02,
        waits: WAITS,
        waits_ci95: [38_500.0, 41_500.0],
        waits_per_s: WAITS / NATIVE_S,
        waits_per_s_ci95: [38_500.0 / NATIVE_S, 41_500.0 / NATIVE_S],
        r2: 0.9991,
        worst_residual: 0.012,
    }
}

fn fabric(name: &str, mean_us: f64, p99_us: f64) -> FabricResult {
    let slowdown = |waits: f64| 1.0 + waits * mean_us / 1e6 / NATIVE_S;
    FabricResult {
        fabric: name.into(),
        completion_over_ideal: Some(spread(mean_us / 0.6, mean_us / 0.62, p99_us / 0.6)),
        fetch_us: Some(spread(mean_us, mean_us * 0.95, p99_us)),
        slowdown: Some(slowdown(WAITS)),
        slowdown_ci95: Some([slowdown(38_500.0), slowdown(41_500.0)]),
        slowdown_replay: (name != "cxl").then(|| slowdown(WAITS * 1.04)),
        withheld: None,
        simulation: serde_json::json!({ "fabric": name, "nodes": 16, "messages": 40_000 }),
    }
}

pub(crate) fn comparison() -> Comparison {
    Comparison {
        version: "0.1.0".into(),
        command: command(),
        seed: 1,
        rough: None,
        local: "25%".into(),
        local_bytes: 64 << 20,
        footprint_bytes: 256 << 20,
        native: Some(runs(NATIVE_S, 0.01)),
        injection: Injection {
            points: vec![point(15.0, 0.004), point(30.0, -0.006), point(60.0, 0.005), point(100.0, -0.002)],
            fit: Some(fit()),
            withheld: None,
            floor_ns: Some(9_400.0),
            bandwidth_bps: 100_000_000_000,
            page_us: 0.32768,
        },
        capture: Some(CapturedRun { fetches: 41_200, write_backs: 9_800, threads: 2, run_s: 2.9 }),
        fabrics: vec![
            fabric("ideal", 0.6, 0.6),
            fabric("edm", 0.78, 1.9),
            fabric("cxl", 3.4, 19.0),
            fabric("dctcp", 11.2, 85.0),
        ],
        requirements: vec![
            Requirement {
                min_local: Some(known(0.4, 0.3, 0.6)),
                feasible: Some(false),
                feasible_rate_bps: Some(656_000_000_000),
                ..requirement(0.01, known(0.05, 0.048, 0.052))
            },
            Requirement { min_local: Some(known(0.4, 0.3, 0.6)), ..requirement(0.05, known(2.5, 2.4, 2.6)) },
            requirement(0.2, known(10.0, 9.6, 10.4)),
        ],
        disturbance: disturbance(),
        warnings: vec![Warning::new("disturbed", "native runs differ by 2.5 %: the machine is busy")],
        machine: None,
    }
}

/// The same comparison, disturbed by other work so that everything is withheld.
pub(crate) fn withheld_comparison() -> Comparison {
    let why = || Warning::new("disturbed", "too few undisturbed native runs, 1 of at least 3");
    let mut comparison = comparison();
    (comparison.native, comparison.injection.fit, comparison.injection.floor_ns) = (None, None, None);
    comparison.injection.withheld = Some(why());
    for fabric in &mut comparison.fabrics {
        (fabric.completion_over_ideal, fabric.fetch_us, fabric.slowdown) = (None, None, None);
        (fabric.slowdown_ci95, fabric.slowdown_replay, fabric.withheld) = (None, None, Some(why()));
        fabric.simulation = serde_json::Value::Null;
    }
    for requirement in &mut comparison.requirements {
        requirement.max_fetch_us = Stated::withheld(why());
        requirement.min_local = Some(Stated::withheld(why()));
        (requirement.feasible, requirement.feasible_rate_bps) = (None, None);
    }
    comparison
}

fn known(value: f64, low: f64, high: f64) -> Stated {
    Stated::Known(Interval { value: Some(value), low, high: Some(high) })
}

fn requirement(loss: f64, max_fetch_us: Stated) -> Requirement {
    Requirement {
        loss,
        max_fetch_us,
        min_local: None,
        at_fetch_us: Some(5.0),
        feasible: Some(true),
        feasible_rate_bps: None,
    }
}

pub(crate) fn disturbance() -> Disturbance {
    let why = Warning::new("other-work", "other work took 0.90 of 2 cores");
    let run = |run: &str, repeated| DisturbedRun { run: run.into(), wall_s: 3.1, why: why.clone(), repeated };
    Disturbance {
        cores: 2,
        before: OtherWork { others_cores: 0.01, steal_cores: 0.0, waiting: Some(0.02), queue: 0 },
        waited_s: 0.0,
        runs: 16,
        disturbed: vec![run("native run 2", true), run("25 % local, 26.0 us a fetch, run 1", false)],
    }
}

pub(crate) fn map() -> SlowdownMap {
    let latencies_ns = vec![500.0, 1e3, 2e3, 3e3, 5e3, 10e3, 20e3, 50e3];
    let bandwidths_bps =
        vec![10, 25, 40, 100, 200].into_iter().map(|gbps: u64| gbps * 1_000_000_000).collect();
    let mut map = SlowdownMap {
        version: "0.1.0".into(),
        command: command(),
        native_s: Some(NATIVE_S),
        footprint_bytes: 256 << 20,
        floor_ns: Some(9_800.0),
        latencies_ns,
        bandwidths_bps,
        locals: vec![],
        disturbance: Disturbance { disturbed: vec![], ..disturbance() },
        warnings: vec![],
        machine: None,
    };
    map.locals = [("10%", 0.1, 95_000.0), ("25%", 0.25, WAITS), ("50%", 0.5, 8_000.0), ("75%", 0.75, 900.0)]
        .map(|(name, share, waits)| local(&map, name, share, waits))
        .to_vec();
    map
}

fn local(map: &SlowdownMap, name: &str, share: f64, waits: f64) -> MapLocal {
    let page = |bps: &u64| 4096.0 * 8.0 / *bps as f64;
    let slowdown = |waits: f64, ns: &f64, bps: &u64| 1.0 + waits * (ns / 1e9 + page(bps)) / NATIVE_S;
    let (few, many) = (waits * 0.97, waits * 1.03);
    let row = |ns: &f64| map.bandwidths_bps.iter().map(|bps| slowdown(waits, ns, bps)).collect();
    let ends = |ns: &f64| {
        map.bandwidths_bps.iter().map(|bps| [few, many].map(|waits| slowdown(waits, ns, bps))).collect()
    };
    MapLocal {
        local: name.into(),
        local_bytes: (map.footprint_bytes as f64 * share) as u64,
        fetches: (waits * 1.2) as u64,
        points: vec![point(15.0, 0.0), point(60.0, 0.0)],
        fit: Some(Fit { waits, waits_ci95: [few, many], ..fit() }),
        withheld: None,
        rough: None,
        slowdown: Some(map.latencies_ns.iter().map(row).collect()),
        slowdown_ci95: Some(map.latencies_ns.iter().map(ends).collect()),
    }
}

pub(crate) fn simulation(fabric: &str, mean: f64) -> serde_json::Value {
    let spread = |mean: f64| serde_json::to_value(spread(mean, mean * 0.9, mean * 4.0)).unwrap();
    serde_json::json!({
        "fabric": fabric, "nodes": 144, "messages": 100_000, "completed": 99_990, "dropped": 0,
        "slowdown": spread(mean), "completion_ns": spread(mean * 300.0),
        "by_kind": {
            "read": { "messages": 60_000, "slowdown": spread(mean * 0.95), "completion_ns": spread(mean * 290.0) },
            "write": { "messages": 40_000, "slowdown": spread(mean * 1.05), "completion_ns": spread(mean * 310.0) },
        },
        "unfinished": { "messages": 10, "why": "the run ended first" }, "excluded": { "warm_up": 0, "cool_down": 0 },
        "program": null,
        "jobs": {
            HOSTILE: {
                "hosts": [0, 5], "completion_ns": null, "communication_ns": 5e6, "waiting_ns": 0.0, "compute_ns": 3e5,
                "messages": 12, "bytes": 4_096, "request_ns": { "mean": 2_000.0, "p99": 9_000.0 },
            },
        },
        "throughput_gbps": 812.5, "queue_bytes": { "mean": 100.0, "p99": 900.0, "max": 4000.0 },
        "sim_time_ns": 5e6, "events": 900_000, "packet_hops": 600_000, "seed": 1, "version": "0.1.0",
    })
}

pub(crate) fn build() -> Build {
    let (version, commit) = ("0.1.0".into(), Some("c0ffee".into()));
    Build { version, commit, tree_changed: Some(true), sources: "0123456789abcdef".into() }
}

pub(crate) fn manifest() -> Manifest {
    let settings = serde_json::json!({ "local": "25%", "fabrics": ["ideal", "edm", "cxl", "dctcp"] });
    let scenario = format!("seed = 1\n# {HOSTILE}\n[fabric]\nprotocol = \"edm\"\n");
    StartedCommand::now(build()).manifest(1, Some(scenario), settings)
}

/// A folder as `unrack compare` leaves it.
pub(crate) fn compare_folder(parent: &Path, name: &str) -> PathBuf {
    let folder = RunFolder::create(parent.join(name), &RunPurpose::new("test", name, name), false).unwrap();
    folder.write_json("manifest.json", &manifest()).unwrap();
    folder.write_json("summary.json", &comparison()).unwrap();
    write_trace(&folder.path("trace.parquet"));
    for fabric in comparison().fabrics {
        write_completions(&folder.path(format!("completions-{}.parquet", fabric.fabric)), &fabric);
    }
    parent.join(name)
}

pub(crate) fn sim_folder(parent: &Path, name: &str, mean: f64) -> PathBuf {
    let folder = RunFolder::create(parent.join(name), &RunPurpose::new("test", name, name), false).unwrap();
    folder.write_json("manifest.json", &manifest()).unwrap();
    folder.write_json("summary.json", &simulation(name, mean)).unwrap();
    write_messages(&folder.path("messages.parquet"), name, mean);
    parent.join(name)
}

pub(crate) fn map_folder(parent: &Path, name: &str) -> PathBuf {
    let folder = RunFolder::create(parent.join(name), &RunPurpose::new("test", name, name), false).unwrap();
    folder.write_json("map.json", &map()).unwrap();
    parent.join(name)
}

/// Evenly spread numbers in 0..1 that look like chance.
fn chance(index: u64) -> f64 {
    (index as f64 * 0.618_033_988_749_895).fract()
}

fn write_trace(path: &Path) {
    let meta = trace::Meta {
        program: "sort".into(),
        command_line: command(),
        page_size: 4096,
        local_bytes: 64 << 20,
        footprint_bytes: 256 << 20,
        run_ns: 2_900_000_000,
        native_ns: Some(2_000_000_000),
    };
    let mut writer = trace::Writer::create(path).unwrap();
    let mut times: Vec<u64> =
        (0..30_000).map(|i| (chance(i) * chance(i * 7 + 3).sqrt() * 2.9e9) as u64).collect();
    times.sort();
    for (index, t_ns) in times.into_iter().enumerate() {
        let fetch = index % 5 != 0 || t_ns < 900_000_000;
        let (kind, wait_ns) = if fetch { (trace::Kind::Fetch, 15_000) } else { (trace::Kind::WriteBack, 0) };
        let row =
            trace::Row { t_ns, thread: 0, page: index as u64, kind, bytes: 4096, wait_ns, overhead_ns: 0 };
        writer.push(row).unwrap();
    }
    writer.finish(&meta).unwrap();
}

/// Adds what `unrack sim` leaves with `--ports` and `--explain`.
pub(crate) fn observe(folder: &Path) {
    write_links(&folder.join("ports.parquet"));
    let part = |from_ns: f64, time_ns: f64, cause: &str, place: &str| serde_json::json!({ "from_ns": from_ns, "time_ns": time_ns, "cause": cause, "where": place });
    let parts = [
        part(35.189, 27.776, "host-queue", "node 90: behind packets of others"),
        part(62.965, 10.0, "propagation", "link of node 90: propagation"),
        part(72.965, 8.512, "queue", "port 85: behind other packets"),
        part(81.477, 12.32, "serialization", "link of port 85: its own bits"),
        part(93.797, 10.0, "propagation", "link of port 85: propagation"),
    ];
    let explained = serde_json::json!({
        "message": 777, "kind": "write", "bytes": 64, "src": 90, "dst": 85, "submitted_ns": 35.189,
        "completion_ns": 68.608, "unloaded_ns": 44.64, "parts": parts,
    });
    write_json(folder.join("explain.json"), &explained).unwrap();
}

/// Links of the table, of which a report shows the busiest 32.
const LINKS: u32 = 40;

fn write_links(path: &Path) {
    let mut writer = ports::Writer::create(path).unwrap();
    let interval_ps = 10_000_000;
    for (step, number) in (0..150).flat_map(|step| (0..LINKS).map(move |number| (step, number))) {
        let wave = 0.5 + 0.5 * (f64::from(number) / 5.0 + step as f64 / 20.0).sin();
        let utilization = wave * chance(u64::from(number) + 3).sqrt();
        let row = ports::Row {
            from_ps: step * interval_ps,
            kind: if number < 20 { ports::Kind::Host } else { ports::Kind::Port },
            number: number % 20,
            busy_ps: (utilization * interval_ps as f64) as u64,
            utilization,
            packets: 100,
            wire_bytes: 10_000,
            payload_bytes: 6_400,
            queue_mean_bytes: 100.0 * wave,
            queue_max_bytes: if number < 20 { 0 } else { (wave * wave * 36_000.0) as u64 },
        };
        writer.push(row).unwrap();
    }
    writer.finish(&ports::Meta { fabric: "edm".into(), interval_ps }).unwrap();
}

/// Sizes of messages, each of which has as many.
pub(crate) const SIZES: [u64; 4] = [64, 1024, 16_384, 1 << 20];

fn write_messages(path: &Path, fabric: &str, mean: f64) {
    let mut writer = messages::Writer::create(path).unwrap();
    for id in 0..4_000 {
        let bytes = SIZES[(id % 4) as usize];
        let tail = (1.0 - chance(id)).powf(-0.4).min(30.0) - 1.0;
        let slowdown = 1.0 + (mean - 1.0) * tail * (1.0 + (bytes as f64).log2() / 10.0);
        let unloaded_ps = bytes * 80 + 100_000;
        writer
            .push(messages::Row {
                id,
                src: 0,
                dst: 1,
                kind: messages::Kind::Read,
                bytes,
                submitted_ps: id * 1_000,
                completed_ps: Some(id * 1_000 + (unloaded_ps as f64 * slowdown) as u64),
                unloaded_ps,
                ideal_ps: bytes * 80,
                slowdown,
                retransmissions: 0,
                drops: 0,
                trims: 0,
            })
            .unwrap();
    }
    writer.finish(&messages::Meta { fabric: fabric.into() }).unwrap();
}

fn write_completions(path: &Path, fabric: &FabricResult) {
    let meta = completions::Meta { fabric: fabric.fabric.clone(), link_rate_bps: 100_000_000_000 };
    let mut writer = completions::Writer::create(path).unwrap();
    let spread = fabric.fetch_us.unwrap();
    for index in 0..8_000 {
        let tail = (1.0 - chance(index)).powf(-0.45).min(60.0) - 1.0;
        let us = if fabric.fabric == "ideal" { 0.6 } else { 0.62 + tail * (spread.mean - 0.6) };
        let kind = if index % 4 == 3 { completions::Kind::WriteBack } else { completions::Kind::Fetch };
        let row = completions::Row { kind, bytes: 4096, completion_ps: (us * 1e6) as u64, ideal_ps: 600_000 };
        writer.push(row).unwrap();
    }
    writer.finish(&meta).unwrap();
}
