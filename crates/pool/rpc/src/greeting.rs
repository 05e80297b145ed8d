//! Greetings that a client and a server exchange before the first call.
//!
//! The version comes first, so that the two sides can name their versions in the error message even if their releases
//! differ. The rest of a greeting is untrusted input, like everything that a peer sends.

/// Version of the protocol, which is raised with any change of the layout of queues and entries.
pub(crate) const VERSION: u16 = 1;

const MAGIC: [u8; 6] = *b"urrpc\0";

/// Greeting of the client or of the server: it states the sender's version of the protocol and the number of lines of
/// its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RpcGreeting {
    pub version: u16,
    /// Number of lines in each queue, which equals the number of calls that may be in flight. Each side derives it from
    /// the size of the queue area, and the two numbers must agree.
    pub lines: u16,
}

impl RpcGreeting {
    /// Makes a greeting of this version for queues of this many lines.
    pub(crate) fn new(lines: usize) -> RpcGreeting {
        RpcGreeting { version: VERSION, lines: lines as u16 }
    }

    /// Encodes the greeting.
    pub(crate) fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..6].copy_from_slice(&MAGIC);
        bytes[6..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..].copy_from_slice(&self.lines.to_le_bytes());
        bytes
    }

    /// Parses a greeting; `None` if the bytes are not one. A greeting of another version may have more or fewer bytes
    /// after the version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<RpcGreeting> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (version, rest) = rest.split_first_chunk::<2>()?;
        let version = u16::from_le_bytes(*version);
        let lines = rest.first_chunk::<2>().map_or(0, |lines| u16::from_le_bytes(*lines));
        Some(RpcGreeting { version, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn greetings_read_back(version: u16, lines: u16) {
            let greeting = RpcGreeting { version, lines };
            prop_assert_eq!(RpcGreeting::from_bytes(&greeting.to_bytes()), Some(greeting));
        }

        #[test]
        fn nonsense_is_no_greeting(bytes: Vec<u8>) {
            let greeting = RpcGreeting::from_bytes(&bytes);
            prop_assert_eq!(greeting.is_some(), bytes.len() >= 8 && bytes.starts_with(&MAGIC));
        }
    }
}
