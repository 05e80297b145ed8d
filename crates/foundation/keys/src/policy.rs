//! Rule that decides which addresses need keys.

use crate::folder::usual_folder;
use crate::{Error, Keys};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Rule that decides which connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EncryptionPolicy {
    /// Connections beyond this machine are encrypted, with the keys of the default folder. Loopback connections are plain.
    #[default]
    BeyondLoopback,
    /// All connections are encrypted, with the keys of this folder.
    Always(PathBuf),
    /// No connections are encrypted, because the user requested it.
    Never,
}

impl EncryptionPolicy {
    /// Returns the policy that the options `--keys` and `--insecure` select.
    pub fn from_options(keys: Option<PathBuf>, insecure: bool) -> EncryptionPolicy {
        match keys {
            _ if insecure => EncryptionPolicy::Never,
            Some(folder) => EncryptionPolicy::Always(folder),
            None => EncryptionPolicy::BeyondLoopback,
        }
    }

    /// Returns the keys for connections at an address, or `None` if such connections are plain. `insecure` is the option that the error
    /// message suggests for connections without keys.
    ///
    /// # Errors
    /// If keys are needed but cannot be loaded.
    pub fn keys_for(&self, address: SocketAddr, insecure: &'static str) -> Result<Option<Arc<Keys>>, Error> {
        match self {
            EncryptionPolicy::Never => Ok(None),
            EncryptionPolicy::BeyondLoopback if is_loopback(address) => Ok(None),
            EncryptionPolicy::Always(folder) => Ok(Some(Arc::new(Keys::load(folder)?))),
            EncryptionPolicy::BeyondLoopback => match Keys::load(&usual_folder()) {
                Ok(keys) => Ok(Some(Arc::new(keys))),
                Err(cause) => {
                    Err(Error::Needed { address: address.to_string(), cause: Box::new(cause), insecure })
                }
            },
        }
    }
}

/// Returns whether traffic to an address never leaves this machine: 127.0.0.0/8 and ::1.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_goes_without_keys() {
        for (text, loopback) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
            ("[fe80::1]:1", false),
        ] {
            assert_eq!(is_loopback(text.parse().unwrap()), loopback, "{text}");
        }
        let far: SocketAddr = "10.0.0.1:7000".parse().unwrap();
        assert!(EncryptionPolicy::Never.keys_for(far, "--insecure").unwrap().is_none());
        let said = EncryptionPolicy::Always("/nowhere/keys".into())
            .keys_for(far, "--insecure")
            .unwrap_err()
            .to_string();
        assert!(said.contains("unrack keys make /nowhere/keys"), "{said}");
    }
}
