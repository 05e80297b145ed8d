//! Accelerator of a rack's guests. It changes to emulation once a guest hangs under KVM.

use crate::accelerator::Accelerator;
use crate::kernel::Kernel;
use crate::memory;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unrack_live::Error;

/// Accelerator, with the kernel in the form that boots fastest under it.
#[derive(Debug)]
pub(crate) struct Engine {
    pub accelerator: Accelerator,
    pub kernel: File,
}

impl Engine {
    fn new(accelerator: Accelerator, kernel: &Kernel) -> Result<Engine, Error> {
        let unpacked = match accelerator {
            Accelerator::Tcg => kernel.unpacked(),
            Accelerator::Kvm => None,
        };
        let packed =
            || std::fs::read(&kernel.image).map_err(|why| Error::File { path: kernel.image.clone(), why });
        let kernel = memory::file("unrack-kernel", &unpacked.map_or_else(packed, Ok)?)?;
        Ok(Engine { accelerator, kernel })
    }
}

/// Engine with which guests of a rack start from now on.
#[derive(Debug)]
pub(crate) struct Engines {
    kernel: Kernel,
    now: Mutex<Arc<Engine>>,
}

impl Engines {
    /// Creates the engine of this accelerator.
    ///
    /// # Errors
    /// Fails if the kernel cannot be read, or if there is no memory for it.
    pub(crate) fn new(accelerator: Accelerator, kernel: Kernel) -> Result<Engines, Error> {
        let now = Mutex::new(Arc::new(Engine::new(accelerator, &kernel)?));
        Ok(Engines { kernel, now })
    }

    /// Returns the engine with which a guest starts.
    pub(crate) fn now(&self) -> Arc<Engine> {
        self.lock().clone()
    }

    /// Makes guests that start from now on run under emulation.
    ///
    /// # Errors
    /// As [`Engines::new`].
    pub(crate) fn emulate(&self) -> Result<(), Error> {
        let mut now = self.lock();
        if now.accelerator != Accelerator::Tcg {
            *now = Arc::new(Engine::new(Accelerator::Tcg, &self.kernel)?);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Engine>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
