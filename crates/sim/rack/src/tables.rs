//! Tables of a scenario, including defaults, in the order of printing. Each comes with the keys that it accepts.

use serde::Serialize;
use serde_json::Value as Schema;
use toml::{Table, Value as Toml};

use crate::check::{SECTIONS, network_schema};
use crate::faults::{BitErrors, Faults, ScheduledFailure};
use crate::host::HostSpec;
use crate::network::NetworkSpec;
use crate::schema;
use crate::topology::{Cabling, TopologySpec};
use crate::tree::{Node, Value};
use crate::workload::{Collective, FlowWorkload, Jobs, Memory, Trace, Workload};

/// Table at the top level of a scenario.
pub(crate) struct TopTable {
    /// Key of the table; empty for the keys at the top level itself.
    pub name: &'static str,
    /// Values of the table; `None` if the scenario does not have the table.
    pub values: Option<Table>,
    pub schema: Schema,
    /// Whether the table counts towards the hash of the scenario.
    pub hashed: bool,
}

impl TopTable {
    /// Returns the keys that lead to the table.
    pub(crate) fn path(&self) -> Vec<String> {
        if self.name.is_empty() { Vec::new() } else { vec![self.name.into()] }
    }
}

/// Values of a scenario from which its tables are created.
pub(crate) struct Said<'a> {
    pub seed: u64,
    pub network: &'a NetworkSpec,
    pub fabric: &'a FabricTable,
    pub host: &'a Option<HostSpec>,
    pub workload: &'a Workload,
    pub faults: &'a Faults,
}

/// Table `fabric`. It holds the keys as written until the parameters are read; after that, it holds all keys with their
/// schema.
#[derive(Debug, Clone)]
pub(crate) struct FabricTable {
    pub values: Table,
    pub schema: Schema,
    /// Keys whose values are not their defaults. Empty until the parameters are read.
    pub changed: Vec<String>,
}

impl FabricTable {
    /// Returns the table as written, before its parameters are read.
    pub(crate) fn as_written(node: Option<&Node>) -> FabricTable {
        FabricTable {
            values: node.map(table_of).unwrap_or_default(),
            schema: Schema::Null,
            changed: Vec::new(),
        }
    }
}

pub(crate) fn parts(said: &Said) -> Vec<TopTable> {
    let Said { network, fabric, host, workload, faults, .. } = *said;
    let part = |name, values, schema| TopTable { name, values, schema, hashed: true };
    let bit_errors = part("bit_errors", Some(fields_of(&faults.bit_errors)), schema::for_type::<BitErrors>());
    vec![
        part("", Some(general(said)), general_schema()),
        part("network", Some(network_table(network, host.is_some())), network_keys(network)),
        part("fabric", Some(fabric.values.clone()), fabric.schema.clone()),
        part("host", host.as_ref().map(fields_of), described("host", schema::for_type::<HostSpec>())),
        part("workload", Some(workload_table(workload)), workload_schema(workload)),
        TopTable { hashed: faults.bit_errors != BitErrors::default(), ..bit_errors },
    ]
}

/// Returns the top-level keys that do not hold a table.
fn general(said: &Said) -> Table {
    let mut general = table([("seed", toml_of(&said.seed))]);
    if !said.faults.failures.is_empty() {
        general.insert("failures".into(), toml_of(&said.faults.failures));
    }
    general
}

fn general_schema() -> Schema {
    schema::table([
        ("extends", described("extends", schema::for_type::<String>())),
        ("seed", described("seed", schema::for_type::<u64>())),
        ("failures", described("failures", schema::for_type::<Vec<ScheduledFailure>>())),
    ])
}

fn described(section: &str, schema: Schema) -> Schema {
    let known = SECTIONS.iter().find(|(name, _)| *name == section);
    schema::described(known.expect("a key of scenarios").1, schema)
}

/// Returns the schema of `network`. The hash covers only links that the topology has.
fn network_keys(network: &NetworkSpec) -> Schema {
    let mut schema = network_schema(&network.topology);
    let topology = &network.topology;
    if matches!(topology, TopologySpec::Star { .. }) || topology.is_direct() {
        schema["properties"]["core_link"]["x-unhashed"] = true.into();
    }
    schema
}

fn network_table(network: &NetworkSpec, has_hosts: bool) -> Table {
    let NetworkSpec { topology, link, core_link, cxl_link, switch, mtu, headers } = network;
    let mut network = table([
        ("mtu", toml_of(mtu)),
        ("headers", toml_of(headers)),
        ("topology", Toml::Table(topology_table(topology))),
        ("link", toml_of(link)),
        ("core_link", toml_of(core_link)),
        ("switch", toml_of(switch)),
    ]);
    if topology.wiring().is_some() || has_hosts {
        network.insert("cxl_link".into(), toml_of(cxl_link));
    }
    network
}

fn topology_table(topology: &TopologySpec) -> Table {
    let mut shape = match topology {
        TopologySpec::Star { nodes } => table([("nodes", toml_of(nodes))]),
        TopologySpec::LeafSpine { racks, hosts_per_rack, spines } => table([
            ("racks", toml_of(racks)),
            ("hosts_per_rack", toml_of(hosts_per_rack)),
            ("spines", toml_of(spines)),
        ]),
        TopologySpec::FatTree { ports } => table([("ports", toml_of(ports))]),
        TopologySpec::Drack { racks, hosts_per_rack, cores } => table([
            ("racks", toml_of(racks)),
            ("hosts_per_rack", toml_of(hosts_per_rack)),
            ("cores", toml_of(cores)),
        ]),
        TopologySpec::Torack { racks, hosts_per_rack, uplinks } => table([
            ("racks", toml_of(racks)),
            ("hosts_per_rack", toml_of(hosts_per_rack)),
            ("uplinks", toml_of(uplinks)),
        ]),
        TopologySpec::Torus { sides } | TopologySpec::Mesh { sides } => table([("shape", toml_of(sides))]),
        TopologySpec::Graph(Cabling { file, .. }) => table([("file", toml_of(file))]),
        TopologySpec::Built(built) => built.keys.clone(),
    };
    shape.insert("kind".into(), topology.kind().into());
    shape
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

type SchemaMaker = fn() -> Schema;

/// Kinds of workloads, with the schema of the keys of each kind.
pub(crate) const WORKLOADS: [(&str, SchemaMaker); 5] = [
    ("memory", schema::for_type::<Memory>),
    ("flows", schema::for_type::<FlowWorkload>),
    ("trace", schema::for_type::<Trace>),
    ("collective", schema::for_type::<Collective>),
    ("jobs", schema::for_type::<Jobs>),
];

fn workload_schema(workload: &Workload) -> Schema {
    let kind = workload.kind();
    let (_, schema) = WORKLOADS.iter().find(|(name, _)| *name == kind).expect("a kind of workload");
    schema()
}

fn table_of(node: &Node) -> Table {
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

fn toml_of(value: &impl Serialize) -> Toml {
    Toml::try_from(value).expect("a scenario's own values are TOML")
}

fn fields_of(value: &impl Serialize) -> Table {
    Table::try_from(value).expect("a scenario's own tables are TOML")
}

fn table<const N: usize>(entries: [(&str, Toml); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}
