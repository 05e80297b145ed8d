//! A scenario in full, as TOML, with where each value came from.

use serde::Serialize;
use toml::{Table, Value as Toml};

use crate::faults::{BitErrors, Faults};
use crate::host::Host;
use crate::network::{Cabling, Network, Topology};
use crate::source::Source;
use crate::tree::{Node, Value};
use crate::workload::Workload;

/// One table of the scenario: the keys that lead to it and its plain values, in the order of
/// printing.
pub(crate) struct Section {
    path: Vec<String>,
    values: Vec<(String, Toml)>,
}

/// Keys that say what their table is come first.
const FIRST: [&str; 2] = ["kind", "protocol"];

pub(crate) fn sections(
    seed: u64,
    network: &Network,
    fabric: &Table,
    host: &Option<Host>,
    workload: &Workload,
    faults: &Faults,
) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut general = table([("seed", toml_of(&seed))]);
    if !faults.failures.is_empty() {
        general.insert("failures".into(), toml_of(&faults.failures));
    }
    flatten(&[], general, &mut sections);
    flatten(&["network".into()], network_table(network, host.is_some()), &mut sections);
    flatten(&["fabric".into()], fabric.clone(), &mut sections);
    if let Some(host) = host {
        flatten(&["host".into()], fields_of(host), &mut sections);
    }
    flatten(&["workload".into()], workload_table(workload), &mut sections);
    if faults.bit_errors != BitErrors::default() {
        flatten(&["bit_errors".into()], fields_of(&faults.bit_errors), &mut sections);
    }
    sections
}

/// The text with a comment behind each value.
pub(crate) fn with_origins(sections: &[Section], root: &Node, sources: &[Source]) -> String {
    let origin = |path: &[String], key: &str| {
        let table = path.iter().try_fold(root, |node, key| node.get(key));
        match table.and_then(|table| table.get(key)) {
            Some(node) => sources[node.place.source].describe(node.place).replace(char::is_control, " "),
            None => "default".into(),
        }
    };
    print(sections, |line, width, path, key| format!("{line:width$}  # {}", origin(path, key)))
}

/// FNV-1a, 64 bits, of the text without comments.
pub(crate) fn hash(sections: &[Section]) -> String {
    let text = print(sections, |line, _, _, _| line.to_string());
    format!("{:016x}", fnv_1a(text.bytes()))
}

pub(crate) fn fnv_1a(bytes: impl Iterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step)
}

/// A table as written, for a fabric whose parameters nobody has read yet.
pub(crate) fn table_of(node: &Node) -> Table {
    let entries = node.table().into_iter().flatten();
    entries.map(|(key, entry)| (key.clone(), toml_of_node(&entry.node))).collect()
}

fn toml_of_node(node: &Node) -> Toml {
    match &node.value {
        Value::Text(text) | Value::Date(text) => Toml::String(text.clone()),
        Value::Integer(number) => Toml::Integer(*number),
        Value::Float(number) => Toml::Float(*number),
        Value::Boolean(truth) => Toml::Boolean(*truth),
        Value::List(nodes) => Toml::Array(nodes.iter().map(toml_of_node).collect()),
        Value::Table(_) => Toml::Table(table_of(node)),
    }
}

fn network_table(network: &Network, has_hosts: bool) -> Table {
    let Network { topology, link, core_link, cxl_link, switch, mtu, headers } = network;
    let mut shape = match topology {
        Topology::Star { nodes } => table([("nodes", toml_of(nodes))]),
        Topology::LeafSpine { racks, hosts_per_rack, spines } => table([
            ("racks", toml_of(racks)),
            ("hosts_per_rack", toml_of(hosts_per_rack)),
            ("spines", toml_of(spines)),
        ]),
        Topology::FatTree { ports } => table([("ports", toml_of(ports))]),
        Topology::Drack { racks, hosts_per_rack, cores } => table([
            ("racks", toml_of(racks)),
            ("hosts_per_rack", toml_of(hosts_per_rack)),
            ("cores", toml_of(cores)),
        ]),
        Topology::Torack { racks, hosts_per_rack, uplinks } => table([
            ("racks", toml_of(racks)),
            ("hosts_per_rack", toml_of(hosts_per_rack)),
            ("uplinks", toml_of(uplinks)),
        ]),
        Topology::Torus { sides } | Topology::Mesh { sides } => table([("shape", toml_of(sides))]),
        Topology::Graph(Cabling { file, .. }) => table([("file", toml_of(file))]),
    };
    shape.insert("kind".into(), topology.kind().into());
    let mut network = table([
        ("mtu", toml_of(mtu)),
        ("headers", toml_of(headers)),
        ("topology", Toml::Table(shape)),
        ("link", toml_of(link)),
        ("switch", toml_of(switch)),
    ]);
    if !matches!(topology, Topology::Star { .. }) && !topology.is_direct() {
        network.insert("core_link".into(), toml_of(core_link));
    }
    if topology.wiring().is_some() || has_hosts {
        network.insert("cxl_link".into(), toml_of(cxl_link));
    }
    network
}

fn workload_table(workload: &Workload) -> Table {
    let mut table = match workload {
        Workload::Memory(memory) => fields_of(memory),
        Workload::Flows(flows) => fields_of(flows),
        Workload::Trace(trace) => fields_of(trace),
        Workload::Collective(collective) => fields_of(collective),
        Workload::Jobs(jobs) => fields_of(jobs),
    };
    table.insert("kind".into(), workload.kind().into());
    table
}

fn toml_of(value: &impl Serialize) -> Toml {
    Toml::try_from(value).expect("a scenario's own values are TOML")
}

fn fields_of(value: &impl Serialize) -> Table {
    Table::try_from(value).expect("a scenario's own tables are TOML")
}

fn table<const N: usize>(entries: [(&str, Toml); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

/// Splits a table into its plain values and, after them, the tables inside.
fn flatten(path: &[String], table: Table, sections: &mut Vec<Section>) {
    // Whether a `Table` is sorted depends on how its crate was built.
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (tables, mut values): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, value)| value.is_table());
    values.sort_by_key(|(key, _)| !FIRST.contains(&key.as_str()));
    if !values.is_empty() {
        sections.push(Section { path: path.into(), values });
    }
    for (key, value) in tables {
        if let Toml::Table(inner) = value {
            flatten(&[path, &[key]].concat(), inner, sections);
        }
    }
}

/// Prints every value by `line(text, width of the section, path, key)`.
fn print(sections: &[Section], line: impl Fn(&str, usize, &[String], &str) -> String) -> String {
    let mut text = String::new();
    for Section { path, values } in sections {
        if !path.is_empty() {
            let path: Vec<_> = path.iter().map(|key| quoted(key)).collect();
            text += &format!("\n[{}]\n", path.join("."));
        }
        let lines = values.iter().map(|(key, value)| (key, format!("{} = {value}", quoted(key))));
        let lines: Vec<_> = lines.collect();
        let width = lines.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        for (key, value) in &lines {
            text += &line(value, width, path, key);
            text.push('\n');
        }
    }
    text
}

/// A key, in quotes if it needs them.
fn quoted(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04X}", c as u32),
        c => c.into(),
    };
    match !key.is_empty() && key.chars().all(bare) {
        true => key.into(),
        false => format!("\"{}\"", key.chars().map(escaped).collect::<String>()),
    }
}
