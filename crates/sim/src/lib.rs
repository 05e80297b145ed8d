//! The simulated world: event engine, ports, fabrics, runs, metrics.
