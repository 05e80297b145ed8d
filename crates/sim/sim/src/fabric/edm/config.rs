//! Parameters of EDM, and checks of their values.

use super::host::MOST_ACTIVE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_engine::error::SetupError;
use unrack_engine::network::StarNetwork;
use unrack_phy::edm::layout;
use unrack_protocol::edm::scheduler::ITERATION_CYCLES;
use unrack_protocol::edm::{EdmLatencies, GrantPolicy, SchedulerConfig, steps};
use unrack_units::{Bytes, Fraction, Time};

/// Parameters of EDM. The defaults are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EdmConfig {
    /// Maximum number of bytes that one grant allows. Default 256 B (§4.3).
    pub chunk: Bytes,
    /// What the links carry. Default `payload`, whose rules §3.1.1 (7) and §3.1.4 state: data takes l/B, and framing takes no time.
    #[schemars(extend("x-unhashed" = "default"))]
    pub wire: WireContent,
    /// Maximum number of active notifications per sender and destination (X). Default 3 (§3.1.2, §4.3).
    pub max_active: u32,
    /// Order in which the scheduler serves messages. Default `by-tail` (§3.1.1 (4)).
    pub policy: SchedulingOrder,
    /// Whether messages of one sender to one destination are carried in order. Default true (§3.1.1 (5)).
    pub pairs_in_order: bool,
    /// Largest batch: a sender joins messages that wait for one destination into a batch of at most this size, with one notification
    /// (§3.1.2, "mega" message). Only writes are batched, because each read needs its request. Default: no batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mega: Option<Bytes>,
    /// Time for which a read-modify-write keeps a memory node busy, so that the node serves no other request (§3.2.1). Default 0: memory
    /// time is not counted as the fabric's.
    pub atomic: Time,
    /// Time after which a read that was not answered ends with a NULL response (§3.3). Default: never, because the paper states no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_timeout: Option<Time>,
    /// Whether everything is mirrored to a second switch (§3.3), so that no single failure loses a message. Default false.
    pub backup: bool,
    /// Ethernet frames on the same links. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<Frames>,
    /// Clock rate of the scheduler. Default 3 GHz, for an ASIC (§3.1.3, §4.1).
    pub scheduler_ghz: f64,
    /// Period of the PCS clock. Default 2.56 ns, as in the testbed, which the paper's simulations keep at any link rate (§4.3).
    pub cycle: Time,
    /// Latency of PMA, PMD and transceiver, per crossing. Default 19 ns (table 1).
    pub pma: Time,
}

/// Ethernet traffic on the links that also carry memory traffic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    /// Share of each node's link that frames take, including preamble, header, check sequence and gap. Frames come at random times
    /// (Poisson), and each goes to a random other node.
    pub load: Fraction,
    /// Bytes of each frame. Default 1500 B.
    #[serde(default = "mtu")]
    pub frame: Bytes,
}

fn mtu() -> Bytes {
    Bytes::new(1500)
}

impl Default for EdmConfig {
    fn default() -> Self {
        let EdmLatencies { cycle, pma } = EdmLatencies::default();
        EdmConfig {
            chunk: Bytes::new(256),
            wire: WireContent::Payload,
            max_active: 3,
            policy: SchedulingOrder::ByTail,
            pairs_in_order: true,
            mega: None,
            atomic: Time::ZERO,
            read_timeout: None,
            backup: false,
            background: None,
            scheduler_ghz: 3.0,
            cycle,
            pma,
        }
    }
}

/// What the links carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WireContent {
    /// The bytes of data, in the time that they take at the link's rate, and 33 bits for each notification and grant.
    #[default]
    Payload,
    /// Blocks of 66 bits, as hardware sends them: each notification and grant is a block, and a chunk also has an address and an end. A write
    /// of 64 B takes ten blocks and a notification. The stacks of the PHY are simulated cycle by cycle, with `cycle` as the time of a block.
    Blocks,
}

/// Order in which the scheduler serves messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingOrder {
    /// `srpt` for heavy-tailed sizes, `fcfs` for others (§3.1.1 (4)). A tail is heavy if it is heavier than an exponential's
    /// ([`SizeDistribution::is_heavy_tailed`](unrack_workload::SizeDistribution::is_heavy_tailed)). This order is the same as `srpt` until
    /// [`EdmConfig::for_tail`] resolves it.
    ByTail,
    /// First come, first served.
    Fcfs,
    /// Shortest remaining message first.
    Srpt,
}

/// Bytes of a DDR4 burst (§3.1.4): the unit of a memory access.
pub const BURST_BYTES: u64 = 64;

/// Bytes that one 66-bit block carries.
pub const BLOCK_BYTES: u64 = 8;

/// Bits of a notification or grant (§3.1.4): a destination of 9 bits, a message id of 8 bits, and a size of 16 bits. The paper states its
/// cost as 6 % of 64 B.
pub const CONTROL_BITS: u128 = 9 + 8 + 16;

/// Maximum number of nodes, because state is kept for all pairs of ports and would not fit in memory for more nodes. The paper's block
/// formats allow 512 nodes (§3.1.4: nine bits of destination).
const MAX_NODES: u32 = 2048;

/// Cycles of the PCS clock that table 1 leaves for one matching iteration: [`steps::SCHEDULE`] minus the access to the ordered list.
const ITERATION_PCS_CYCLES: u64 = steps::SCHEDULE - 1;

impl EdmConfig {
    /// Returns the latencies of the steps.
    pub fn steps(&self) -> EdmLatencies {
        EdmLatencies { cycle: self.cycle, pma: self.pma }
    }

    /// Replaces [`SchedulingOrder::ByTail`] by the order for message sizes with a heavy tail, or for other sizes.
    pub fn for_tail(self, is_heavy: bool) -> EdmConfig {
        let policy = match (self.policy, is_heavy) {
            (SchedulingOrder::ByTail, true) => SchedulingOrder::Srpt,
            (SchedulingOrder::ByTail, false) => SchedulingOrder::Fcfs,
            (chosen, _) => chosen,
        };
        EdmConfig { policy, ..self }
    }

    /// Returns the length of a matching iteration, rounded up to a picosecond.
    pub fn iteration(&self) -> Time {
        Time::from_ps((ITERATION_CYCLES as f64 * 1_000.0 / self.scheduler_ghz).ceil() as u64)
    }

    pub(super) fn check(&self, star: &StarNetwork) -> Result<(), SetupError> {
        let chunk = self.chunk.get();
        if chunk == 0 || !chunk.is_multiple_of(BURST_BYTES) || chunk > u64::from(u16::MAX) {
            return Err(SetupError::new("fabric.chunk", "is a multiple of 64B, at most 65472B", self.chunk));
        }
        if !(1..=MOST_ACTIVE).contains(&self.max_active) {
            return Err(SetupError::new("fabric.max_active", "is from 1 to 127", self.max_active));
        }
        if let Some(mega) = self.mega.filter(|mega| mega.get() == 0 || mega.get() > u64::from(u16::MAX)) {
            return Err(SetupError::new("fabric.mega", "is above 0 and at most 65535B", mega));
        }
        if self.read_timeout == Some(Time::ZERO) {
            return Err(SetupError::new("fabric.read_timeout", "is above 0", Time::ZERO));
        }
        if let Some(Frames { load, frame }) = self.background {
            if !(0.0 < load.get() && load.get() < 1.0) {
                return Err(SetupError::new("fabric.background.load", "is above 0 and below 1", load));
            }
            if !(46..=9_000).contains(&frame.get()) {
                return Err(SetupError::new("fabric.background.frame", "is from 46B to 9000B", frame));
            }
        }
        let slowest = self.steps().cycles(ITERATION_PCS_CYCLES);
        let positive = self.scheduler_ghz.is_finite() && self.scheduler_ghz > 0.0;
        if !positive || self.iteration() > slowest {
            let rule = "is fast enough that three cycles fit in the three PCS cycles of table 1";
            return Err(SetupError::new("fabric.scheduler_ghz", rule, self.scheduler_ghz));
        }
        // A completion time leaves out the last burst, as table 1 does (see the module comment). Therefore the last bursts of the data and
        // of the request must be shorter than the steps, otherwise the completion would come before it is possible.
        if star.pace().transmit(BURST_BYTES) * 2 > self.steps().unloaded_write(Time::ZERO) {
            let rule = "is fast enough for edm: twice 64B pass in less than the steps of table 1 take";
            return Err(SetupError::new("network.link.rate", rule, star.rate));
        }
        if self.wire == WireContent::Blocks {
            self.check_blocks(star)?;
        }
        if star.nodes > MAX_NODES {
            return Err(SetupError::new("network.topology.nodes", "is at most 2048 for edm", star.nodes));
        }
        Ok(())
    }

    /// Checks that the stacks of the PHY can carry the messages.
    fn check_blocks(&self, star: &StarNetwork) -> Result<(), SetupError> {
        let block = star.rate.transmit(Bytes::new(BLOCK_BYTES));
        if self.cycle != block {
            let rule =
                format!("is the time of a block at the rate of the links, {block}, with wire = \"blocks\"");
            return Err(SetupError::new("fabric.cycle", rule, self.cycle));
        }
        // §4.1: the PCS and the scheduler of the testbed have one clock.
        if self.iteration() != self.cycle * ITERATION_CYCLES {
            let ghz = 1_000.0 / self.cycle.as_ps() as f64;
            let rule = format!("is {ghz}, the clock of the PCS, with wire = \"blocks\"");
            return Err(SetupError::new("fabric.scheduler_ghz", rule, self.scheduler_ghz));
        }
        let other = [
            ("fabric.mega", self.mega.is_some()),
            ("fabric.read_timeout", self.read_timeout.is_some()),
            ("fabric.backup", self.backup),
            ("fabric.background", self.background.is_some()),
            ("fabric.atomic", self.atomic > Time::ZERO),
            ("fabric.pairs_in_order", !self.pairs_in_order),
        ];
        if let Some((key, _)) = other.into_iter().find(|(_, is_set)| *is_set) {
            return Err(SetupError::new(key, "is left at its default with wire = \"blocks\"", "set"));
        }
        if star.nodes > u32::from(layout::NODES) {
            let rule = "is at most 512 with wire = \"blocks\", because blocks have nine bits for a node";
            return Err(SetupError::new("network.topology.nodes", rule, star.nodes));
        }
        Ok(())
    }

    pub(super) fn scheduler(&self, star: &StarNetwork, block: Time) -> SchedulerConfig {
        SchedulerConfig {
            ports: star.nodes,
            chunk: self.chunk.get() as u32,
            policy: match self.policy {
                SchedulingOrder::Fcfs => GrantPolicy::Fcfs,
                SchedulingOrder::Srpt | SchedulingOrder::ByTail => GrantPolicy::Srpt,
            },
            pairs_in_order: self.pairs_in_order,
            iteration: self.iteration(),
            block,
            framing: Time::ZERO,
            control: control(star),
        }
    }
}

/// Returns the time that a notification or grant takes on a link.
pub(super) fn control(star: &StarNetwork) -> Time {
    star.rate.transmit_bits(CONTROL_BITS)
}
