//! Datagrams that only a holder of the shared key can create, and that are accepted only once.
//!
//! The content of a datagram is followed by its *seal*, in network byte order:
//!
//! | bytes | meaning |
//! |---|---|
//! | 8 | life of the sender: start time of its process, in nanoseconds since 1970 |
//! | 8 | life of the receiver, as far as the sender knows it; 0 if unknown |
//! | 8 | sequence number of the datagram in the sender's life, from 1 |
//! | 32 | HMAC-SHA256 with the shared key, over the numbers of both machines, the content and the preceding fields of the seal |
//!
//! A receiver accepts a datagram only once, and only if it was addressed to the receiver's present life and comes from the newest life of
//! the sender that the receiver knows. Sequence numbers are checked with a window as in RFC 4303 §3.4.3. Therefore replays of datagrams
//! that were recorded before either end started are rejected. A datagram for another life of the receiver is not accepted, but answered
//! with an empty datagram, from which the sender learns the receiver's present life.
//!
//! If the clock of a machine was set back between two of its lives, its present life looks older than the earlier one, and its datagrams
//! are rejected. They are accepted again after its process was started at a time later than the start of the earlier life.

use crate::Error;
use crate::fingerprint::{from_hex, to_hex};
use crate::private::{self, PrivateAccess};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq;

/// Bytes of a seal.
pub const SEAL: usize = 24 + TAG;
const TAG: usize = 32;
/// Width of the window: a datagram may arrive if its number is less than this far below the highest number received.
const WINDOW: u64 = 1024;

/// Key that all machines of a rack share.
#[derive(Debug, Clone)]
pub struct SharedKey(Arc<hmac::Key>);

impl SharedKey {
    /// Makes a new file (mode 0600) with a random key: 64 hexadecimal digits.
    ///
    /// # Errors
    /// If the file exists already, or cannot be written.
    pub fn make(path: &Path) -> Result<(), Error> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).expect("the kernel gives random bytes");
        private::create_new(path, &format!("{}\n", to_hex(&bytes)))
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// If the file does not exist, other users may read it, or it does not contain a shared key.
    pub fn load(path: &Path) -> Result<SharedKey, Error> {
        let text = private::read(path, PrivateAccess::Read)?;
        let why = "is not a shared key: 64 hexadecimal digits, as `unrack keys shared` makes them";
        let malformed = || Error::Malformed { path: path.into(), why: why.into() };
        from_hex(text.trim()).map(SharedKey::from_bytes).ok_or_else(malformed)
    }

    /// Makes a key from 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> SharedKey {
        SharedKey(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Returns the HMAC of `bytes` for the direction from the first machine to the second.
    fn over(&self, machines: (u32, u32), bytes: &[u8]) -> hmac::Tag {
        let mut over = hmac::Context::with_key(&self.0);
        over.update(&machines.0.to_be_bytes());
        over.update(&machines.1.to_be_bytes());
        over.update(bytes);
        over.sign()
    }
}

/// Returns the life of a process that starts now, as nanoseconds since 1970.
pub fn new_life() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |since| since.as_nanos() as u64)
}

/// State of the communication between this machine and one other machine, for both directions.
#[derive(Debug)]
pub struct PeerState {
    key: SharedKey,
    here: u32,
    there: u32,
    life: u64,
    /// Newest known life of the other machine; 0 if none is known.
    their_life: AtomicU64,
    sent: AtomicU64,
}

impl PeerState {
    /// Creates the state of the connection between two machines. `here` and `there` are the numbers of the two machines; `life` comes from
    /// [`new_life`].
    pub fn new(key: SharedKey, here: u32, there: u32, life: u64) -> Arc<PeerState> {
        Arc::new(PeerState { key, here, there, life, their_life: AtomicU64::new(0), sent: AtomicU64::new(0) })
    }

    /// Appends the seal to the content of a datagram.
    pub fn seal(&self, datagram: &mut Vec<u8>) {
        let number = self.sent.fetch_add(1, Relaxed) + 1;
        for field in [self.life, self.their_life.load(Relaxed), number] {
            datagram.extend_from_slice(&field.to_be_bytes());
        }
        let tag = self.key.over((self.here, self.there), datagram);
        datagram.extend_from_slice(tag.as_ref());
    }
}

/// Receiver of datagrams from one other machine.
#[derive(Debug)]
pub struct DatagramOpener {
    pair: Arc<PeerState>,
    /// Life of the sender to which the window belongs.
    life: u64,
    window: AcceptedNumbers,
}

/// Result of checking a datagram.
#[derive(Debug, PartialEq, Eq)]
pub enum OpenedDatagram<'a> {
    /// Accepted, with its content. A datagram with empty content only announces the sender's life.
    Taken(&'a [u8]),
    /// Created by a holder of the key, but for another life of this receiver. It is answered with an empty datagram.
    ForAnotherLife,
    /// Not created by a holder of the key, accepted before, or too old.
    Refused,
}

impl DatagramOpener {
    /// Creates a receiver that has received no datagram yet.
    pub fn new(pair: Arc<PeerState>) -> DatagramOpener {
        DatagramOpener { pair, life: 0, window: AcceptedNumbers::default() }
    }

    /// Checks the seal of a datagram, and returns the content if the datagram is accepted.
    pub fn open<'a>(&mut self, datagram: &'a [u8]) -> OpenedDatagram<'a> {
        let Some((sealed, tag)) = datagram.split_last_chunk::<TAG>() else { return OpenedDatagram::Refused };
        let Some((content, fields)) = sealed.split_last_chunk::<24>() else { return OpenedDatagram::Refused };
        let PeerState { key, here, there, .. } = &*self.pair;
        if !bool::from(key.over((*there, *here), sealed).as_ref().ct_eq(tag)) {
            return OpenedDatagram::Refused;
        }
        let field = |at: usize| u64::from_be_bytes(fields[at * 8..][..8].try_into().expect("eight bytes"));
        let (life, for_life, number) = (field(0), field(1), field(2));
        self.pair.their_life.fetch_max(life, Relaxed);
        if for_life != self.pair.life {
            return OpenedDatagram::ForAnotherLife;
        }
        if life > self.life {
            (self.life, self.window) = (life, AcceptedNumbers::default());
        }
        if life < self.life || !self.window.take(number) {
            OpenedDatagram::Refused
        } else {
            OpenedDatagram::Taken(content)
        }
    }
}

/// Set of accepted numbers. Numbers up to `highest` − [`WINDOW`] count as accepted; above, a number was accepted if its bit is set.
#[derive(Debug, Default)]
struct AcceptedNumbers {
    highest: u64,
    bits: [u64; (WINDOW / 64) as usize],
}

impl AcceptedNumbers {
    /// Accepts a number. Returns false if it was accepted before, or is too old to decide.
    fn take(&mut self, number: u64) -> bool {
        if number > self.highest {
            // Bits are reused for numbers that are one window higher.
            let fresh = (self.highest + 1..=number).rev().take(WINDOW as usize);
            fresh.for_each(|number| *self.word(number) &= !bit(number));
            self.highest = number;
        } else if self.highest - number >= WINDOW || *self.word(number) & bit(number) != 0 {
            return false;
        }
        *self.word(number) |= bit(number);
        number > 0
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.bits[(number % WINDOW / 64) as usize]
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const KEY: [u8; 32] = [7; 32];

    /// Returns the sender and the receiver of each of two machines that have the given lives.
    fn machines(lives: [u64; 2]) -> [(Arc<PeerState>, DatagramOpener); 2] {
        [0, 1].map(|here| {
            let key = SharedKey::from_bytes(KEY);
            let pair = PeerState::new(key, here, 1 - here, lives[here as usize]);
            (pair.clone(), DatagramOpener::new(pair))
        })
    }

    fn sealed(pair: &PeerState, content: &[u8]) -> Vec<u8> {
        let mut datagram = content.to_vec();
        pair.seal(&mut datagram);
        assert_eq!(datagram.len(), content.len() + SEAL);
        datagram
    }

    /// Like [`machines`], after each machine has learned the life of the other.
    fn acquainted(lives: [u64; 2]) -> [(Arc<PeerState>, DatagramOpener); 2] {
        let [mut a, mut b] = machines(lives);
        assert_eq!(b.1.open(&sealed(&a.0, b"hello")), OpenedDatagram::ForAnotherLife);
        assert_eq!(a.1.open(&sealed(&b.0, b"")), OpenedDatagram::Taken(b""));
        assert_eq!(b.1.open(&sealed(&a.0, b"hello")), OpenedDatagram::Taken(b"hello"));
        [a, b]
    }

    #[test]
    fn a_datagram_is_taken_once_and_by_the_one_it_was_made_for() {
        let [mut a, mut b] = acquainted([10, 20]);
        let first = sealed(&a.0, b"first");
        assert_eq!(b.1.open(&first), OpenedDatagram::Taken(b"first"));
        assert_eq!(b.1.open(&first), OpenedDatagram::Refused, "again");
        assert_eq!(a.1.open(&first), OpenedDatagram::Refused, "back to its sender");
        let third = SharedKey::from_bytes(KEY);
        let mut third = DatagramOpener::new(PeerState::new(third, 2, 0, 20));
        assert_eq!(third.open(&sealed(&a.0, b"x")), OpenedDatagram::Refused, "to a third machine");
        let stranger = PeerState::new(SharedKey::from_bytes([8; 32]), 0, 1, 10);
        assert_eq!(b.1.open(&sealed(&stranger, b"x")), OpenedDatagram::Refused, "by another key");
    }

    #[test]
    fn what_was_recorded_in_an_earlier_life_is_refused() {
        let [a, b] = acquainted([10, 20]);
        let recorded: Vec<_> = (0..5).map(|_| sealed(&a.0, b"old")).collect();
        // The receiver starts a new life, in which it knows no life of the sender.
        let [_, mut later] = machines([10, 30]);
        assert!(recorded.iter().all(|old| later.1.open(old) == OpenedDatagram::ForAnotherLife));
        // The sender starts a new life. Datagrams of its earlier life are rejected as soon as one of the new life has arrived.
        let [mut again, _] = machines([11, 20]);
        let mut b = b;
        assert_eq!(b.1.open(&sealed(&again.0, b"")), OpenedDatagram::ForAnotherLife);
        assert_eq!(again.1.open(&sealed(&b.0, b"")), OpenedDatagram::Taken(b""));
        assert_eq!(b.1.open(&sealed(&again.0, b"new")), OpenedDatagram::Taken(b"new"));
        assert!(recorded.iter().all(|old| b.1.open(old) == OpenedDatagram::Refused));
    }

    proptest! {
        #[test]
        fn any_change_is_refused(content in prop::collection::vec(any::<u8>(), 0..80), at: prop::sample::Index, bit in 0u32..8) {
            let [a, mut b] = acquainted([10, 20]);
            let mut datagram = sealed(&a.0, &content);
            let length = datagram.len();
            prop_assert_eq!(b.1.open(&datagram[..at.index(length)]), OpenedDatagram::Refused);
            datagram[at.index(length)] ^= 1u8 << bit;
            prop_assert_eq!(b.1.open(&datagram), OpenedDatagram::Refused);
        }

        /// Compares the window with the set of all accepted numbers.
        #[test]
        fn the_window_takes_each_number_once(numbers in prop::collection::vec(0u64..4000, 1..400)) {
            let (mut window, mut taken, mut highest) = (AcceptedNumbers::default(), BTreeSet::new(), 0);
            for number in numbers {
                let may = number > 0 && number + WINDOW > highest && taken.insert(number);
                prop_assert_eq!(window.take(number), may, "{}", number);
                highest = highest.max(number);
            }
        }
    }

    #[test]
    fn a_shared_key_is_a_private_file() {
        let path = std::env::temp_dir().join(format!("unrack-shared-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        SharedKey::make(&path).unwrap();
        assert!(SharedKey::make(&path).is_err(), "nothing is overwritten");
        SharedKey::load(&path).unwrap();
        std::fs::write(&path, "12").unwrap();
        let said = SharedKey::load(&path).unwrap_err().to_string();
        assert!(said.contains("64 hexadecimal digits"), "{said}");
        std::fs::remove_file(&path).unwrap();
    }
}
