//! How traffic is carried: sans-IO protocol cores.
