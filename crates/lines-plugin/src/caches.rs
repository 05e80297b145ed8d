//! Caches of the process, and what they tell of each access.

use crate::code::Code;
use crate::settings::Settings;
use crate::thread::Piece;
use unrack_lines::recording::Header;
use unrack_lines::window::{Access, Served, Walk, Window};

/// Caches of the process.
pub(crate) struct Caches;

impl Caches {
    pub(crate) fn new(_settings: &Settings) -> Caches {
        Caches
    }

    pub(crate) fn header(&self) -> Header {
        Header { processor: "none".into(), placements: Vec::new() }
    }

    pub(crate) fn forget_counts(&mut self) {}

    #[inline]
    pub(crate) fn access(
        &mut self,
        _thread: u32,
        _code: &Code,
        piece: &Piece,
        window: Option<&mut Window>,
    ) -> bool {
        if let Some(window) = window {
            window.accesses.push(Access {
                instruction: piece.instruction,
                address: piece.address,
                bytes: piece.bytes as u8,
                is_store: piece.kind.is_store(),
                served: Served::L1,
                near: 0,
                walk: Walk::default(),
            });
        }
        false
    }
}
