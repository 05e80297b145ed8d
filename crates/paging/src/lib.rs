//! Remote memory for unmodified programs, from outside: launch, measure, calibrate, fit.
