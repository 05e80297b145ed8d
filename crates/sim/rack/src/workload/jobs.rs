//! Jobs whose traffic results from their computation. Several jobs run at once, placed on hosts.

use crate::workload::{Collective, Operation};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// Mix of jobs, and the policy that places them on hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jobs {
    /// The jobs, in the order in which they are placed.
    pub jobs: Vec<JobSpec>,
    /// Placement of jobs. Default first-fit.
    #[serde(default)]
    pub policy: PlacementPolicy,
    /// Number of ranks for which a host has room. Each rank has its own core. Default 1.
    #[serde(default = "one")]
    pub slots: u32,
}

/// Policy that decides on which hosts jobs run, and when they may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementPolicy {
    /// Places jobs on the first hosts that have room.
    #[default]
    FirstFit,
    /// Places ranks on racks in turn.
    RoundRobin,
    /// Places a job in the smallest possible number of racks. Jobs that share hosts take turns in sending (Ahmad et
    /// al., USENIX ATC 2014).
    ShuffleWatcher,
    /// Places jobs like first-fit. Jobs that compute much and send little send first (Cao et al., SIGCOMM 2024).
    Crux,
}

/// One job: exactly one of the applications is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSpec {
    /// Name of the job in results. Default: the name of the application, with a number if several jobs run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of ranks, each on one host. Default: the number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Node of each rank. If set, it overrides the choice of the policy.
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
    pub experts: Option<Experts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<Collective>,
}

impl JobSpec {
    /// Returns the names of the applications that are set; a valid job has exactly one.
    pub fn applications(&self) -> Vec<&'static str> {
        let all = [
            ("pagerank", self.pagerank.is_some()),
            ("components", self.components.is_some()),
            ("training", self.training.is_some()),
            ("key_value", self.key_value.is_some()),
            ("word_count", self.word_count.is_some()),
            ("embedding", self.embedding.is_some()),
            ("experts", self.experts.is_some()),
            ("collective", self.collective.is_some()),
        ];
        all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }
}

/// Graph that the Kronecker generator of Graph500 draws. Each rank holds a chunk of consecutive vertices.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kronecker {
    /// Binary logarithm of the number of vertices.
    pub scale: u32,
    /// Edges per vertex. Default 16 (Graph500).
    pub degree: u32,
    /// Whether labels of vertices are shuffled, so that hubs are spread over ranks.
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
    /// Whether labels of vertices are shuffled, so that hubs are spread over ranks. Default false.
    #[serde(default)]
    pub shuffled: bool,
    /// Edges that a rank traverses in a second. Default 100 M: an assumption.
    #[serde(default = "hundred_million")]
    pub edges_per_s: u64,
    /// Supersteps. Default 10.
    #[serde(default = "ten")]
    pub iterations: u32,
    /// Number of batches in which the edges arrive, as on an evolving graph (DRack table 3). After each batch, all supersteps
    /// are run on the edges so far. Ranks keep the vertices that balance the first batch. Default 1: the whole graph.
    #[serde(default = "one")]
    #[schemars(extend("x-unhashed" = "default"))]
    pub batches: u32,
}

/// Connected components by label propagation, until no label changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Components {
    /// Binary logarithm of the number of vertices.
    pub scale: u32,
    /// Edges per vertex. Default 16 (Graph500).
    #[serde(default = "sixteen")]
    pub degree: u32,
    /// Whether labels of vertices are shuffled, so that hubs are spread over ranks. Default false.
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

/// Data-parallel training: in each iteration, each rank computes, and then the gradients of all ranks are added up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Training {
    pub model: TrainingModel,
    /// Operation that adds up the gradients.
    pub operation: Operation,
    /// With `parameter-server`, the number of ranks that hold parameters; they are the last ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Number of iterations. Default 1.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Time that a rank computes in each iteration, unless it only holds parameters. Default 100 ms: an assumption.
    #[serde(default = "tenth_of_a_second")]
    pub compute: Time,
    /// Approximate size of the buckets in which gradients are sent. Default 25 MiB (PyTorch's DistributedDataParallel).
    #[serde(default = "bucket")]
    pub bucket: Bytes,
}

/// Model that is trained. It determines the sizes of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TrainingModel {
    #[serde(rename = "resnet-18")]
    ResNet18,
    #[serde(rename = "resnet-50")]
    ResNet50,
    #[serde(rename = "tinystories-33m")]
    TinyStories33M,
}

/// Key-value store: clients send requests to servers, over which the keys are spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyValue {
    /// Number of servers. The first ranks are servers, and the others are clients.
    pub servers: u32,
    /// Number of requests that all clients together send.
    pub requests: u32,
    /// Number of connections of each client. Each has one request in flight. Default 200 (memtier_benchmark: 4
    /// threads, each with 50 connections).
    #[serde(default = "two_hundred")]
    pub connections: u32,
    /// Number of keys. Default 10 M (DRack §7.2.2).
    #[serde(default = "ten_million")]
    pub keys: u32,
    /// Distribution of the requested keys. Default Gaussian (DRack §7.2.2).
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
    /// Number of gets for each set. Default 10 (DRack §7.2.2).
    #[serde(default = "ten")]
    pub gets_per_set: u32,
    /// Time that the single thread of a server needs for each request. Default 5 us: an assumption.
    #[serde(default = "five_us")]
    pub service: Time,
}

/// Distribution of the requested keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyPattern {
    Uniform,
    /// Normal distribution around the middle key. Its standard deviation is a sixth of the number of keys
    /// (memtier_benchmark).
    #[default]
    Gaussian,
    /// Zipf's law. The first key is the most frequent.
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

/// MapReduce job that counts the words of texts. The words are drawn by Zipf's law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WordCount {
    /// Number of words in the text of each mapper.
    pub words: u32,
    /// Number of ranks that only reduce; they are the last ranks. Default: all ranks map and reduce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reducers: Option<u32>,
    /// Number of different words. Default 50,000.
    #[serde(default = "fifty_thousand")]
    pub vocabulary: u32,
    /// Exponent of Zipf's law. 0 makes all words equally frequent. Default 1.
    #[serde(default = "one_exactly")]
    pub exponent: f64,
    /// Whether mappers combine equal words before they send. Default yes.
    #[serde(default = "yes")]
    pub combine: bool,
    /// Number of words that a rank counts in a second. Default 10 M: an assumption.
    #[serde(default = "ten_million")]
    pub words_per_s: u32,
    /// Number of texts, which are counted one after the other. Default 1.
    #[serde(default = "one")]
    pub iterations: u32,
    /// How the output of mappers reaches the reducers. Default stages.
    #[serde(default)]
    pub shuffle: Shuffle,
}

/// How the output of mappers reaches the reducers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shuffle {
    /// All ranks finish counting a text before the next one is read. Sending needs no core.
    #[default]
    Stages,
    /// Mappers read the next text at once. A mapper that sends keeps its core until all its data have arrived.
    Own,
    /// Like `own`, but with shared memory: the first mapper sends the output of all mappers, and any idle mapper takes
    /// the next text (DRack §2.4).
    First,
}

/// DLRM inference: each rank requests the embeddings of its batch from all ranks. The embeddings are in 26 tables with
/// the numbers of rows of the Criteo data set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Embedding {
    /// Number of batches on each rank, which run one after the other.
    pub batches: u32,
    /// Number of samples in a batch of a rank. Default 128.
    #[serde(default = "hundred_and_twenty_eight")]
    pub batch: u32,
    /// Number of single-precision values in an embedding. Default 16 (DLRM's script for Criteo).
    #[serde(default = "sixteen")]
    pub dimension: u32,
    /// Exponent of Zipf's law for the requested rows. Default 1.05.
    #[serde(default = "dlrm_exponent")]
    pub exponent: f64,
    /// Distribution of embeddings over ranks. Default tables.
    #[serde(default)]
    pub spread: EmbeddingSpread,
    /// Number of rows that the rank that owns them looks up in a second. Default 10 M: an assumption.
    #[serde(default = "ten_million")]
    pub lookups_per_s: u32,
    /// Computing time of the layers that follow, for each batch. Default 1 ms: an assumption.
    #[serde(default = "millisecond")]
    pub compute: Time,
}

/// Distribution of embeddings over ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingSpread {
    /// Whole tables, assigned to ranks in turn.
    #[default]
    Tables,
    /// Each row is assigned to a rank by its hash.
    Rows,
}

/// Mixture of experts with expert parallelism: in each layer, each rank sends each of its tokens to the ranks of the experts
/// that a gate selects, and gets the results back. Popular experts get more tokens (FasterMoE, PPoPP 2022).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experts {
    /// Number of layers with experts, which run one after the other.
    pub layers: u32,
    /// Number of tokens of each rank. Default 1024: an assumption.
    #[serde(default = "thousand_and_twenty_four")]
    pub tokens: u32,
    /// Number of experts in each layer, which are assigned to ranks in turn. Default: one on each rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<u32>,
    /// Number of experts for each token. Default 2 (GShard, ICLR 2021).
    #[serde(default = "two")]
    pub top: u32,
    /// Number of single-precision values in a token. Default 1024: an assumption.
    #[serde(default = "thousand_and_twenty_four")]
    pub hidden: u32,
    /// Exponent of Zipf's law for the choice of experts. 0 makes all experts equally popular. Default 1: an assumption.
    #[serde(default = "one_exactly")]
    pub exponent: f64,
    /// Tokens that a rank computes in a second, as an expert. Default 100,000: an assumption.
    #[serde(default = "hundred_thousand")]
    pub tokens_per_s: u32,
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

const fn two() -> u32 {
    2
}

const fn ten() -> u32 {
    10
}

const fn sixteen() -> u32 {
    16
}

const fn two_hundred() -> u32 {
    200
}

const fn hundred_and_twenty_eight() -> u32 {
    128
}

const fn thousand_and_twenty_four() -> u32 {
    1_024
}

const fn hundred_thousand() -> u32 {
    100_000
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
