//! What client and server say to each other before the first call.
//!
//! Version first, so that any two releases understand why they do not understand each other. The rest is input
//! from the other side like everything else.

/// Changes with the layout of queues and entries.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 6] = *b"urrpc\0";

/// Who asks says which version it speaks; who answers says the same, and how many calls it takes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    pub version: u16,
    /// Lines of each queue. Both sides derive it from the area, and it has to be the same.
    pub lines: u16,
}

impl Greeting {
    pub fn new(lines: usize) -> Greeting {
        Greeting { version: VERSION, lines: lines as u16 }
    }

    pub fn to_bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[..6].copy_from_slice(&MAGIC);
        bytes[6..8].copy_from_slice(&self.version.to_le_bytes());
        bytes[8..].copy_from_slice(&self.lines.to_le_bytes());
        bytes
    }

    /// Of another version there may be more or less behind its number.
    pub fn from_bytes(bytes: &[u8]) -> Option<Greeting> {
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
