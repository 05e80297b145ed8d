//! Options that several verbs of `unrack rack` share.

use crate::failure::CommandFailure;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use unrack_keys::datagram::SharedKey;
use unrack_namespaces::Rack;
use unrack_torus::Machines;

/// Placement of the nodes of a torus or mesh.
#[derive(clap::Args)]
pub(super) struct Among {
    /// UDP addresses of the machines that share the nodes, in the same order for all: 10.0.0.1:7000,10.0.0.2:7000
    #[arg(long, value_name = "IP:PORT,...", value_delimiter = ',', requires = "here")]
    pub(super) machines: Vec<SocketAddr>,
    /// Number of this machine among them, from 0
    #[arg(long, value_name = "N", requires = "machines")]
    pub(super) here: Option<usize>,
    /// Key that all machines share, which authenticates datagrams: see `unrack keys shared`
    #[arg(long, value_name = "FILE", requires = "machines", conflicts_with = "insecure")]
    pub(super) key: Option<PathBuf>,
    /// Accept datagrams from beyond loopback without a key
    #[arg(long, requires = "machines")]
    pub(super) insecure: bool,
    /// Network device of this machine behind a node, such as 0=tap0; may be repeated
    #[arg(long = "gateway", value_name = "NODE=DEVICE", value_parser = gateway, conflicts_with = "machines")]
    pub(super) gateways: Vec<(u32, String)>,
}

fn gateway(text: &str) -> Result<(u32, String), String> {
    let parts =
        text.split_once('=').and_then(|(node, device)| Some((node.parse().ok()?, device.to_string())));
    parts.ok_or_else(|| "expected a node's number and a device's name, such as 0=tap0".to_string())
}

impl Among {
    pub(super) fn machines(&self) -> Result<Option<Machines>, CommandFailure> {
        let Some(here) = self.here else { return Ok(None) };
        let key = self.key.as_deref().map(SharedKey::load).transpose()?;
        Ok(Some(Machines::new(self.machines.clone(), here)?.protect(key, self.insecure)?))
    }

    /// Returns an error if these options are given, because the scenario is of another kind.
    pub(super) fn check_absent(&self) -> Result<(), CommandFailure> {
        match self.here.is_some() || !self.gateways.is_empty() {
            true => Err(CommandFailure::Usage(
                "--machines and --gateway need a torus, mesh or graph: leave them out, or name another scenario".into(),
            )),
            false => Ok(()),
        }
    }

    /// Returns these options as arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let gateway = |(node, device): &(u32, String)| format!("--gateway={node}={device}");
        let Some(here) = self.here else { return self.gateways.iter().map(gateway).collect() };
        let machines: Vec<String> = self.machines.iter().map(SocketAddr::to_string).collect();
        let mut all = vec!["--machines".into(), machines.join(","), "--here".into(), here.to_string()];
        let key = self.key.as_ref().and_then(|path| std::path::absolute(path).ok());
        all.extend(key.map(|path| format!("--key={}", path.display())));
        all.extend(self.insecure.then(|| "--insecure".to_string()));
        all
    }
}

#[derive(clap::Args)]
pub(super) struct StateFolder {
    /// Folder for the state of these racks [default: /run/unrack-rack, or in $XDG_RUNTIME_DIR or /tmp if you are not
    /// root]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
}

impl StateFolder {
    pub(super) fn folder(&self) -> PathBuf {
        let user = rustix::process::geteuid();
        self.state.clone().unwrap_or_else(|| match std::env::var_os("XDG_RUNTIME_DIR") {
            _ if user.is_root() => "/run/unrack-rack".into(),
            Some(folder) => Path::new(&folder).join("unrack-rack"),
            None => format!("/tmp/unrack-rack-{}", user.as_raw()).into(),
        })
    }

    pub(super) fn rack(&self) -> Result<Rack, CommandFailure> {
        Ok(Rack::at(&self.folder())?)
    }
}
