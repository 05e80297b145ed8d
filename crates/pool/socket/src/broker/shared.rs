//! Hosts of a rack that share memory although each has its own network: determines which connections between them have names that are valid
//! in the whole rack.
//!
//! A connection counts as one between two of these hosts only if its own address belongs to the host in whose network the kernel locates
//! the socket, and its peer's address belongs to a host of the same rack. No two hosts have the same address. All other names are valid in
//! their own network only: loopback, addresses that a program added, hosts of other racks.

use super::NETWORK_COOKIE;
use super::pairs::{EndName, NameScope};
use crate::kernel;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

/// A host of a rack, whose network is a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingHost {
    /// File of the network namespace.
    pub namespace: PathBuf,
    /// Addresses of the host, which no other host has.
    pub addresses: Vec<Ipv4Addr>,
    /// Number of the rack. The hosts of one rack share memory.
    pub rack: u32,
}

/// Addresses of hosts that share memory. Each address maps to the number of the host's network and to the number of the host's rack.
#[derive(Debug, Default)]
pub(super) struct SharedHosts(BTreeMap<[u8; 16], (u64, u32)>);

impl SharedHosts {
    /// Looks up the networks of the hosts.
    ///
    /// # Errors
    /// Fails if a namespace cannot be entered.
    pub(super) fn new(hosts: &[SharingHost]) -> io::Result<SharedHosts> {
        let mut all = BTreeMap::new();
        for host in hosts {
            let number = number_of(&host.namespace)?;
            for address in &host.addresses {
                all.insert(address.to_ipv6_mapped().octets(), (number, host.rack));
            }
        }
        Ok(SharedHosts(all))
    }

    /// Returns the network in which the names of a connection are valid. `number` is the number of the network in which the kernel locates
    /// the socket.
    pub(super) fn network(&self, number: u64, own: EndName, peer: EndName) -> NameScope {
        let host = |name| match name {
            EndName::Internet(address, _) => self.0.get(&address),
            EndName::Inode(_) => None,
        };
        match (host(own), host(peer)) {
            (Some((of, rack)), Some((_, other))) if *of == number && rack == other => NameScope::Rack(*rack),
            _ => NameScope::Namespace(number),
        }
    }
}

/// Returns the kernel's number of a network namespace. It is read from a socket that is made in the namespace.
fn number_of(namespace: &Path) -> io::Result<u64> {
    let file = File::open(namespace)?;
    // Use a new thread, because it cannot leave the namespace again.
    let made = std::thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
    });
    let socket = made.join().map_err(|_| io::Error::other("a thread panicked"))??;
    let number = kernel::wide_option(socket.as_raw_fd(), libc::SOL_SOCKET, NETWORK_COOKIE);
    number.ok_or_else(|| io::Error::other("this kernel has no numbers of networks (Linux 5.14)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(address: [u8; 4], port: u16) -> EndName {
        EndName::Internet(Ipv4Addr::from(address).to_ipv6_mapped().octets(), port)
    }

    /// Hosts 0 and 1 of rack 0 and host 2 of rack 1, whose networks have the numbers 10, 11 and 12.
    fn shared() -> SharedHosts {
        let hosts = [([10, 0, 0, 1], 10, 0), ([10, 0, 0, 2], 11, 0), ([10, 1, 0, 1], 12, 1)];
        let entry = |(address, number, rack): ([u8; 4], u64, u32)| {
            (Ipv4Addr::from(address).to_ipv6_mapped().octets(), (number, rack))
        };
        SharedHosts(hosts.map(entry).into())
    }

    #[test]
    fn both_ends_of_a_connection_in_a_rack_have_the_same_network() {
        let (a, b) = (name([10, 0, 0, 1], 5000), name([10, 0, 0, 2], 80));
        assert_eq!(shared().network(10, a, b), NameScope::Rack(0));
        assert_eq!(shared().network(11, b, a), NameScope::Rack(0));
        assert_eq!(shared().network(10, a, name([10, 0, 0, 1], 80)), NameScope::Rack(0), "within a host");
    }

    #[test]
    fn whatever_is_not_known_to_be_in_a_rack_is_of_its_own_network() {
        let (a, b) = (name([10, 0, 0, 1], 5000), name([10, 1, 0, 1], 80));
        let loopback = |port| name([127, 0, 0, 1], port);
        assert_eq!(shared().network(10, a, b), NameScope::Namespace(10), "another rack");
        for number in [10, 11] {
            let network = shared().network(number, loopback(5000), loopback(80));
            assert_eq!(network, NameScope::Namespace(number));
        }
        // An address that a program of host 1 added itself, and a network that does not belong to the rack.
        let c = name([10, 0, 0, 2], 80);
        assert_eq!(shared().network(11, a, c), NameScope::Namespace(11));
        assert_eq!(shared().network(7, a, c), NameScope::Namespace(7));
        assert_eq!(shared().network(10, a, loopback(80)), NameScope::Namespace(10));
        assert_eq!(SharedHosts::default().network(10, a, c), NameScope::Namespace(10));
    }
}
