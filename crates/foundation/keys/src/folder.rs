//! The key folder. It contains `key.pem`, which is secret, and `trusted`, the list of trusted keys.
//!
//! Each line of the list consists of a fingerprint and a name for human readers. `#` starts a comment. The list is read again for each
//! connection, so that a removed key is rejected from then on.

use crate::fingerprint::Fingerprint;
use crate::private::{self, PrivateAccess};
use crate::{Error, tls};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ServerConfig};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KEY: &str = "key.pem";
const TRUSTED: &str = "trusted";
/// Environment variable that names the key folder, if it is not the default one.
pub const VARIABLE: &str = "UNRACK_KEYS";

/// A key and the list of the keys that it trusts, ready for connections.
#[derive(Debug)]
pub struct Keys {
    own: Fingerprint,
    folder: PathBuf,
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

/// An entry of the list of trusted keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    pub key: Fingerprint,
    pub name: String,
}

/// Returns the default key folder: `$UNRACK_KEYS` if set, otherwise `unrack/keys` in `$XDG_CONFIG_HOME` or `~/.config`.
pub fn usual_folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(VARIABLE).unwrap_or_else(|| {
        let config = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let home = || variable("HOME").unwrap_or_else(|| "/".into()).join(".config");
        config.unwrap_or_else(home).join("unrack/keys")
    })
}

impl Keys {
    /// Makes a key in a folder. The folder is created too if necessary (mode 0700).
    ///
    /// # Errors
    /// If a key exists already, other users may write to the folder, or a file cannot be made.
    pub fn make(folder: &Path) -> Result<Keys, Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Error::file(folder))?;
        private::check_folder(folder)?;
        let made =
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("the kernel gives random bytes");
        let text = STANDARD.encode(made.as_ref());
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
        private::create_new(&folder.join(KEY), &pem).map_err(|error| match error {
            Error::File { why, .. } if why.kind() == ErrorKind::AlreadyExists => {
                Error::KeyIsThere { folder: folder.into() }
            }
            other => other,
        })?;
        Keys::load(folder)
    }

    /// Reads the key of a folder.
    ///
    /// # Errors
    /// If no key exists, the file does not contain a key, or other users could have read or replaced it.
    pub fn load(folder: &Path) -> Result<Keys, Error> {
        let path = folder.join(KEY);
        let absent = |error| match error {
            Error::File { why, .. } if why.kind() == ErrorKind::NotFound => {
                Error::NoKey { folder: folder.into() }
            }
            other => other,
        };
        let text = private::read(&path, PrivateAccess::Read).map_err(absent)?;
        private::check_folder(folder)?;
        let malformed = |why: String| Error::Malformed { path: path.clone(), why };
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| malformed("is not a private key in PEM".into()))?;
        let parts = tls::TlsConfigs::new(key, folder).map_err(|why| malformed(why.to_string()))?;
        Ok(Keys { own: parts.own, folder: folder.into(), server: parts.server, client: parts.client })
    }

    /// Returns the fingerprint of the key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.own
    }

    /// Returns the folder that contains the key.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Returns the keys that the owner of a folder trusts. If there is no list, no keys are trusted.
///
/// # Errors
/// If the list cannot be read, other users may write to it, or a line is malformed (the error gives the line's number).
pub fn trusted(folder: &Path) -> Result<Vec<Trusted>, Error> {
    let path = folder.join(TRUSTED);
    let text = match private::read(&path, PrivateAccess::Write) {
        Err(Error::File { why, .. }) if why.kind() == ErrorKind::NotFound => String::new(),
        other => other?,
    };
    let lines =
        text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or("").trim()));
    lines.filter(|(_, line)| !line.is_empty()).map(|(at, line)| read_line(line, at, &path)).collect()
}

fn read_line(line: &str, number: usize, path: &Path) -> Result<Trusted, Error> {
    let (key, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let malformed = |why| Error::Malformed { path: path.into(), why: format!("line {number}: {why}") };
    Ok(Trusted { key: key.parse().map_err(malformed)?, name: name.trim().into() })
}

/// Adds a key to the list of trusted keys. Returns false if the list contained the key already.
///
/// # Errors
/// Like [`trusted`]. Also if other users may write to the folder, or the list cannot be written.
pub fn trust(folder: &Path, key: Fingerprint, name: &str) -> Result<bool, Error> {
    private::check_folder(folder)?;
    let mut all = trusted(folder)?;
    if all.iter().any(|known| known.key == key) {
        return Ok(false);
    }
    all.push(Trusted { key, name: name.into() });
    write(folder, &all)?;
    Ok(true)
}

/// Removes a key from the list of trusted keys. Returns false if the list did not contain the key.
///
/// # Errors
/// Like [`trust`].
pub fn distrust(folder: &Path, key: Fingerprint) -> Result<bool, Error> {
    private::check_folder(folder)?;
    let mut all = trusted(folder)?;
    let before = all.len();
    all.retain(|known| known.key != key);
    if all.len() < before {
        write(folder, &all)?;
    }
    Ok(all.len() < before)
}

fn write(folder: &Path, all: &[Trusted]) -> Result<(), Error> {
    let lines: String = all.iter().map(|known| format!("{} {}\n", known.key, known.name)).collect();
    private::replace(&folder.join(TRUSTED), &lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    pub(super) fn fresh(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("unrack-keys-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_key_is_made_once_and_is_its_users_alone() {
        let folder = fresh("made");
        let made = Keys::make(&folder).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join(KEY))), (0o700, 0o600));
        assert_eq!(Keys::load(&folder).unwrap().fingerprint(), made.fingerprint());
        assert!(matches!(Keys::make(&folder), Err(Error::KeyIsThere { .. })));
        assert_eq!(Keys::load(&folder).unwrap().fingerprint(), made.fingerprint(), "nothing was overwritten");
        set_permissions(folder.join(KEY), Permissions::from_mode(0o640)).unwrap();
        let said = Keys::load(&folder).unwrap_err().to_string();
        assert!(said.contains("chmod 600") && said.contains("key.pem"), "{said}");
        set_permissions(folder.join(KEY), Permissions::from_mode(0o600)).unwrap();
        set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Keys::load(&folder), Err(Error::NotPrivate { .. })));
        std::fs::remove_dir_all(&folder).unwrap();
        let said = Keys::load(&folder).unwrap_err().to_string();
        assert!(said.contains("unrack keys make"), "{said}");
    }

    #[test]
    fn the_list_keeps_what_is_added_and_names_the_line_that_is_wrong() {
        let folder = fresh("list");
        let own = Keys::make(&folder).unwrap().fingerprint();
        let other = Fingerprint::from_public_key(b"other");
        assert_eq!(trusted(&folder).unwrap(), []);
        assert!(trust(&folder, own, "self").unwrap() && trust(&folder, other, "two words").unwrap());
        assert!(!trust(&folder, other, "again").unwrap());
        let names: Vec<String> = trusted(&folder).unwrap().into_iter().map(|known| known.name).collect();
        assert_eq!(names, ["self", "two words"]);
        assert!(distrust(&folder, own).unwrap() && !distrust(&folder, own).unwrap());
        let list = folder.join(TRUSTED);
        std::fs::write(&list, format!("# comment\n\n{other}\nsha256:12 short\n")).unwrap();
        let said = trusted(&folder).unwrap_err().to_string();
        assert!(said.contains("line 4") && said.contains("64 hexadecimal digits"), "{said}");
        set_permissions(&list, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(trusted(&folder), Err(Error::NotPrivate { .. })));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let folder = fresh("nonsense");
        Keys::make(&folder).unwrap();
        for text in ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            private::replace(&folder.join(KEY), text).unwrap();
            assert!(matches!(Keys::load(&folder), Err(Error::Malformed { .. })), "{text}");
        }
        std::fs::remove_file(folder.join(KEY)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join(KEY)).unwrap();
        assert!(matches!(Keys::load(&folder), Err(Error::Malformed { .. })));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
