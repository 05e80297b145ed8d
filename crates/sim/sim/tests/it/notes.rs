//! Notes about settings that never acted: each one in a scenario in which it acts, and in one in which it does not.

use unrack_rack::{Overrides, Scenario};
use unrack_sim::{Setup, Work, known, notes};
use unrack_units::{Time, Warning};
use unrack_workload::Message;

/// Runs these flows, or the drawn ones, and returns the notes. The scenario has the same notes if all its defaults are written out.
fn found(text: &str, set: &[&str], flows: Option<Vec<(Time, Message)>>) -> Vec<Warning> {
    let (found, whole) = noted(text, set, flows.clone());
    assert_eq!(noted(&whole, &[], flows).0, found, "{whole}");
    found
}

/// Runs these flows, or the drawn ones, and returns the notes, and the scenario with its defaults.
fn noted(text: &str, set: &[&str], flows: Option<Vec<(Time, Message)>>) -> (Vec<Warning>, String) {
    let overrides: Overrides = set.iter().copied().collect();
    let mut scenario = Scenario::parse("test.toml", text, &overrides).unwrap().check(&known()).unwrap();
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    let work = flows.map(Work::listed).unwrap_or_else(|| Work::drawn(&scenario).unwrap().unwrap());
    let done = setup.run(&work, |_| {}).unwrap();
    (notes(&scenario, &setup, &done), scenario.explain())
}

fn has(found: &[Warning], key: &str) -> bool {
    found.iter().any(|note| note.key == key)
}

fn star(protocol: &str, more: &str) -> String {
    format!(
        "seed = 1\n[network]\ntopology = {{ kind = \"star\", nodes = 9 }}\n\
         link = {{ rate = \"100Gbps\", propagation = \"100ns\" }}\n[fabric]\nprotocol = \"{protocol}\"\n{more}\
         [workload]\nkind = \"flows\"\nsize = \"1MB\"\nload = 0.1\nmessages = 8\n"
    )
}

/// Eight nodes send to node 0 at once.
fn incast(bytes: u64) -> Option<Vec<(Time, Message)>> {
    Some((1..9).map(|src| (Time::ZERO, Message::flow(src, 0, bytes))).collect())
}

/// One flow alone.
fn alone(bytes: u64) -> Option<Vec<(Time, Message)>> {
    Some(vec![(Time::ZERO, Message::flow(1, 0, bytes))])
}

/// Asserts that a note of this key is there without load, and not with an incast.
fn acts_only_in_an_incast(text: &str, set: &[&str], key: &str, bytes: u64) {
    let (quiet, busy) = (found(text, set, alone(3_000)), found(text, set, incast(bytes)));
    assert!(has(&quiet, key), "{key}: {quiet:?}");
    assert!(!has(&busy, key), "{key}: {busy:?}");
    let words = &quiet.iter().find(|note| note.key == key).unwrap().text;
    assert!(words.len() > 20 && !words.contains('\n'), "{words}");
}

#[test]
fn marks_pauses_and_trims() {
    let buffer = ["network.switch.buffer=1MiB"];
    acts_only_in_an_incast(&star("dctcp", ""), &buffer, "marks", 1_000_000);
    let said = found(&star("dctcp", ""), &buffer, alone(3_000));
    assert!(said[0].text.starts_with("dctcp ran as tcp: nothing was marked"), "{said:?}");
    acts_only_in_an_incast(&star("pfc-dcqcn", ""), &buffer, "marks", 1_000_000);
    acts_only_in_an_incast(&star("pfc-dcqcn", ""), &["network.switch.buffer=100kB"], "pauses", 1_000_000);
    acts_only_in_an_incast(&star("ndp", ""), &buffer, "trims", 1_000_000);
    assert!(!has(&found(&star("tcp", ""), &buffer, alone(3_000)), "marks"), "tcp has no marks");
}

#[test]
fn credits_of_lines_and_of_flows() {
    acts_only_in_an_incast(&star("cxl", ""), &[], "credits", 100_000);
    let torus = "[network]\ntopology = { kind = \"torus\", shape = [3, 3] }\n\
                 link = { rate = \"10Gbps\", propagation = \"100ns\" }\n[fabric]\nprotocol = \"pfq\"\n[workload]\n\
                 kind = \"flows\"\nsize = \"1MB\"\nload = 0.1\nmessages = 8\n";
    acts_only_in_an_incast(torus, &[], "credits", 1_000_000);
}

#[test]
fn the_limit_of_announced_messages() {
    let many = (0..20).map(|_| (Time::ZERO, Message::write(1, 0, 64))).collect();
    assert!(!has(&found(&star("edm", ""), &[], Some(many)), "active"));
    assert!(has(&found(&star("edm", ""), &[], alone(64)), "active"));
}

#[test]
fn rates_of_flows_that_last() {
    let torus = |interval: &str| {
        format!(
            "[network]\ntopology = {{ kind = \"torus\", shape = [3, 3] }}\n\
             link = {{ rate = \"10Gbps\", propagation = \"100ns\" }}\n[fabric]\nprotocol = \"r2c2\"\ninterval = \"{interval}\"\n\
             [workload]\nkind = \"flows\"\nsize = \"1MB\"\nload = 0.1\nmessages = 8\n"
        )
    };
    assert!(has(&found(&torus("100ms"), &[], incast(1_000_000)), "rates"));
    assert!(!has(&found(&torus("50us"), &[], incast(1_000_000)), "rates"));
}

/// Defaults are not noted: most runs never fill the default buffer, and never time out.
#[test]
fn buffers_and_timeouts_other_than_the_defaults() {
    for protocol in ["tcp", "dctcp", "pfabric", "homa"] {
        let text = star(protocol, "");
        acts_only_in_an_incast(&text, &["network.switch.buffer=20kB"], "buffer", 1_000_000);
        assert!(!has(&found(&text, &[], alone(3_000)), "buffer"), "{protocol}: it is a default");
    }
    let rto = ["network.switch.buffer=3kB", "fabric.min_rto=100us"];
    acts_only_in_an_incast(&star("tcp", ""), &rto, "timeouts", 1_000_000);
    assert!(!has(&found(&star("tcp", ""), &[], alone(3_000)), "timeouts"));
}

#[test]
fn failures_and_bit_errors() {
    let fails = |from: &str| {
        format!("{}[[failures]]\nnode = 1\nfrom = \"{from}\"\nuntil = \"1ms\"\n", star("tcp", ""))
    };
    assert!(!has(&found(&fails("1us"), &[], alone(1_000_000)), "faults"));
    let late = found(&fails("900us"), &[], alone(3_000));
    assert!(
        has(&late, "faults") && late.iter().any(|note| note.text.contains("no failure happened")),
        "{late:?}"
    );
    // Node 1 is down from the beginning, and only other nodes send.
    let others = Some(vec![(Time::ZERO, Message::flow(2, 3, 100_000))]);
    let idle = found(&fails("1ns"), &[], others);
    assert!(idle.iter().any(|note| note.text.contains("hit no traffic")), "{idle:?}");
    for protocol in ["tcp", "pfabric", "edm", "cxl"] {
        let errors = |rate: &str| format!("{}[bit_errors]\nlink = {rate}\n", star(protocol, ""));
        assert!(has(&found(&errors("1e-18"), &[], alone(3_000)), "faults"), "{protocol}");
        assert!(!has(&found(&errors("1e-5"), &[], alone(50_000)), "faults"), "{protocol}");
        assert!(!has(&found(&star(protocol, ""), &[], alone(3_000)), "faults"), "{protocol}: nothing fails");
    }
}

#[test]
fn caches_and_queues_of_hosts() {
    let rack = "seed = 1\n[network]\ntopology = { kind = \"drack\", racks = 2, hosts_per_rack = 2 }\n\
                link = { rate = \"1Gbps\", propagation = \"1us\" }\n[fabric]\nprotocol = \"tcp\"\n[host]\n\
                [workload]\nkind = \"flows\"\nsize = \"100kB\"\nload = 0.1\nmessages = 20\n";
    let usual = found(rack, &["host.nic.headroom=1MiB", "host.nic.receive_queue=4096"], None);
    assert!(has(&usual, "headroom") && has(&usual, "receive-queue") && !has(&usual, "cache"), "{usual:?}");
    let small = found(rack, &["host.nic.headroom=1MiB", "host.nic.receive_queue=1"], None);
    assert!(!has(&small, "receive-queue"), "{small:?}");
    assert!(!has(&found(rack, &[], None), "headroom"), "it is a default");
    assert!(!has(&found(rack, &["host.dram_cache=false"], None), "cache"), "there is none");
    // No core loads a header or data.
    let none = found(rack, &["host.cpu.header_loads=0", "host.program_loads=false"], None);
    assert!(has(&none, "cache"), "{none:?}");
}
