//! What was measured, kept in the run folder as it comes: a map that was interrupted goes on from there.

use crate::failure::{Failure, say};
use crate::runs::line::Injected;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use unrack_paging::{Calibration, Mode};
use unrack_record::{RunFolder, read_json};
use unrack_units::Bytes;

const NAME: &str = "measured.json";

/// The runs of one command so far.
pub struct Kept<'a> {
    folder: &'a RunFolder,
    runs: RefCell<Measurements>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Measurements {
    of: Identity,
    calibration: Option<KeptCalibration>,
    native: Vec<Native>,
    remote: Vec<Remote>,
}

/// What must be the same for runs to be those of this map.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    pub version: String,
    pub program: String,
    pub seed: u64,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct KeptCalibration {
    floor_ns: f64,
    unseen_ns: f64,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Native {
    wall_s: f64,
    footprint_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Remote {
    local_bytes: u64,
    delay_ns: f64,
    /// Counted from 1, for the same local memory and delay.
    nth: u32,
    wall_s: f64,
    fetches: u64,
    write_backs: u64,
}

impl<'a> Kept<'a> {
    /// What the folder holds of this command; nothing if it was another one, or `of` is not known.
    pub fn open(folder: &'a RunFolder, of: Identity, is_repeatable: bool) -> Kept<'a> {
        let found: Option<Measurements> = read_json(folder.path(NAME)).ok();
        let nothing = Measurements { of: of.clone(), calibration: None, native: vec![], remote: vec![] };
        let runs = found.filter(|found| is_repeatable && found.of == of).unwrap_or(nothing);
        let count = runs.native.len() + runs.remote.len();
        if count > 0 {
            let path = folder.path(NAME);
            say(&format!("going on from {count} runs in {} (remove it to measure anew)", path.display()));
        }
        Kept { folder, runs: RefCell::new(runs) }
    }

    pub fn calibration(
        &self,
        measure: impl FnOnce() -> Result<Calibration, Failure>,
    ) -> Result<Calibration, Failure> {
        if let Some(KeptCalibration { floor_ns, unseen_ns }) = self.runs.borrow().calibration {
            return Ok(Calibration { mode: Mode::Blocking, floor_ns, unseen_ns });
        }
        let Calibration { floor_ns, unseen_ns, .. } = measure()?;
        self.keep(|runs| runs.calibration = Some(KeptCalibration { floor_ns, unseen_ns }))?;
        Ok(Calibration { mode: Mode::Blocking, floor_ns, unseen_ns })
    }

    pub fn has_native(&self, nth: u32) -> bool {
        self.runs.borrow().native.len() >= nth as usize
    }

    /// The n-th native run: seconds, and the footprint.
    pub fn native(
        &self,
        nth: u32,
        run: impl FnOnce() -> Result<(f64, Bytes), Failure>,
    ) -> Result<(f64, Bytes), Failure> {
        if let Some(kept) = self.runs.borrow().native.get(nth as usize - 1) {
            return Ok((kept.wall_s, Bytes::new(kept.footprint_bytes)));
        }
        let (wall_s, footprint) = run()?;
        self.keep(|runs| runs.native.push(Native { wall_s, footprint_bytes: footprint.get() }))?;
        Ok((wall_s, footprint))
    }

    /// The n-th run with so much local memory and this delay.
    pub fn remote(
        &self,
        (local, delay_ns, nth): (Bytes, f64, u32),
        run: impl FnOnce() -> Result<Injected, Failure>,
    ) -> Result<Injected, Failure> {
        let local_bytes = local.get();
        let is_it =
            |kept: &&Remote| (kept.local_bytes, kept.delay_ns, kept.nth) == (local_bytes, delay_ns, nth);
        if let Some(&Remote { wall_s, fetches, write_backs, .. }) =
            self.runs.borrow().remote.iter().find(is_it)
        {
            return Ok(Injected { wall_s, fetches, write_backs });
        }
        let injected = run()?;
        let Injected { wall_s, fetches, write_backs } = injected;
        self.keep(|runs| {
            runs.remote.push(Remote { local_bytes, delay_ns, nth, wall_s, fetches, write_backs })
        })?;
        Ok(injected)
    }

    fn keep(&self, add: impl FnOnce(&mut Measurements)) -> Result<(), Failure> {
        add(&mut self.runs.borrow_mut());
        Ok(self.folder.write_json(NAME, &*self.runs.borrow())?)
    }
}
