//! Fingerprint of a key: the SHA-256 of the public key, as text.

use ring::digest::{SHA256, digest};
use std::fmt;
use std::str::FromStr;

/// SHA-256 of a public key's SubjectPublicKeyInfo (as RFC 7469 pins keys). Its text is `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

const PREFIX: &str = "sha256:";

impl Fingerprint {
    /// Computes the fingerprint of a DER-encoded SubjectPublicKeyInfo.
    pub fn from_public_key(spki: &[u8]) -> Fingerprint {
        Fingerprint(digest(&SHA256, spki).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Fingerprint, String> {
        let bytes = text.strip_prefix(PREFIX).and_then(from_hex);
        bytes.map(Fingerprint).ok_or_else(|| {
            "not a fingerprint: `sha256:` and 64 hexadecimal digits, as `unrack keys show` prints it".into()
        })
    }
}

/// Parses 64 hexadecimal digits into 32 bytes.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| (pair[at] as char).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(bytes)
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back(key in prop::collection::vec(any::<u8>(), 0..60)) {
            let fingerprint = Fingerprint::from_public_key(&key);
            prop_assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        }

        #[test]
        fn nonsense_is_refused(text in "(sha256:)?[0-9a-fA-Fé:]{0,66}") {
            if let Ok(read) = text.parse::<Fingerprint>() {
                prop_assert_eq!(read.to_string(), text.to_lowercase());
            }
        }
    }
}
