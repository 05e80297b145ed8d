//! Measurement of this machine: latencies, capacities, bandwidths, and costs of the core.
