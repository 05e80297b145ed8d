//! Jobs on racks: the messages of applications are all carried, and each job has figures of its own.

use std::collections::BTreeMap;
use unrack_rack::{Overrides, Scenario};
use unrack_sim::summary::JobSummary;
use unrack_sim::{Excluded, Setup, Summary, Work};

const RACKS: &str = r#"
[network]
topology = { kind = "drack", racks = 4, hosts_per_rack = 2 }
link = { rate = "10Gbps", propagation = "15us" }
mtu = "4096B"
[fabric]
protocol = "mptcp"
[workload]
kind = "jobs"
"#;

fn scenario(set: &[&str]) -> Result<(Setup, Work), String> {
    let overrides: Overrides = set.iter().copied().collect();
    let parsed = Scenario::parse("jobs.toml", RACKS, &overrides).and_then(unrack_sim::check);
    let mut scenario = parsed.map_err(|why| why.to_string())?;
    let setup = Setup::from_scenario(&mut scenario).map_err(|why| why.to_string())?;
    let work = Work::drawn(&scenario).map_err(|why| why.to_string())?.expect("no file is named");
    Ok((setup, work))
}

fn run(set: &[&str]) -> Summary {
    let (setup, work) = scenario(set).unwrap();
    let done = setup.run(&work, |_| {}).unwrap();
    assert!(done.run.is_complete());
    done.summary(Excluded::default())
}

fn jobs(set: &[&str]) -> BTreeMap<String, JobSummary> {
    run(set).jobs
}

const TORACK: &str = r#"network.topology={ kind = "torack", racks = 4, hosts_per_rack = 2 }"#;

#[test]
fn every_application_is_carried_whole() {
    let applications = [
        "pagerank = { scale = 10, iterations = 2 }",
        "components = { scale = 10, degree = 4 }",
        r#"training = { model = "resnet-18", operation = "ring-all-reduce", compute = "1ms" }"#,
        r#"training = { model = "resnet-18", operation = "halving-doubling", compute = "1ms" }"#,
        r#"training = { model = "resnet-18", operation = "parameter-server", servers = 4, compute = "1ms" }"#,
        r#"key_value = { servers = 6, requests = 500, value = "4KiB" }"#,
        "word_count = { words = 20000, combine = false }",
        "pagerank = { scale = 10, iterations = 2, batches = 3 }",
        "embedding = { batches = 2 }",
        "experts = { layers = 2, tokens = 50 }",
        "experts = { layers = 2, tokens = 50, experts = 20, top = 3, exponent = 0.0 }",
        r#"collective = { operation = "all-to-all", size = "1MB" }"#,
    ];
    for application in applications {
        for topology in [r#"fabric.protocol="mptcp""#, TORACK] {
            let set = [format!("workload.jobs=[{{ {application} }}]"), topology.to_string()];
            let set: Vec<&str> = set.iter().map(String::as_str).collect();
            let (setup, work) = scenario(&set).unwrap();
            let Work::Jobs(spec) = &work else { panic!("it is jobs") };
            let (messages, bytes) = (spec.jobs[0].messages(), spec.jobs[0].bytes());
            let done = setup.run(&work, |_| {}).unwrap();
            assert!(done.run.is_complete(), "{application}");
            let carried: u64 = done.run.messages.iter().map(|message| message.bytes).sum();
            assert_eq!((done.run.messages.len() as u64, carried), (messages, bytes), "{application}");
            let summary = done.summary(Excluded::default());
            let (name, job) = summary.jobs.iter().next().unwrap();
            assert!(application.starts_with(name.as_str()), "{name}");
            assert_eq!((job.messages, job.bytes, job.hosts.len()), (messages, bytes, 8));
            let all = job.completion_ns.unwrap();
            assert!(job.communication_ns <= all && job.compute_ns <= all && job.waiting_ns == 0.0);
            assert_eq!(job.request_ns.is_some(), ["key_value", "embedding"].contains(&name.as_str()));
        }
    }
}

/// Two jobs that share a switch which keeps up with all its links.
#[test]
fn jobs_on_hosts_of_their_own_have_figures_of_their_own() {
    let one = r#"{ hosts = 4, training = { model = "resnet-18", operation = "ring-all-reduce", compute = "5ms" } }"#;
    let other = r#"{ hosts = 4, collective = { operation = "all-to-all", size = "8MB" } }"#;
    let star = r#"network.topology={ kind = "star", nodes = 8 }"#;
    let alone = jobs(&[star, &format!("workload.jobs=[{one}]")]);
    let both = jobs(&[star, &format!("workload.jobs=[{one}, {other}]")]);
    assert_eq!(alone["training"].hosts, [0, 1, 2, 3]);
    assert_eq!(both["collective"].hosts, [4, 5, 6, 7]);
    assert_eq!(alone["training"], both["training"]);
}

#[test]
fn who_is_held_waits_and_the_other_is_as_if_alone() {
    // Job 0 computes more per byte: it goes first, and in its racks the others wait.
    let mix = |policy: &str| {
        let one = r#"{ name = "first", on = [0, 2, 4, 6], training = { model = "resnet-50", operation = "ring-all-reduce", compute = "90ms" } }"#;
        let other = r#"{ name = "second", on = [1, 3], training = { model = "resnet-18", operation = "ring-all-reduce", compute = "40ms", iterations = 3 } }"#;
        jobs(&[&format!("workload.policy={policy}"), &format!("workload.jobs=[{one}, {other}]")])
    };
    let (free, crux) = (mix("first-fit"), mix("crux"));
    assert_eq!(crux["first"].waiting_ns, 0.0);
    assert!(crux["second"].waiting_ns > 0.0 && free["second"].waiting_ns == 0.0);
    assert!(crux["first"].communication_ns < free["first"].communication_ns);
    // Messages of the second job that are in flight are stopped while the first one sends, and have the network alone otherwise.
    assert!(crux["second"].communication_ns < 0.7 * free["second"].communication_ns);
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let refused = |set: &[&str]| match scenario(set) {
        Err(why) => why,
        Ok((setup, work)) => {
            setup.run(&work, |_| {}).err().map(|why| why.to_string()).expect("it is refused")
        }
    };
    for (set, said) in [
        ("workload.jobs=[]", "workload.jobs: 0 is outside 1"),
        ("workload.jobs=[{ hosts = 4 }]", "expected one application"),
        (
            "workload.jobs=[{ pagerank = { scale = 60 } }]",
            "workload.jobs.0.pagerank.scale: 60 is outside 1 to 24",
        ),
        ("workload.jobs=[{ pagerank = { skale = 6 } }]", "did you mean `scale`"),
        ("workload.jobs=[{ on = [0, 9], pagerank = { scale = 6 } }]", "there is no node 9"),
        ("workload.jobs=[{ hosts = 9, pagerank = { scale = 6 } }]", "hosts: 9 is outside 2 to 8"),
        (
            "workload.jobs=[{ pagerank = { scale = 6 } }, { pagerank = { scale = 6 } }]",
            "has room for all ranks",
        ),
        (r#"workload.jobs=[{ key_value = { servers = 8, requests = 5 } }]"#, "a host that asks"),
        (r#"workload.jobs=[{ word_count = { words = 8, reducers = 8 } }]"#, "a host that maps"),
        (
            r#"workload.jobs=[{ hosts = 6, training = { model = "resnet-18", operation = "halving-doubling" } }]"#,
            "power of two",
        ),
        (
            r#"workload.jobs=[{ training = { model = "resnet-18", operation = "all-to-all" } }]"#,
            "training sums up gradients",
        ),
        (r#"workload.jobs=[{ training = { model = "vgg" , operation = "all-to-all" } }]"#, "resnet-18"),
        (
            "workload.jobs=[{ pagerank = { scale = 6 }, embedding = { batches = 1 } }]",
            "found pagerank and embedding",
        ),
    ] {
        let found = refused(&[set]);
        assert!(found.contains(said), "{set}: {found}");
    }
}
