//! `unrack keys`: keys that protect connections to other machines.

use crate::failure::CommandFailure;
use crate::stdout::print;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_keys::datagram::SharedKey;
use unrack_keys::folder::{distrust, trust, trusted, usual_folder};
use unrack_keys::{EncryptionPolicy, Error, Fingerprint, Keys};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack keys make                            on each machine, once: prints the key's fingerprint
  unrack keys trust sha256:1f0e... --name node1
                                              on the other side of a connection; both sides trust each other
  unrack keys show                            this machine's key, and those that it trusts
  unrack keys shared rack.key                 one key for all machines of a live rack; copy it to each

`unrack memory serve`, `unrack run --remote` and calls over TCP use the keys in $UNRACK_KEYS, else in unrack/keys of \
$XDG_CONFIG_HOME or ~/.config, for every address beyond loopback. Keys do not expire: `unrack keys distrust` takes a \
key off the list, and its next connection is refused.";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Makes a key in a folder, and prints its fingerprint
    Make {
        /// The key folder [default: unrack/keys of $XDG_CONFIG_HOME or ~/.config]
        folder: Option<PathBuf>,
    },
    /// Prints the key's fingerprint, and those that are trusted
    Show {
        /// The key folder [default: unrack/keys of $XDG_CONFIG_HOME or ~/.config]
        folder: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Trusts a key from now on, as a server and as a client
    Trust {
        key: Fingerprint,
        /// Name of the key, for people
        #[arg(long, default_value = "")]
        name: String,
        #[command(flatten)]
        place: KeyFolder,
    },
    /// Stops trusting a key
    Distrust {
        key: Fingerprint,
        #[command(flatten)]
        place: KeyFolder,
    },
    /// Makes a key that all machines of a live rack share, in a file
    Shared { file: PathBuf },
}

#[derive(clap::Args)]
struct KeyFolder {
    /// The key folder [default: unrack/keys of $XDG_CONFIG_HOME or ~/.config]
    #[arg(long, value_name = "DIR")]
    keys: Option<PathBuf>,
}

/// Options of verbs that connect or listen, for the keys to use.
#[derive(clap::Args, Debug)]
pub(crate) struct Protection {
    /// Encrypt with the keys of this folder, on loopback too [default: encrypt only beyond loopback, with the keys of
    /// the default folder; see `unrack keys`]
    #[arg(long, value_name = "DIR", conflicts_with = "insecure")]
    keys: Option<PathBuf>,
    /// Connect without encryption and without proof of identity, beyond loopback too
    #[arg(long)]
    insecure: bool,
}

impl Protection {
    /// Returns the encryption policy that these options select.
    pub(crate) fn policy(&self) -> EncryptionPolicy {
        EncryptionPolicy::from_options(self.keys.clone(), self.insecure)
    }
}

#[derive(Serialize)]
struct KeyListing {
    folder: String,
    key: String,
    trusted: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    key: String,
    name: String,
}

/// Runs `unrack keys`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let usual = |folder: Option<PathBuf>| folder.unwrap_or_else(usual_folder);
    match args.verb {
        Verb::Make { folder } => print(&format!("{}\n", Keys::make(&usual(folder))?.fingerprint()))?,
        Verb::Show { folder, json } => show(usual(folder), json)?,
        Verb::Trust { key, name, place } => {
            let folder = usual(place.keys);
            if name.contains(['\n', '\r', '#']) {
                return Err(CommandFailure::Usage("--name: a name is one line, without #".into()));
            }
            if !trust(&folder, key, &name)? {
                crate::failure::say(&format!("{key} is trusted already"));
            }
        }
        Verb::Distrust { key, place } => {
            let folder = usual(place.keys);
            if !distrust(&folder, key)? {
                let text = format!("{key} is not on the list in {}", folder.display());
                return Err(CommandFailure::Usage(text));
            }
        }
        Verb::Shared { file } => SharedKey::make(&file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(folder: PathBuf, json: bool) -> Result<(), CommandFailure> {
    let keys = Keys::load(&folder)?;
    let all = trusted(&folder)?;
    if json {
        let trusted =
            all.into_iter().map(|known| Entry { key: known.key.to_string(), name: known.name }).collect();
        let folder = folder.display().to_string();
        let shown = KeyListing { folder, key: keys.fingerprint().to_string(), trusted };
        let text =
            serde_json::to_string(&shown).map_err(|error| CommandFailure::Failed(error.to_string()))?;
        return print(&format!("{text}\n"));
    }
    let lines: String = all.iter().map(|known| format!("trusts {} {}\n", known.key, known.name)).collect();
    print(&format!("{}\n{lines}", keys.fingerprint()))
}

impl From<Error> for CommandFailure {
    fn from(error: Error) -> CommandFailure {
        match error {
            Error::Broken(_) | Error::Changed(_) | Error::Refused { .. } | Error::NotTls(_) => {
                CommandFailure::Failed(error.to_string())
            }
            _ => CommandFailure::Usage(error.to_string()),
        }
    }
}
