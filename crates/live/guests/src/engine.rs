//! Accelerator of a rack's guests. It changes to emulation once a guest hangs under KVM.

use crate::accelerator::Accelerator;
use crate::kernel::InstalledKernel;
use crate::memory;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unrack_live::Error;

/// Accelerator, with the kernel in the form that boots fastest under it.
#[derive(Debug)]
pub(crate) struct GuestEngine {
    pub accelerator: Accelerator,
    pub kernel: File,
}

impl GuestEngine {
    fn new(accelerator: Accelerator, kernel: &InstalledKernel) -> Result<GuestEngine, Error> {
        let unpacked = match accelerator {
            Accelerator::Tcg => kernel.unpacked(),
            Accelerator::Kvm => None,
        };
        let packed =
            || std::fs::read(&kernel.image).map_err(|why| Error::File { path: kernel.image.clone(), why });
        let kernel = memory::file("unrack-kernel", &unpacked.map_or_else(packed, Ok)?)?;
        Ok(GuestEngine { accelerator, kernel })
    }
}

/// Engine with which guests of a rack start from now on.
#[derive(Debug)]
pub(crate) struct Engines {
    kernel: InstalledKernel,
    now: Mutex<Arc<GuestEngine>>,
}

impl Engines {
    /// Creates the engine of this accelerator.
    ///
    /// # Errors
    /// Fails if the kernel cannot be read, or if there is no memory for it.
    pub(crate) fn new(accelerator: Accelerator, kernel: InstalledKernel) -> Result<Engines, Error> {
        let now = Mutex::new(Arc::new(GuestEngine::new(accelerator, &kernel)?));
        Ok(Engines { kernel, now })
    }

    /// Returns the engine with which a guest starts.
    pub(crate) fn now(&self) -> Arc<GuestEngine> {
        self.lock().clone()
    }

    /// Makes guests that start from now on run under emulation.
    ///
    /// # Errors
    /// As [`Engines::new`].
    pub(crate) fn emulate(&self) -> Result<(), Error> {
        let mut now = self.lock();
        if now.accelerator != Accelerator::Tcg {
            *now = Arc::new(GuestEngine::new(Accelerator::Tcg, &self.kernel)?);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<GuestEngine>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
