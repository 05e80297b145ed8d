//! Jobs whose traffic comes from computing them: several at once, placed on hosts.

use crate::workload::{Collective, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// A mix of jobs and who decides where they run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// The jobs, in the order in which they are placed.
    pub jobs: Vec<Job>,
    /// Default first-fit.
    #[serde(default)]
    pub policy: Policy,
    /// Ranks of jobs that a host has room for, each with a core of its own. Default 1.
    #[serde(default = "one")]
    pub slots: u32,
}

/// Where jobs run, and when they may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The first hosts that have room.
    #[default]
    FirstFit,
    /// Racks take turns.
    RoundRobin,
    /// In as few racks as can be; jobs that share hosts take turns in sending (Ahmad et al., USENIX ATC 2014).
    ShuffleWatcher,
    /// As first-fit; what computes much and sends little sends first (Cao et al., SIGCOMM 2024).
    Crux,
}

/// One job: exactly one of the applications.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Name in results. Default: the application, and a number where there are several of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Ranks, each on a host. Default: as many as there are nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// The node of each rank, instead of what the policy would choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<u32>>,
    /// Time at which it starts. Default: at once.
    #[serde(default)]
    #[schemars(extend("x-unhashed" = "default"))]
    pub start: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagerank: Option<PageRank>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Components>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training: Option<Training>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_value: Option<KeyValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word_count: Option<WordCount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Embedding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<Collective>,
}

impl Job {
    /// Names of the applications that it says; one, if it is valid.
    pub fn applications(&self) -> Vec<&'static str> {
        let all = [
            ("pagerank", self.pagerank.is_some()),
            ("components", self.components.is_some()),
            ("training", self.training.is_some()),
            ("key_value", self.key_value.is_some()),
            ("word_count", self.word_count.is_some()),
            ("embedding", self.embedding.is_some()),
            ("collective", self.collective.is_some()),
        ];
        all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }
}

/// A graph drawn by Graph500's Kronecker generator, cut into a chunk of vertices for each rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kronecker {
    /// 2^scale vertices.
    pub scale: u32,
    /// Edges to a vertex. Default 16 (Graph500).
    pub degree: u32,
    /// Whether labels of vertices are shuffled, which spreads hubs over ranks.
    pub shuffled: bool,
    /// Traversed by a rank.
    pub edges_per_s: u64,
}

/// PageRank, a superstep after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageRank {
    pub scale: u32,
    #[serde(default = "sixteen")]
    pub degree: u32,
    #[serde(default)]
    pub shuffled: bool,
    /// Default 100 M: an assumption.
    #[serde(default = "hundred_million")]
    pub edges_per_s: u64,
    /// Supersteps. Default 10.
    #[serde(default = "ten")]
    pub iterations: u32,
}

/// Connected components by labels that spread, until none changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Components {
    pub scale: u32,
    #[serde(default = "sixteen")]
    pub degree: u32,
    #[serde(default)]
    pub shuffled: bool,
    /// Default 100 M: an assumption.
    #[serde(default = "hundred_million")]
    pub edges_per_s: u64,
}

impl PageRank {
    pub const fn graph(&self) -> Kronecker {
        let PageRank { scale, degree, shuffled, edges_per_s, .. } = *self;
        Kronecker { scale, degree, shuffled, edges_per_s }
    }
}

impl Components {
    pub const fn graph(&self) -> Kronecker {
        let Components { scale, degree, shuffled, edges_per_s } = *self;
        Kronecker { scale, degree, shuffled, edges_per_s }
    }
}

/// Data-parallel training: each rank computes, then gradients are summed up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Training {
    pub model: Model,
    /// How gradients are summed up.
    pub operation: Operation,
    /// Ranks that hold parameters, with `parameter-server`: the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Default 1.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Of a rank that works, for each iteration. Default 100 ms: an assumption.
    #[serde(default = "tenth_of_a_second")]
    pub compute: Time,
    /// Gradients are sent in buckets of about this size. Default 25 MiB (PyTorch's DistributedDataParallel).
    #[serde(default = "bucket")]
    pub bucket: Bytes,
}

/// A model by the sizes of its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Model {
    #[serde(rename = "resnet-18")]
    ResNet18,
    #[serde(rename = "resnet-50")]
    ResNet50,
    #[serde(rename = "tinystories-33m")]
    TinyStories33M,
}

/// Clients ask a store whose keys are spread over servers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyValue {
    /// The first ranks; the others are clients.
    pub servers: u32,
    /// Of all clients together.
    pub requests: u32,
    /// Of each client: each has one request open. Default 50 (memtier_benchmark).
    #[serde(default = "fifty")]
    pub connections: u32,
    /// Default 10 M (DRack §7.2.2).
    #[serde(default = "ten_million")]
    pub keys: u32,
    /// Default Gaussian (DRack §7.2.2).
    #[serde(default)]
    pub pattern: KeyPattern,
    /// Of Zipf's law. Default 0.99 (YCSB).
    #[serde(default = "ycsb_exponent")]
    pub exponent: f64,
    /// Default by range.
    #[serde(default)]
    pub sharding: Sharding,
    /// Default 32 B (memtier_benchmark).
    #[serde(default = "short_value")]
    pub value: Bytes,
    /// Gets to each set. Default 10 (DRack §7.2.2).
    #[serde(default = "ten")]
    pub gets_per_set: u32,
    /// Of the server's one thread, for each request. Default 5 us: an assumption.
    #[serde(default = "five_us")]
    pub service: Time,
}

/// Which keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyPattern {
    Uniform,
    /// Around the middle key; a sixth of all is the standard deviation (memtier_benchmark).
    #[default]
    Gaussian,
    /// The first key is the hottest.
    Zipf,
}

/// Which server holds a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharding {
    /// As many neighbouring keys for each.
    #[default]
    Range,
    /// By a hash of the key, as Redis Cluster.
    Hash,
}

/// MapReduce: words of a text drawn by Zipf's law are counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WordCount {
    /// Of each mapper's text.
    pub words: u32,
    /// Ranks that reduce and do not map: the last ones. Default: all ranks map and reduce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reducers: Option<u32>,
    /// Different words. Default 50,000.
    #[serde(default = "fifty_thousand")]
    pub vocabulary: u32,
    /// Of Zipf's law; 0: all words are as frequent. Default 1.
    #[serde(default = "one_exactly")]
    pub exponent: f64,
    /// Whether mappers sum up before they send. Default yes.
    #[serde(default = "yes")]
    pub combine: bool,
    /// Counted by a rank. Default 10 M: an assumption.
    #[serde(default = "ten_million")]
    pub words_per_s: u32,
    /// Texts, one after the other. Default 1.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Default stages.
    #[serde(default)]
    pub shuffle: Shuffle,
}

/// How the output of mappers gets to reducers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shuffle {
    /// A text is counted everywhere before the next one is read; what sends needs no core.
    #[default]
    Stages,
    /// Mappers read on; who sends keeps its core until all has arrived.
    Own,
    /// As `own`, but mappers share their memory: the first one sends for all, and the next text is mapped by whichever is
    /// idle (DRack §2.4).
    First,
}

/// DLRM inference: each rank asks all for the embeddings of its batch, of 26 tables with the rows of Criteo's data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Embedding {
    /// One after the other, on each rank.
    pub batches: u32,
    /// Samples of a rank's batch. Default 128.
    #[serde(default = "hundred_and_twenty_eight")]
    pub batch: u32,
    /// Single-precision numbers of an embedding. Default 16 (DLRM's script for Criteo).
    #[serde(default = "sixteen")]
    pub dimension: u32,
    /// Of Zipf's law, by which rows are asked for. Default 1.05.
    #[serde(default = "dlrm_exponent")]
    pub exponent: f64,
    /// Default tables.
    #[serde(default)]
    pub spread: Spread,
    /// Of an owner. Default 10 M: an assumption.
    #[serde(default = "ten_million")]
    pub lookups_per_s: u32,
    /// Of the layers behind, for each batch. Default 1 ms: an assumption.
    #[serde(default = "millisecond")]
    pub compute: Time,
}

/// How embeddings are spread over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Whole tables, in turn.
    #[default]
    Tables,
    /// Each row by a hash.
    Rows,
}

const fn one() -> u32 {
    1
}

const fn one_exactly() -> f64 {
    1.0
}

const fn yes() -> bool {
    true
}

const fn ten() -> u32 {
    10
}

const fn sixteen() -> u32 {
    16
}

const fn fifty() -> u32 {
    50
}

const fn hundred_and_twenty_eight() -> u32 {
    128
}

const fn fifty_thousand() -> u32 {
    50_000
}

const fn ten_million() -> u32 {
    10_000_000
}

const fn hundred_million() -> u64 {
    100_000_000
}

const fn ycsb_exponent() -> f64 {
    0.99
}

const fn dlrm_exponent() -> f64 {
    1.05
}

fn short_value() -> Bytes {
    Bytes::new(32)
}

fn bucket() -> Bytes {
    Bytes::new(25 << 20)
}

fn five_us() -> Time {
    Time::from_us(5)
}

fn millisecond() -> Time {
    Time::from_us(1_000)
}

fn tenth_of_a_second() -> Time {
    Time::from_us(100_000)
}
