//! Misspelt words: each is refused with status 2 and the word that was probably meant.

use crate::desk;

use desk::{Desk, example};

/// A case: arguments, and the expected message.
type Case = (Vec<String>, &'static str);

fn case(line: &str, said: &'static str) -> Case {
    (line.split_whitespace().map(String::from).collect(), said)
}

/// Returns a case of `unrack sim examples/star-edm.toml` with more arguments.
fn simulated(more: &str, said: &'static str) -> Case {
    let (mut arguments, said) = case(more, said);
    arguments.splice(0..0, ["sim".into(), example("star-edm.toml")]);
    (arguments, said)
}

fn refuse_all(name: &str, cases: Vec<Case>) {
    let desk = Desk::new(name);
    for (arguments, said) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let text = desk.refused(2, &arguments);
        assert!(text.contains(&format!("did you mean {said}?")), "{arguments:?}: {text}");
    }
}

#[test]
fn keys_of_scenarios() {
    refuse_all(
        "keys",
        vec![
            simulated("--set fabric.protcol=dctcp", "`protocol`"),
            simulated("--set fabirc.protocol=dctcp", "`fabric`"),
            simulated("--set fabric.chonk=1KiB", "`chunk`"),
            simulated("--set network.topolgy={kind=\"star\",nodes=4}", "`topology`"),
            simulated("--set network.topology.knd=star", "`kind`"),
            simulated("--set network.topology.nods=4", "`nodes`"),
            simulated("--set network.link.rat=100Gbps", "`rate`"),
            simulated("--set network.swich.buffer=1MiB", "`switch`"),
            simulated("--set workload.knid=flows", "`kind`"),
            simulated("--set workload.mesages=10", "`messages`"),
            simulated("--set workload.pattern={kind=\"incast\",fan_inn=3}", "`fan_in`"),
            simulated("--set host.cahce.size=1MiB", "`cache`"),
            simulated("--set failures=[{from=\"1us\",nod=1}]", "`node`"),
            simulated("--set bit_errors.lnk=0.1", "`link`"),
        ],
    );
}

/// The key that decides the kind of a table is misspelt in a file.
#[test]
fn keys_that_say_what_a_table_is() {
    let text = std::fs::read_to_string(example("star-edm.toml")).unwrap();
    let desk = Desk::new("telling");
    for (from, to, meant) in
        [("protocol =", "protocl =", "protocol"), ("kind = \"memory\"", "knd = \"memory\"", "kind")]
    {
        assert!(text.contains(from), "{from} in {text}");
        let file = desk.file("slip.toml", text.replace(from, to));
        let said = desk.refused(2, &["sim", &file]);
        assert!(said.contains(&format!("did you mean `{meant}`?")) && said.contains("slip.toml:"), "{said}");
    }
}

#[test]
fn words_and_units_of_scenarios() {
    refuse_all(
        "words",
        vec![
            simulated("--set fabric.protocol=cxll", "`cxl`"),
            simulated("--set fabric.policy=srtp", "`srpt`"),
            simulated("--set network.topology={kind=\"tours\",shape=[2,2]}", "`torus`"),
            simulated("--set workload.kind=flow", "`flows`"),
            simulated("--set workload.size={cdf=\"websaerch\"}", "`websearch`"),
            simulated("--set workload.pattern=permutatoin", "`permutation`"),
            simulated("--set workload.arrivals=poison", "`poisson`"),
            simulated("--set network.headers=ehternet", "`ethernet`"),
            simulated("--set network.link.rate=100gbps", "`100Gbps`"),
            simulated("--set network.link.rate=100Gb/s", "`100Gbps`"),
            simulated("--set network.link.rate=12.5GB/s", "`100Gbps`"),
            simulated("--set network.link.propagation=10nsec", "`10ns`"),
            simulated("--set network.switch.buffer=64Kb", "`64kB`"),
            simulated("--set workload.size=64K", "`64KiB`"),
            simulated("--set workload.load=60", "`60%`"),
        ],
    );
}

#[test]
fn words_and_units_of_the_command_line() {
    refuse_all(
        "options",
        vec![
            case("compare --fabric edm,cxll -- true", "`cxl`"),
            case("compare --rate 100gbps -- true", "`100Gbps`"),
            case("compare --local 25 -- true", "`25%`, or a size such as `25MiB`"),
            case("map --local 10,25% -- true", "`10%`, or a size such as `10MiB`"),
            case("map --bandwidth 10gbps -- true", "`10Gbps`"),
            case("run --local 25 -- true", "`25%`, or a size such as `25MiB`"),
            case("run --local 64M -- true", "`64MiB`"),
            case("run --latency 3usec -- true", "`3us`"),
            case("study run edm/fig8", "`edm/fig8a`"),
            case("study run drack/fig99", "`drack/fig9`"),
            case("pool serve --capacity 64MB", "`64MiB`"),
            case("pool serve --capacity 64Mb", "`64MB`"),
            case("pool serve --queue 64kB", "`64KiB`"),
            case("pool serve --memory incohernt", "`incoherent`"),
            case("pool serve --backing hug", "`huge`"),
            case("memory serve --listen 127.0.0.1:0 --capacity 4gib", "`4GiB`"),
            case("rpc bench --waiting adaptiv", "`adaptive`"),
            case("rpc bench --memory modl", "`model`"),
            simulated("--only mesage=3 --pcap x", "`message`"),
        ],
    );
}

#[test]
fn programs_come_after_two_dashes() {
    refuse_all(
        "separator",
        vec![
            case("run ls", "`unrack run -- ls`"),
            case("run ls -l", "`unrack run -- ls -l`"),
            case("run --local 25% ls ls", "`unrack run --local 25% -- ls ls`"),
            case("compare --nodes 4 python3 job.py", "`unrack compare --nodes 4 -- python3 job.py`"),
            case("map ./program", "`unrack map -- ./program`"),
            case("rack exec 0 ls", "`unrack rack exec 0 -- ls`"),
        ],
    );
    let desk = Desk::new("no-separator");
    // An option that does not exist, and a word too many where no program is taken, are other errors.
    for arguments in
        [&["run", "--lcal", "25%", "--", "ls"][..], &["study", "list", "ls"], &["run", "-x", "ls"]]
    {
        let said = desk.refused(2, arguments);
        assert!(!said.contains("a program comes after"), "{arguments:?}: {said}");
    }
}

/// Misspelt verbs and options, which the parser of command lines detects.
#[test]
fn verbs_and_options() {
    let desk = Desk::new("verbs");
    for (arguments, meant) in [
        (&["comapre"][..], "'compare'"),
        (&["sim", "--exlpain", "1", "a.toml"], "'--explain'"),
        (&["completions", "bsh"], "'bash'"),
    ] {
        let said = desk.refused(2, arguments);
        assert!(said.contains(meant), "{arguments:?}: {said}");
    }
}
