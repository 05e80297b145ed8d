//! Network of a rack: its topology, links and switches.

use crate::link::LinkSpec;
use crate::topology::TopologySpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Time};

/// Network of a rack, complete and ready to be built.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkSpec {
    pub topology: TopologySpec,
    /// Link of each node to its switch. In a rack without switches, every link that has no other properties.
    pub link: LinkSpec,
    /// Link between switches.
    pub core_link: LinkSpec,
    /// Link of each host to the CXL switch of its rack, on a `drack` or with `[host]`.
    pub cxl_link: LinkSpec,
    pub switch: SwitchSpec,
    /// Largest packet, without headers of the fabric.
    pub mtu: Bytes,
    /// Headers around the payload of a packet, for fabrics that send packets.
    pub headers: Headers,
}

/// Headers around the payload of a packet on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Headers {
    /// Headers of Ethernet, IPv4 and a transport protocol, with preamble and gap.
    #[default]
    Ethernet,
    /// No headers, for comparisons with simulators that count payload only. No packet is smaller than 8 B.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SwitchSpec {
    /// Delay from the arrival of a bit to its departure if no packet is ahead of it, for fabrics that do not define
    /// their own switch latency. Default 0: only the fabric makes packets wait.
    pub latency: Time,
    /// Buffer of each output port or, if shared, of all ports of a switch together. Default 36 KiB (DDC §4.2). For
    /// `r2c2`, whose nodes queue packets in their own memory, the default is the memory that the protocol expects: 198
    /// kB with its default headroom.
    pub buffer: BufferSize,
    /// A queue in a shared buffer may grow while it is shorter than this many times the free space (Choudhury and Hahne
    /// 1998). Default 1, so that a single queue gets half of the buffer. (DCQCN §4: beta = 8 of 8 priorities.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Whether a switch forwards a packet before its last bit has arrived. Default true.
    pub cut_through: bool,
}

impl SwitchSpec {
    /// Returns the `alpha` of a shared buffer.
    pub fn alpha(&self) -> f64 {
        self.alpha.unwrap_or(1.0)
    }
}

impl Default for SwitchSpec {
    fn default() -> SwitchSpec {
        let buffer = BufferSize::Limited(Bytes::new(36 << 10));
        SwitchSpec { latency: Time::ZERO, buffer, alpha: None, cut_through: true }
    }
}

/// Size of a buffer: a size per port, `unlimited`, or a size that all ports of a switch share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferSize {
    /// Bytes of each port.
    Limited(Bytes),
    Unlimited,
    /// Bytes of each switch, shared by its ports.
    Shared(Bytes),
}

impl BufferSize {
    /// Returns the limit in bytes; `None` if the buffer is unlimited.
    pub fn limit(self) -> Option<Bytes> {
        match self {
            BufferSize::Limited(bytes) | BufferSize::Shared(bytes) => Some(bytes),
            BufferSize::Unlimited => None,
        }
    }
}

impl std::str::FromStr for BufferSize {
    type Err = unrack_units::UnitError;
    fn from_str(text: &str) -> Result<BufferSize, Self::Err> {
        match (text, text.strip_prefix("shared ")) {
            ("unlimited", _) => Ok(BufferSize::Unlimited),
            (_, Some(size)) => size.parse().map(BufferSize::Shared),
            (size, None) => size.parse().map(BufferSize::Limited),
        }
    }
}

impl std::fmt::Display for BufferSize {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            BufferSize::Limited(bytes) => bytes.fmt(f),
            BufferSize::Unlimited => f.pad("unlimited"),
            BufferSize::Shared(bytes) => write!(f, "shared {bytes}"),
        }
    }
}

crate::as_text::as_text!(
    BufferSize,
    "a size such as \"36KiB\" of each port, \"shared 12MiB\" of each switch, or \"unlimited\""
);
