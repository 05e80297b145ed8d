//! Jobs whose traffic results from their computation: several at once, placed on hosts.

use crate::workload::{Collective, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// Mix of jobs, and the policy that places them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// The jobs, in the order in which they are placed.
    pub jobs: Vec<Job>,
    /// Placement of jobs. Default first-fit.
    #[serde(default)]
    pub policy: PlacementPolicy,
    /// Ranks that a host has room for, each with a core of its own. Default 1.
    #[serde(default = "one")]
    pub slots: u32,
}

/// Policy that decides where jobs run, and when they may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementPolicy {
    /// Places jobs on the first hosts that have room.
    #[default]
    FirstFit,
    /// Places ranks on racks in turn.
    RoundRobin,
    /// Places a job in as few racks as possible; jobs that share hosts take turns in sending (Ahmad et al., USENIX ATC
    /// 2014).
    ShuffleWatcher,
    /// Places jobs as first-fit; jobs that compute much and send little send first (Cao et al., SIGCOMM 2024).
    Crux,
}

/// One job: exactly one of the applications.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Name in results. Default: the application, and a number where there are several of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of ranks, each on a host. Default: as many as there are nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Node of each rank, instead of the policy's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<u32>>,
    /// Time at which the job starts. Default: at once.
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
    /// Returns the names of the applications that it has; exactly one if it is valid.
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

/// Graph drawn by Graph500's Kronecker generator, cut into a chunk of vertices for each rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kronecker {
    /// Binary logarithm of the number of vertices.
    pub scale: u32,
    /// Edges per vertex. Default 16 (Graph500).
    pub degree: u32,
    /// Whether labels of vertices are shuffled, which spreads hubs over ranks.
    pub shuffled: bool,
    /// Edges that a rank traverses in a second.
    pub edges_per_s: u64,
}

/// PageRank in supersteps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageRank {
    /// Binary logarithm of the number of vertices.
    pub scale: u32,
    /// Edges per vertex. Default 16 (Graph500).
    #[serde(default = "sixteen")]
    pub degree: u32,
    /// Whether labels of vertices are shuffled, which spreads hubs over ranks. Default false.
    #[serde(default)]
    pub shuffled: bool,
    /// Edges that a rank traverses in a second. Default 100 M: an assumption.
    #[serde(default = "hundred_million")]
    pub edges_per_s: u64,
    /// Supersteps. Default 10.
    #[serde(default = "ten")]
    pub iterations: u32,
}

/// Connected components by label propagation, until no label changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Components {
    /// Binary logarithm of the number of vertices.
    pub scale: u32,
    /// Edges per vertex. Default 16 (Graph500).
    #[serde(default = "sixteen")]
    pub degree: u32,
    /// Whether labels of vertices are shuffled, which spreads hubs over ranks. Default false.
    #[serde(default)]
    pub shuffled: bool,
    /// Edges that a rank traverses in a second. Default 100 M: an assumption.
    #[serde(default = "hundred_million")]
    pub edges_per_s: u64,
}

impl PageRank {
    /// Returns the graph to generate.
    pub const fn graph(&self) -> Kronecker {
        let PageRank { scale, degree, shuffled, edges_per_s, .. } = *self;
        Kronecker { scale, degree, shuffled, edges_per_s }
    }
}

impl Components {
    /// Returns the graph to generate.
    pub const fn graph(&self) -> Kronecker {
        let Components { scale, degree, shuffled, edges_per_s } = *self;
        Kronecker { scale, degree, shuffled, edges_per_s }
    }
}

/// Data-parallel training: each rank computes, then gradients are summed up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Training {
    pub model: TrainingModel,
    /// Operation that sums up the gradients.
    pub operation: Operation,
    /// Number of ranks that hold parameters, with `parameter-server`: the last ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Number of iterations. Default 1.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Computing time of a working rank in each iteration. Default 100 ms: an assumption.
    #[serde(default = "tenth_of_a_second")]
    pub compute: Time,
    /// Approximate size of the buckets in which gradients are sent. Default 25 MiB (PyTorch's DistributedDataParallel).
    #[serde(default = "bucket")]
    pub bucket: Bytes,
}

/// Model, by the sizes of its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrainingModel {
    #[serde(rename = "resnet-18")]
    ResNet18,
    #[serde(rename = "resnet-50")]
    ResNet50,
    #[serde(rename = "tinystories-33m")]
    TinyStories33M,
}

/// Key-value store: clients ask servers over which its keys are spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyValue {
    /// Number of servers: the first ranks; the others are clients.
    pub servers: u32,
    /// Requests of all clients together.
    pub requests: u32,
    /// Connections of each client, each with one request open. Default 50 (memtier_benchmark).
    #[serde(default = "fifty")]
    pub connections: u32,
    /// Number of keys. Default 10 M (DRack §7.2.2).
    #[serde(default = "ten_million")]
    pub keys: u32,
    /// Distribution of the keys asked for. Default Gaussian (DRack §7.2.2).
    #[serde(default)]
    pub pattern: KeyPattern,
    /// Exponent of Zipf's law. Default 0.99 (YCSB).
    #[serde(default = "ycsb_exponent")]
    pub exponent: f64,
    /// Assignment of keys to servers. Default by range.
    #[serde(default)]
    pub sharding: Sharding,
    /// Size of a value. Default 32 B (memtier_benchmark).
    #[serde(default = "short_value")]
    pub value: Bytes,
    /// Gets per set. Default 10 (DRack §7.2.2).
    #[serde(default = "ten")]
    pub gets_per_set: u32,
    /// Time of the server's one thread for each request. Default 5 us: an assumption.
    #[serde(default = "five_us")]
    pub service: Time,
}

/// Distribution of the keys asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyPattern {
    Uniform,
    /// Normal distribution around the middle key; a sixth of all keys is the standard deviation (memtier_benchmark).
    #[default]
    Gaussian,
    /// Zipf's law, with the first key the most frequent.
    Zipf,
}

/// Assignment of keys to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharding {
    /// Equal ranges of neighbouring keys.
    #[default]
    Range,
    /// Hash of the key, as in Redis Cluster.
    Hash,
}

/// MapReduce that counts the words of a text drawn by Zipf's law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WordCount {
    /// Words of each mapper's text.
    pub words: u32,
    /// Number of ranks that reduce and do not map: the last ones. Default: all ranks map and reduce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reducers: Option<u32>,
    /// Number of different words. Default 50,000.
    #[serde(default = "fifty_thousand")]
    pub vocabulary: u32,
    /// Exponent of Zipf's law; 0 makes all words equally frequent. Default 1.
    #[serde(default = "one_exactly")]
    pub exponent: f64,
    /// Whether mappers sum up before they send. Default yes.
    #[serde(default = "yes")]
    pub combine: bool,
    /// Words that a rank counts in a second. Default 10 M: an assumption.
    #[serde(default = "ten_million")]
    pub words_per_s: u32,
    /// Number of texts, one after the other. Default 1.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Transfer of the mappers' output to reducers. Default stages.
    #[serde(default)]
    pub shuffle: Shuffle,
}

/// Transfer of the mappers' output to reducers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shuffle {
    /// A text is counted everywhere before the next one is read; sending needs no core.
    #[default]
    Stages,
    /// Mappers read on; a sending mapper keeps its core until all has arrived.
    Own,
    /// Own shuffle with shared memory: the first mapper sends for all, and the next text is mapped by any that is idle
    /// (DRack §2.4).
    First,
}

/// DLRM inference: each rank asks all ranks for the embeddings of its batch, from 26 tables with the rows of Criteo's
/// data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Embedding {
    /// Batches on each rank, one after the other.
    pub batches: u32,
    /// Samples of a rank's batch. Default 128.
    #[serde(default = "hundred_and_twenty_eight")]
    pub batch: u32,
    /// Single-precision numbers of an embedding. Default 16 (DLRM's script for Criteo).
    #[serde(default = "sixteen")]
    pub dimension: u32,
    /// Exponent of Zipf's law for the rows asked for. Default 1.05.
    #[serde(default = "dlrm_exponent")]
    pub exponent: f64,
    /// Distribution of embeddings over ranks. Default tables.
    #[serde(default)]
    pub spread: EmbeddingSpread,
    /// Rows that an owner looks up in a second. Default 10 M: an assumption.
    #[serde(default = "ten_million")]
    pub lookups_per_s: u32,
    /// Computing time of the following layers for each batch. Default 1 ms: an assumption.
    #[serde(default = "millisecond")]
    pub compute: Time,
}

/// Distribution of embeddings over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingSpread {
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
