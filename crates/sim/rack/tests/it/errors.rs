//! Reports that users see, each compared in full.

use crate::protocols::known;
use unrack_rack::{Overrides, Scenario};

const GOOD: &str = r#"seed = 3
[network]
topology = { kind = "star", nodes = 16 }
link = { rate = "100Gbps", propagation = "10ns" }
[fabric]
protocol = "edm"
chunk = "256B"
[workload]
kind = "memory"
load = 0.8
messages = 1000
"#;

/// Returns the report on `GOOD` with one text replaced by another.
fn report(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    report_of(&GOOD.replacen(from, to, 1), &[])
}

fn report_of(text: &str, sets: &[&str]) -> String {
    let overrides: Overrides = sets.iter().copied().collect();
    let checked = Scenario::parse("rack.toml", text, &overrides).and_then(|it| it.check(&known()));
    format!("{}\n", checked.expect_err("this scenario is wrong"))
}

#[test]
fn the_scenario_that_the_others_spoil_is_good() {
    Scenario::parse("rack.toml", GOOD, &Overrides::none()).unwrap().check(&known()).unwrap();
}

#[test]
fn an_unknown_key_has_a_nearest_one() {
    let expected = r#"error: network.link has no key `ratee`; did you mean `rate`?
 --> rack.toml:4:10
  |
4 | link = { ratee = "100Gbps", propagation = "10ns" }
  |          ^^^^^
"#;
    assert_eq!(report("rate =", "ratee ="), expected);
}

#[test]
fn an_unknown_key_far_from_all_gets_the_list() {
    let expected = r#"error: network.topology has no key `colour`; use `kind` or `nodes`
 --> rack.toml:3:29
  |
3 | topology = { kind = "star", colour = 1, nodes = 16 }
  |                             ^^^^^^
"#;
    assert_eq!(report("nodes", "colour = 1, nodes"), expected);
}

#[test]
fn an_unknown_section() {
    let expected = r#"error: the scenario has no key `netwrok`; did you mean `network`?
  --> rack.toml:12:2
   |
12 | [netwrok.link]
   |  ^^^^^^^
"#;
    assert_eq!(report("messages = 1000", "messages = 1000\n[netwrok.link]"), expected);
}

#[test]
fn a_quantity_without_unit() {
    let expected = r#"error: network.link.rate: `100` has no unit: write for example `100Gbps`
 --> rack.toml:4:17
  |
4 | link = { rate = 100, propagation = "10ns" }
  |                 ^^^
"#;
    assert_eq!(report("\"100Gbps\"", "100"), expected);
}

#[test]
fn a_value_of_another_type() {
    let expected = r#"error: network.topology.nodes: expected a whole number from 0 to 4294967295, found `many`
 --> rack.toml:3:37
  |
3 | topology = { kind = "star", nodes = "many" }
  |                                     ^^^^^^
"#;
    assert_eq!(report("16", "\"many\""), expected);
}

#[test]
fn a_value_out_of_bounds() {
    let expected = r#"error: network.topology.nodes: 1 is outside 2 to 65536
 --> rack.toml:3:37
  |
3 | topology = { kind = "star", nodes = 1 }
  |                                     ^
"#;
    assert_eq!(report("16", "1"), expected);
    let expected = r#"error: workload.load: a load of 0% offers no messages: give more
  --> rack.toml:10:8
   |
10 | load = 0.0
   |        ^^^
"#;
    assert_eq!(report("0.8", "0.0"), expected);
}

#[test]
fn a_missing_key() {
    let expected = r#"error: workload needs `load`
 --> rack.toml:8:1
  |
8 | [workload]
  | ^^^^^^^^^^
"#;
    assert_eq!(report("load = 0.8\n", ""), expected);
}

#[test]
fn nothing_at_all() {
    let expected = "error: the scenario needs `network`
 --> rack.toml:1:1
  |
1 | 
  | ^

error: the scenario needs `fabric`
 --> rack.toml:1:1
  |
1 | 
  | ^

error: the scenario needs `workload`
 --> rack.toml:1:1
  |
1 | 
  | ^
";
    assert_eq!(report_of("", &[]), expected);
}

#[test]
fn an_impossible_topology() {
    let tree = "kind = \"fat-tree\", ports = 5";
    let racks = "kind = \"leaf-spine\", racks = 1, hosts_per_rack = 1, spines = 1";
    let pool = "kind = \"drack\", racks = 8, hosts_per_rack = 2, cores = 0";
    let idle = "kind = \"drack\", racks = 2, hosts_per_rack = 8, cores = 1";
    let none = "kind = \"torack\", racks = 2, hosts_per_rack = 8, uplinks = 0";
    let empty = "kind = \"drack\", racks = 2, hosts_per_rack = 0";
    let said = [
        (tree, "5 is odd"),
        (racks, "1 nodes is outside 2 to 65536"),
        (pool, "at least 1 core switch is needed"),
        (idle, "reaches every aggregation switch: leave this out"),
        (none, "0 is outside 1 to 65536"),
        (empty, "hosts_per_rack: 0 is outside 1 to 65536"),
    ];
    for (shape, why) in said {
        let text = format!(
            "network.topology = {{ {shape} }}\nfabric.protocol = \"ideal\"\n\
             workload = {{ kind = \"flows\", size = \"1kB\", load = 0.5, messages = 1 }}"
        );
        let scenario = Scenario::parse("rack.toml", &text, &Overrides::none()).unwrap();
        let error = scenario.check(&known()).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("rack.toml:1"), "{error}");
        assert_eq!(error.matches("error:").count(), 1, "what follows from one fault is not another: {error}");
    }
}

#[test]
fn only_pooled_hosts_have_cxl_ports() {
    let error = report("link = {", "cxl_link = {");
    assert!(error.contains("network.cxl_link: only hosts of a `drack`"), "{error}");
    assert!(error.contains("rack.toml:4"), "{error}");
}

#[test]
fn hosts_that_cannot_be() {
    let checked = |host: &str, protocol: &str, shape: &str| {
        let text = format!(
            "network.topology = {{ {shape} }}\nfabric.protocol = \"{protocol}\"\nhost = {{ {host} }}\n\
             workload = {{ kind = \"flows\", size = \"1kB\", load = 0.5, messages = 1 }}"
        );
        Scenario::parse("rack.toml", &text, &Overrides::none()).unwrap().check(&known())
    };
    let pool = "kind = \"drack\", racks = 2, hosts_per_rack = 4";
    assert!(checked("", "tcp", pool).is_ok());
    for (host, why) in [
        ("memory_pol = true", "did you mean `memory_pool`?"),
        (
            "memory = { interleave = \"128B\" }",
            "host.memory.interleave: 128B is no power of two from 256B to 16KiB",
        ),
        (
            "memory = { size = \"6MiB\" }",
            "host.memory.size: 6MiB of a host is less than its receive queues need",
        ),
        ("memory = { outstanding_loads = 0 }", "host.memory.outstanding_loads: 0 is outside 1"),
        (
            "memory_pool = false, references = true",
            "host.references: references need memory that both hosts reach",
        ),
        ("cache = { lines = [] }", "host.cache.lines: expected 1 to 8 sizes"),
        ("cache = { lines = [\"4KiB\", \"128B\"] }", "each larger than the one before"),
        ("cache = { size = \"4KiB\" }", "host.cache.size: 4KiB is less than one set"),
        ("nic = { headroom = \"1KiB\" }", "host.nic.headroom: 1KiB cannot hold a packet"),
        ("cpu = { cores = 0 }", "host.cpu.cores: 0 is outside 1"),
    ] {
        let error = checked(host, "tcp", pool).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("rack.toml:3"), "{error}");
    }
    let error = checked("", "homa", pool).unwrap_err().to_string();
    assert!(error.contains("host: `homa` does not simulate hosts"), "{error}");
    let error = checked("", "tcp", "kind = \"torus\", shape = [2, 2]").unwrap_err().to_string();
    assert!(error.contains("host: a `torus` has no switches, which `[host]` needs"), "{error}");
}

#[test]
fn a_choice_that_is_none() {
    let expected = r#"error: workload.pattern: no such choice: `all-to-al`; did you mean `all-to-all`?
  --> rack.toml:11:11
   |
11 | pattern = "all-to-al"
   |           ^^^^^^^^^^^
"#;
    assert_eq!(report("messages = 1000", "pattern = \"all-to-al\"\nmessages = 1000"), expected);
    let expected = r#"error: fabric.protocol: no such choice: `dctpc`; did you mean `dctcp`?
 --> rack.toml:6:12
  |
6 | protocol = "dctpc"
  |            ^^^^^^^
"#;
    assert_eq!(report("\"edm\"", "\"dctpc\""), expected);
}

#[test]
fn a_shape_without_its_number() {
    let said = [
        ("pattern = \"rack-local\"", "workload.pattern: write { kind = \"rack-local\", fraction = \"80%\" }"),
        ("pattern = { kind = \"hot-spots\" }", "write { kind = \"hot-spots\", exponent = 1.2 }"),
        ("pattern = { kind = \"incast\", exponent = 1 }", "no key but `fan_in`"),
        ("pattern = { kind = \"incast\", fanin = 1 }", "did you mean `fan_in`"),
        ("pattern = { kind = \"rack-local\", fraction = 1.5 }", "outside 0% to 100%"),
        ("pattern = 5", "workload.pattern"),
        ("arrivals = \"log-normal\"", "write { kind = \"log-normal\", sigma = 2.0 }"),
        ("arrivals = { kind = \"poisson\", sigma = 1 }", "`sigma` goes with `log-normal`"),
        ("arrivals = \"poison\"", "did you mean `poisson`"),
        ("warm_up = \"many\"", "workload.warm_up"),
        ("warm_up = 1000", "all 1000 messages are excluded: 1000 are not counted"),
        ("warm_up = 500\ncool_down = 500", "workload.cool_down: all 1000 messages are excluded"),
        ("blades = { compute = 8, memory = 4, disk = 5 }", "17 blades do not fit on 16 nodes"),
        ("blades = { compute = 8, memory = 4, scope = \"row\" }", "use `rack` or `datacenter`"),
        ("size = { pareto = 1.05 }", "give either `minimum` or `mean` beside `pareto`"),
        ("size = { cdf = \"hadoop\", mean = \"9kB\" }", "`minimum`, `mean` and `maximum` go with `pareto`"),
        ("size = { pareto = 1.05, cdf = \"hadoop\" }", "give one of `cdf`, `cdf_file` and `pareto`"),
        ("disk = { fraction = 0.1, size = \"0B\" }", "workload.disk.size: 0B is outside"),
    ];
    for (line, why) in said {
        let report = report("messages = 1000", &format!("{line}\nmessages = 1000"));
        assert!(report.contains(why) && report.contains(" --> rack.toml:1"), "{line}: {report}");
    }
}

#[test]
fn cables_that_are_no_rack() {
    let folder = unrack_testing::TestFolder::new("cables");
    let list = folder.join("cables");
    let set = format!("network.topology={{kind=\"graph\",file={:?}}}", list.display().to_string());
    let report = |text: &[u8]| {
        std::fs::write(&list, text).unwrap();
        report_of(GOOD, &[&set])
    };
    let said = [
        report(b"0 1\n1 x\n"),
        report(b"0 1\n2 3\n"),
        report(b"\xff\xfe"),
        report(&vec![b'#'; (64 << 20) + 1]),
        report_of(GOOD, &["network.topology={kind=\"graph\",file=\"no/such\"}"]),
        report_of(GOOD, &["network.topology={kind=\"graph\"}"]),
    ];
    let why = [
        "line 2: `x` is no node",
        "no path leads from node 0 to node 2",
        "is not UTF-8 text in line 1",
        "is longer than 64 MiB",
        "`no/such`: cannot be read",
        "file",
    ];
    for (said, why) in said.iter().zip(why) {
        assert!(said.contains(why) && said.contains("network.topology"), "{why}: {said}");
        assert!(said.contains("--> --set") && said.contains('^'), "{said}");
    }
}

#[test]
fn a_distribution_that_is_none() {
    let expected = r#"error: workload.size.cdf: no distribution is named `websarch`; did you mean `websearch`?
 --> --set
  |
  | workload.size={cdf="websarch"}
  |                    ^^^^^^^^^^
"#;
    let expected = expected.replace("\n  |", "\n |").replace("\n -->", "\n-->");
    assert_eq!(report_of(GOOD, &["workload.size={cdf=\"websarch\"}"]), expected);
}

#[test]
fn all_problems_at_once_in_the_order_of_the_text() {
    let text = GOOD.replace("10ns", "10").replace("seed = 3", "seed = -3").replace("chunk", "\tchunk");
    let text =
        text.replace("0.8", "1.8").replace("kind = \"memory\"", "kind = \"memory\"\nsize = 5\nextra = 1");
    let expected = r#"error: seed: expected a whole number that is not negative, found `-3`
 --> rack.toml:1:8
  |
1 | seed = -3
  |        ^^

error: network.link.propagation: `10` has no unit: write for example `10us`
 --> rack.toml:4:42
  |
4 | link = { rate = "100Gbps", propagation = "10" }
  |                                          ^^^^

error: workload.size: `5` has no unit: write for example `5MiB`
  --> rack.toml:10:8
   |
10 | size = 5
   |        ^

error: workload has no key `extra`; use `kind`, `read_fraction`, `rmw_fraction`, `size`, `request_size`, `rmw_request_size`, `rmw_size`, `load`, `messages`, `pattern`, `arrivals`, `blades`, `disk`, `warm_up` or `cool_down`
  --> rack.toml:11:1
   |
11 | extra = 1
   | ^^^^^

error: workload.load: `1.8` is outside 0% to 100%
  --> rack.toml:12:8
   |
12 | load = 1.8
   |        ^^^
"#;
    assert_eq!(report_of(&text, &[]), expected);
}

#[test]
fn text_that_is_not_toml() {
    let expected = r#"error: missing opening quote, expected `"`
 --> rack.toml:4:17
  |
4 | link = { rate = 100Gbps", propagation = "10ns" }
  |                 ^
"#;
    assert_eq!(report("\"100Gbps", "100Gbps"), expected);
}

#[test]
fn an_override_is_shown_as_given() {
    let expected = r#"error: network.link has no key `ratee`; did you mean `rate`?
--> --set
 |
 | network.link.ratee=400Gbps
 |              ^^^^^
"#;
    assert_eq!(report_of(GOOD, &["network.link.ratee=400Gbps"]), expected);
    let expected = r#"error: write KEY=VALUE, for example network.link.rate=400Gbps
--> --set
 |
 | network.link.rate
 | ^^^^^^^^^^^^^^^^^
"#;
    assert_eq!(report_of(GOOD, &["network.link.rate"]), expected);
    let expected = r#"error: `` is not a key
--> --set
 |
 | network..rate=1
 |         ^
"#;
    assert_eq!(report_of(GOOD, &["network..rate=1"]), expected);
}

#[test]
fn a_mark_under_a_line_with_tabs_is_in_the_right_column() {
    let expected = "error: workload.load: `9` is outside 0% to 100%; did you mean `9%`?
  --> rack.toml:10:9
   |
10 | \tload =\t9
   | \t      \t^
";
    assert_eq!(report("load = 0.8", "\tload =\t9"), expected);
}

#[test]
fn more_memory_than_nodes() {
    let expected = r#"error: workload.blades: 17 blades do not fit on 16 nodes
  --> rack.toml:11:10
   |
11 | blades = { compute = 1, memory = 16 }
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"#;
    let found = report("messages", "blades = { compute = 1, memory = 16 }\nmessages");
    assert_eq!(found, expected);
}

/// Folder of one test, removed afterwards.
struct Folder(unrack_testing::TestFolder);

impl Folder {
    fn new(name: &str, files: &[(&str, &[u8])]) -> Folder {
        let path = unrack_testing::TestFolder::new(name);
        files.iter().for_each(|(file, text)| std::fs::write(path.join(file), text).unwrap());
        Folder(path)
    }

    /// Returns the report on a file, without the folder's name.
    fn report(&self, file: &str) -> String {
        let checked = Scenario::load(self.0.join(file), &Overrides::none()).and_then(|it| it.check(&known()));
        checked
            .expect_err("this scenario is wrong")
            .to_string()
            .replace(&format!("{}/", self.0.display()), "")
    }
}

#[test]
fn files_that_extend_each_other() {
    let folder = Folder::new(
        "cycle",
        &[
            ("a.toml", b"seed = 1\nextends = \"b.toml\"\n"),
            ("b.toml", b"extends = \"a.toml\"\n"),
            ("c.toml", b"extends = \"absent.toml\"\n"),
            ("d.toml", b"extends = 5\n"),
        ],
    );
    let expected = r#"error: a.toml extends itself
 --> b.toml:1:11
  |
1 | extends = "a.toml"
  |           ^^^^^^^^"#;
    assert_eq!(folder.report("a.toml"), expected);
    let expected = r#"error: cannot read absent.toml: No such file or directory (os error 2)
 --> c.toml:1:11
  |
1 | extends = "absent.toml"
  |           ^^^^^^^^^^^^^"#;
    assert_eq!(folder.report("c.toml"), expected);
    assert!(
        folder.report("d.toml").starts_with("error: `extends` needs a file name, not `5`\n --> d.toml:1:11")
    );
}

#[test]
fn a_problem_in_a_base_is_shown_in_the_base() {
    let bad = GOOD.replace("16", "1");
    let files: &[(&str, &[u8])] =
        &[("base.toml", bad.as_bytes()), ("top.toml", b"extends = \"base.toml\"\n")];
    let folder = Folder::new("base", files);
    assert!(folder.report("top.toml").contains(" --> base.toml:3:37\n"));
}

#[test]
fn what_is_not_a_text_file() {
    let folder = Folder::new("binary", &[("a.toml", b"seed = 1\n\xff\xfe\n")]);
    assert_eq!(folder.report("a.toml"), "error: a.toml:2: this line is not UTF-8 text");
    std::fs::create_dir(folder.0.join("folder.toml")).unwrap();
    assert!(folder.report("folder.toml").contains("folder.toml is a folder, where a file is needed"));
    assert_eq!(folder.report("absent"), "error: cannot read absent: No such file or directory (os error 2)");
}

#[test]
fn no_more_than_a_line_of_a_long_line_is_shown() {
    let comment = "x".repeat(1 << 19);
    for spoilt in [format!("{comment} = 1\n{GOOD}"), GOOD.replace("3", &format!("\"{comment}\""))] {
        let report = report_of(&spoilt, &[]);
        assert!(report.lines().all(|line| line.chars().count() <= 350), "{} characters", report.len());
        assert!(report.contains("^^^^") && report.contains("rack.toml:1:"), "{report}");
    }
    let far = format!("{GOOD}\npattern = {{ {}, fan = 3 }}", "a = 1, ".repeat(2000));
    let report = report_of(&far, &[]);
    assert!(report.contains("and ") || report.lines().all(|line| line.chars().count() <= 350), "{report}");
    let many: String = (0..5000).map(|n| format!("[k{n}]\n")).collect();
    let report = report_of(&format!("{GOOD}{many}"), &[]);
    assert!(report.trim_end().ends_with("and 4950 more"), "{}", &report[report.len() - 200..]);
}

#[test]
fn a_pipe_is_no_scenario_and_nobody_waits_for_it() {
    let folder = Folder::new("pipe", &[("a.toml", b"extends = \"pipe\"\n")]);
    let made = std::process::Command::new("mkfifo").arg(folder.0.join("pipe")).status();
    assert!(made.unwrap().success());
    assert!(folder.report("pipe").contains("pipe is a pipe, where a file is needed"));
    assert!(folder.report("a.toml").contains("a pipe"));
    let zero = Scenario::load("/dev/zero", &Overrides::none()).unwrap_err().to_string();
    assert_eq!(zero, "error: /dev/zero is a device, where a file is needed");
}

/// Returns the report on `GOOD` with this failure.
fn failing(failure: &str) -> String {
    report("seed = 3", &format!("seed = 3\nfailures = [{{ {failure} }}]"))
}

#[test]
fn a_failure_says_what_fails_and_when() {
    let first_line = |text: String| text.lines().next().unwrap().to_string();
    let refused = |failure| first_line(failing(failure));
    assert_eq!(
        failing(r#"node = 16, from = "1us""#),
        r#"error: failures: there is no node 16: the network has 16, numbered from 0
 --> rack.toml:2:22
  |
2 | failures = [{ node = 16, from = "1us" }]
  |                      ^^
"#
    );
    let what = "error: failures: expected one of `node`, `switch` and `between`, for what fails";
    assert_eq!(refused(r#"from = "1us""#), what);
    assert_eq!(refused(r#"node = 1, switch = 0, from = "1us""#), what);
    assert!(refused(r#"switch = 1, from = "1us""#).contains("there is no switch 1"));
    assert!(
        refused(r#"node = 1, from = "2us", until = "1us""#)
            .contains("`until` (1us) is not after `from` (2us)")
    );
    assert!(refused(r#"node = 1, from = "1us", every = "5us""#).contains("needs `until`"));
    assert!(refused(r#"node = 1, from = "1us", until = "9us", every = "5us""#).contains("down for 8us"));
    assert!(refused(r#"node = 1, from = "2000000s""#).contains("is after the end of simulated time"));
    assert!(refused(r#"node = 1, form = "1us""#).contains("did you mean `from`?"));
    let report = report("seed = 3", "seed = 3\nbit_errors.link = 1.5");
    assert!(report.contains("1.5 is not a probability"), "{report}");
    let ideal =
        report_of(&GOOD.replace("\"edm\"", "\"ideal\"").replace("seed = 3", "bit_errors.link = 1e-9"), &[]);
    assert!(ideal.contains("`ideal` is a bound without links"), "{ideal}");
}

#[test]
fn buffers_are_shared_where_packets_wait_in_them() {
    let refused = |protocol: &str, set: &str| {
        report_of(&GOOD.replace("\"edm\"", &format!("\"{protocol}\"")), &[&format!("network.switch.{set}")])
    };
    assert!(refused("edm", "buffer=shared 1MiB").contains("queues no data (EDM §3.1): leave out `shared`"));
    assert!(refused("cxl", "buffer=shared 1MiB").contains("the buffer of one link each"));
    assert!(refused("ideal", "buffer=shared 1MiB").contains("a bound without switches"));
    assert!(refused("dctcp", "buffer=shared 12").contains("unit"));
    assert!(refused("dctcp", "alpha=2").contains("only a shared buffer has one: buffer = \"shared 36KiB\""));
    let zero = report_of(
        &GOOD.replace("\"edm\"", "\"dctcp\""),
        &["network.switch.buffer=shared 1MiB", "network.switch.alpha=0"],
    );
    assert!(zero.contains("0 is outside"), "{zero}");
}
