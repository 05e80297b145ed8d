//! Scenarios: they are read, then checked, then queried.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use unrack_basis::Fnv1a;
use unrack_units::Bytes;

use crate::check::{CheckedParts, Checker};
use crate::decode::decode_beside;
use crate::explain;
use crate::load::Loader;
use crate::network::BufferSize;
use crate::overrides::Overrides;
use crate::problem::{ScenarioError, ScenarioProblem};
use crate::schema;
use crate::source::Source;
use crate::tables::{FabricTable, Said, TopTable, parts};
use crate::tree::{Node, Value};
use crate::{
    Cabling, Faults, FileRef, FlowWorkload, HostSpec, KnownNames, Memory, NetworkSpec, Protocol, Size,
    SwitchSpec, TopologySpec, Workload,
};

/// Scenario as written, with the files that it extends and its overrides. Its keys are not yet checked.
#[derive(Debug, Clone)]
pub struct Scenario {
    root: Node,
    sources: Arc<Vec<Source>>,
}

impl Scenario {
    /// Reads a scenario file and every file that it extends, and applies the overrides.
    ///
    /// # Errors
    /// If a file cannot be read or is not TOML.
    pub fn load(path: impl AsRef<Path>, overrides: &Overrides) -> Result<Scenario, ScenarioError> {
        Scenario::assemble(overrides, |loader| loader.file(path.as_ref()))
    }

    /// Reads a scenario from a text instead of a file. Errors use `name` as the name of the text. Files that the text
    /// names are relative to the current folder.
    ///
    /// # Errors
    /// If the text or a file that it extends is not TOML or cannot be read.
    pub fn parse(name: &str, text: &str, overrides: &Overrides) -> Result<Scenario, ScenarioError> {
        Scenario::assemble(overrides, |loader| loader.text(name, Path::new(""), text))
    }

    fn assemble(
        overrides: &Overrides,
        read: impl FnOnce(&mut Loader) -> Option<Node>,
    ) -> Result<Scenario, ScenarioError> {
        let mut loader = Loader::default();
        let root = read(&mut loader).map(|root| loader.overridden(root, overrides));
        let sources = Arc::new(loader.sources);
        match root {
            Some(root) if loader.problems.is_empty() => Ok(Scenario { root, sources }),
            _ => Err(ScenarioError::new(loader.problems, sources)),
        }
    }

    /// Returns whether a key holds a list. This distinguishes other kinds of files from scenarios of networks.
    pub fn has_list(&self, key: &str) -> bool {
        self.root.get(key).is_some_and(|node| matches!(node.value, Value::List(_)))
    }

    /// Reads the whole file as a type of another crate, for files that do not describe a network. Unknown keys are
    /// rejected.
    ///
    /// # Errors
    /// Returns all problems of the file.
    pub fn read_as<T: DeserializeOwned>(&self) -> Result<T, ScenarioError> {
        let mut problems = Vec::new();
        let read = decode_beside::<T>(&self.root, "", &[], &mut problems);
        read.ok_or_else(|| ScenarioError::new(problems, self.sources.clone()))
    }

    /// Returns an error that shows the place of `path` (for example `host.0.name`) in the file. It is for conditions
    /// that only another crate can check.
    pub fn error_at(&self, path: &str, message: impl AsRef<str>) -> ScenarioError {
        let message = format!("{path}: {}", message.as_ref());
        let problem = ScenarioProblem::at(self.root.nearest_place(path), message);
        ScenarioError::new(vec![problem], self.sources.clone())
    }

    /// Checks every key and value except the parameters of the fabric, which [`ValidScenario::fabric_params`] checks.
    /// `known` holds the protocols and topologies that the scenario may name.
    ///
    /// # Errors
    /// Returns all problems of the scenario.
    pub fn check(self, known: &KnownNames) -> Result<ValidScenario, ScenarioError> {
        let mut checker = Checker::new(&self.root, &self.sources, known);
        let Some(CheckedParts { seed, network, protocol, workload, faults, host }) = checker.parts() else {
            return Err(ScenarioError::new(checker.problems, self.sources));
        };
        let fabric = FabricTable::as_written(self.root.get("fabric"));
        Ok(ValidScenario {
            seed,
            network,
            protocol,
            workload,
            faults,
            host,
            fabric,
            usual_buffer: SwitchSpec::default().buffer,
            root: self.root,
            sources: self.sources,
        })
    }
}

/// Scenario that passed all checks and can be run.
#[derive(Debug, Clone)]
pub struct ValidScenario {
    pub seed: u64,
    pub network: NetworkSpec,
    pub protocol: Protocol,
    pub workload: Workload,
    pub faults: Faults,
    /// Components inside hosts; `None` if the scenario has no `[host]`.
    pub host: Option<HostSpec>,
    fabric: FabricTable,
    usual_buffer: BufferSize,
    root: Node,
    sources: Arc<Vec<Source>>,
}

impl ValidScenario {
    /// Reads the keys of `fabric` other than `protocol` as the parameter type of the protocol. After that,
    /// [`ValidScenario::explain`] and [`ValidScenario::hash`] also cover the defaults of these parameters.
    ///
    /// `P` defines its defaults by `#[serde(default)]`, and the meanings of its keys by their documentation.
    ///
    /// # Errors
    /// Returns all problems of the parameters.
    pub fn fabric_params<P>(&mut self) -> Result<P, ScenarioError>
    where
        P: DeserializeOwned + Serialize + JsonSchema,
    {
        let mut problems = Vec::new();
        let node = self.root.at("fabric").unwrap_or(&self.root).without("protocol");
        let Some(params) = decode_beside::<P>(&node, "fabric", &["protocol"], &mut problems) else {
            return Err(ScenarioError::new(problems, self.sources.clone()));
        };
        let table = |params: &P| toml::Table::try_from(params);
        let mut values = table(&params).map_err(|why| self.error_at("fabric", why.to_string()))?;
        let is_changed = |key: &String| {
            let usual = decode_beside::<P>(&node.without(key), "fabric", &["protocol"], &mut Vec::new());
            let usual = usual.and_then(|usual| table(&usual).ok());
            node.at(key).is_some() && usual.is_none_or(|usual| usual.get(key) != values.get(key))
        };
        let changed = values.keys().filter(|key| is_changed(key)).cloned().collect();
        values.insert("protocol".into(), self.protocol.name().into());
        self.fabric = FabricTable { values, schema: schema::for_type::<P>(), changed };
        Ok(params)
    }

    /// Returns whether a key of `fabric` has a value other than its default. Like [`ValidScenario::hash`], this does not depend on
    /// whether a default is written out. It is known once the parameters have been read.
    pub fn changes_fabric(&self, key: &str) -> bool {
        self.fabric.changed.iter().any(|changed| changed == key)
    }

    /// Returns whether the buffer of ports is not the default of the protocol.
    pub fn changes_buffer(&self) -> bool {
        self.network.switch.buffer != self.usual_buffer
    }

    /// Sets the buffer of each port, unless the scenario sets one. It is for protocols whose default buffer depends on
    /// their parameters.
    pub fn default_buffer(&mut self, bytes: Bytes) {
        self.usual_buffer = BufferSize::Limited(bytes);
        if self.root.at("network.switch.buffer").is_none() {
            self.network.switch.buffer = BufferSize::Limited(bytes);
        }
    }

    /// Returns an error that shows the place of `path` (for example `fabric.chunk`) in the file. It is for conditions
    /// that only another crate can check.
    pub fn error_at(&self, path: &str, message: impl AsRef<str>) -> ScenarioError {
        let message = format!("{path}: {}", message.as_ref());
        let problem = ScenarioProblem::at(self.root.nearest_place(path), message);
        ScenarioError::new(vec![problem], self.sources.clone())
    }

    /// Returns the whole scenario as TOML, including defaults, with the origin of each value. Comments list every key
    /// and table that could be set and is not. The text reads back as the same scenario.
    pub fn explain(&self) -> String {
        explain::with_origins(&self.parts(), &self.root, &self.sources)
    }

    /// Returns a hash of this scenario as 16 hexadecimal digits. Two scenarios have equal hashes if all their values
    /// are equal, even if the values come from different files.
    pub fn hash(&self) -> String {
        explain::hash(&self.parts())
    }

    /// Returns a hash like [`ValidScenario::hash`] that also covers the contents of the named files. It therefore
    /// covers everything on which a result depends.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn hash_with_files(&self) -> Result<String, ScenarioError> {
        let mut hash = self.hash();
        for (key, file) in self.files() {
            let contents = unrack_input::read(&file.path, u64::MAX)
                .map_err(|why| self.error_at(key, format!("`{}` {}", file.written, why.reason)))?;
            hash = format!("{:016x}", Fnv1a::EMPTY.with(hash.as_bytes()).with(&contents).value());
        }
        Ok(hash)
    }

    /// Returns the files that the scenario names, each with the key that names it.
    pub fn files(&self) -> Vec<(&'static str, &FileRef)> {
        let cables = match &self.network.topology {
            TopologySpec::Graph(Cabling { file, .. }) => Some(("network.topology.file", file)),
            _ => None,
        };
        let work = match &self.workload {
            Workload::Trace(trace) => Some(("workload.file", &trace.file)),
            Workload::Memory(Memory { size: Size::File { file, .. }, .. })
            | Workload::Flows(FlowWorkload { size: Size::File { file, .. }, .. }) => {
                Some(("workload.size.cdf_file", file))
            }
            Workload::Memory(_) | Workload::Flows(_) | Workload::Collective(_) | Workload::Jobs(_) => None,
        };
        cables.into_iter().chain(work).collect()
    }

    fn parts(&self) -> Vec<TopTable> {
        parts(&Said {
            seed: self.seed,
            network: &self.network,
            fabric: &self.fabric,
            host: &self.host,
            workload: &self.workload,
            faults: &self.faults,
        })
    }
}
