//! Greetings that client and server exchange before the first call.
//!
//! The version comes first, so that any two releases can tell why they cannot talk to each other. The rest is
//! untrusted input, like everything from the other side.

/// Version of the protocol, raised with any change of the layout of queues and entries.
pub(crate) const VERSION: u16 = 1;

const MAGIC: [u8; 6] = *b"urrpc\0";

/// Greeting of either side: the client's says which version it speaks and the lines of its queues, the server's
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub version: u16,
    /// Number of lines of each queue, equal to the number of calls at a time. Both sides derive it from the area,
    /// and must agree.
    pub lines: u16,
}

impl Greeting {
    /// Makes the greeting of this version for queues of this many lines.
    pub(crate) fn new(lines: usize) -> Greeting {
        Greeting { version: VERSION, lines: lines as u16 }
    }

    /// Encodes the greeting.
    pub(crate) fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..6].copy_from_slice(&MAGIC);
        bytes[6..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..].copy_from_slice(&self.lines.to_le_bytes());
        bytes
    }

    /// Parses a greeting. One of another version may have more or fewer bytes after the version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Greeting> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (version, rest) = rest.split_first_chunk::<2>()?;
        let version = u16::from_le_bytes(*version);
        let lines = rest.first_chunk::<2>().map_or(0, |lines| u16::from_le_bytes(*lines));
        Some(Greeting { version, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn greetings_read_back(version: u16, lines: u16) {
            let greeting = Greeting { version, lines };
            prop_assert_eq!(Greeting::from_bytes(&greeting.to_bytes()), Some(greeting));
        }

        #[test]
        fn nonsense_is_no_greeting(bytes: Vec<u8>) {
            let greeting = Greeting::from_bytes(&bytes);
            prop_assert_eq!(greeting.is_some(), bytes.len() >= 8 && bytes.starts_with(&MAGIC));
        }
    }
}
