//! Errors of a calibration.

/// Reason why this machine cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// Memory is short.
    #[error("cannot take {} MiB of memory to calibrate in: {source}; free some, or give --processor", bytes >> 20)]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// Answer of the kernel.
        source: std::io::Error,
    },
    /// The kernel describes no caches.
    #[error("/sys/devices/system/cpu/cpu0/cache lists no cache of data on this machine; give --processor")]
    NoCaches,
    /// The curve has no point within a level.
    #[error(
        "no latency was measured inside cache level {level}: its size, by sysfs, is not plausible; give --processor"
    )]
    Curve {
        /// Cache level.
        level: u8,
    },
}
