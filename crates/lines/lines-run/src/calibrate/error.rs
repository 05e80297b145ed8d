//! Errors of a calibration.

/// Reason why this machine cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The kernel did not provide enough memory for the measurements.
    #[error("cannot take {} MiB of memory to calibrate in: {source}; free some, or give --processor", bytes >> 20)]
    Memory {
        /// Number of bytes that were requested.
        bytes: usize,
        /// Error that the kernel returned.
        source: std::io::Error,
    },
    /// The kernel describes no caches.
    #[error("/sys/devices/system/cpu/cpu0/cache lists no cache of data on this machine; give --processor")]
    NoCaches,
    /// The latency curve has no point from which the latency of a cache level can be read.
    #[error(
        "no latency was measured inside cache level {level}: its size, by sysfs, is not plausible; give --processor"
    )]
    Curve {
        /// Number of the cache level.
        level: u8,
    },
}
