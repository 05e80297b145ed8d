//! Runs from the text of a scenario to the JSON of its summary.

use crate::common::fabrics::*;
use unrack_rack::{Overrides, Scenario, ValidScenario};
use unrack_sim::scenario::replay_spec;
use unrack_sim::{Excluded, Setup, Summary, Work};
use unrack_units::Time;
use unrack_workload::trace::TraceRow;

fn scenario(fabric: &str, workload: &str) -> ValidScenario {
    let without_switches = fabric.contains("r2c2") || fabric.contains("pfq");
    let topology = if without_switches { "\"torus\", shape = [4, 2]" } else { "\"star\", nodes = 8" };
    let text = format!(
        "seed = 7\n[network]\ntopology = {{ kind = {topology} }}\n[fabric]\n{fabric}\n[workload]\n{workload}\n"
    );
    Scenario::parse("test.toml", &text, &Overrides::none()).unwrap().check(&known()).unwrap()
}

const MEMORY: &str = "kind = \"memory\"\nload = 0.5\nmessages = 2000";

#[test]
fn every_fabric_runs_from_its_name_and_says_what_the_contract_asks() {
    for protocol in known().protocols {
        let mut scenario = scenario(&format!("protocol = \"{protocol}\""), MEMORY);
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let work = Work::drawn(&scenario).unwrap().unwrap();
        let finished = setup.run(&work, |_| {}).unwrap();
        let summary = finished.summary(Excluded::default());
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&json.to_string()).unwrap(), summary, "it reads back");
        assert_eq!(json["fabric"], protocol.name());
        assert_eq!((&json["messages"], &json["completed"]), (&2000.into(), &2000.into()));
        assert!(json["unfinished"].is_null() && json["program"].is_null());
        for field in ["mean", "p50", "p95", "p99", "p999", "max"] {
            assert!(json["slowdown"][field].as_f64().unwrap() >= 1.0, "{protocol} {field}: {json}");
            assert!(json["by_kind"]["read"]["completion_ns"][field].as_f64().unwrap() > 40.0);
        }
        let rest = ["nodes", "dropped", "throughput_gbps", "sim_time_ns", "events", "packet_hops"];
        assert!(rest.iter().all(|field| json[field].is_number()), "{json}");
        assert!(["mean", "p99", "max"].iter().all(|field| json["queue_bytes"][field].is_number()));
        assert_eq!((&json["seed"], json["version"].is_string()), (&7.into(), true));
    }
}

#[test]
fn what_flows_ask_for_is_read_and_wrong_keys_shown() {
    let shown = |fabric: &str| {
        let mut scenario = scenario(&format!("protocol = \"r2c2\"\n{fabric}"), MEMORY);
        Setup::from_scenario(&mut scenario).map(|_| ()).map_err(|error| error.to_string())
    };
    let rule = "rules = [{ src = [1, 2], weight = 3, demand = \"2Gbps\", at = \"1ms\", routing = \"vlb\" }]";
    let selection = "selection = { period = \"5ms\", utility = \"min(rate)\", search = { population = 9 } }";
    assert_eq!(shown(&format!("{rule}\n{selection}")), Ok(()));
    for (fabric, words) in [
        ("rules = [{ wieght = 3 }]", "did you mean `weight`"),
        ("rules = [{ weight = 300 }]", "300"),
        ("selection = { utility = \"tail\" }", "period"),
        ("selection = { period = \"5ms\", utility = \"sum(rat)\" }", "does not know `rat`"),
        ("selection = { period = \"5ms\", routings = [\"spraying\", \"vbl\"] }", "vbl"),
    ] {
        let shown = shown(fabric).unwrap_err();
        assert!(shown.contains(words) && shown.contains("test.toml:6"), "{shown}");
    }
}

#[test]
fn parameters_of_a_fabric_are_read_and_wrong_ones_shown_where_they_are() {
    let mut good = scenario("protocol = \"edm\"\nchunk = \"128B\"\npolicy = \"fcfs\"", MEMORY);
    let setup = Setup::from_scenario(&mut good).unwrap();
    assert_eq!(setup.fabric.params::<Edm>().unwrap().chunk.get(), 128);
    let mut bad = scenario("protocol = \"edm\"\nchunk = \"100B\"", MEMORY);
    let setup = Setup::from_scenario(&mut bad).unwrap();
    let error = setup.run(&Work::drawn(&bad).unwrap().unwrap(), |_| {}).err().unwrap();
    let shown = error.in_scenario(&bad).to_string();
    assert!(shown.contains("test.toml:6") && shown.contains("multiple of 64B"), "{shown}");
}

#[test]
fn a_captured_trace_runs_on_the_blades_of_its_scenario() {
    let text = "kind = \"trace\"\nfile = \"trace.parquet\"\nblades = { compute = 3, memory = 5 }\ntime_offsets = \"none\"";
    let mut scenario = scenario("protocol = \"edm\"", text);
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    assert!(Work::drawn(&scenario).unwrap().is_none());
    let unrack_rack::Workload::Trace(trace) = &scenario.workload else { panic!("a trace") };
    let spec = replay_spec(trace, setup.network.nodes(), scenario.seed);
    let row = |n: u64| TraceRow {
        t_ns: n * 1_000,
        thread: 0,
        page: n,
        write_back: false,
        bytes: 64,
        wait_ns: 100,
        overhead_ns: 0,
    };
    let rows: Vec<TraceRow> = (0..1_000).map(row).collect();
    let work = Work::captured(&rows, (Time::from_us(1_000), None), spec, 300).unwrap();
    let summary = setup.run(&work, |_| {}).unwrap().summary(Excluded { warm_up: 30, cool_down: 20 });
    assert_eq!((summary.messages, summary.slowdown.count), (300, 250));
    let program = summary.program.unwrap();
    assert_eq!((program.rows, program.rows_in_all, program.replicas), (100, 1_000, 3));
    assert_eq!(program.zero_latency_ns, 100.0 * 1_000.0 - 100.0 * 100.0);
    assert!(program.run_time_ns >= program.zero_latency_ns + 100.0 * 299.52 && program.slowdown > 1.3);
}

#[test]
fn a_time_limit_ends_the_run_and_says_what_did_not_finish() {
    let mut scenario = scenario("protocol = \"edm\"", MEMORY);
    let setup = Setup { time_limit: Time::from_ns(500), ..Setup::from_scenario(&mut scenario).unwrap() };
    let finished = setup.run(&Work::drawn(&scenario).unwrap().unwrap(), |_| {}).unwrap();
    let summary = finished.summary(Excluded::default());
    let unfinished = summary.unfinished.unwrap();
    assert_eq!(summary.completed + unfinished.messages, summary.messages);
    assert_eq!(unfinished.why, "the time limit came first");
}
