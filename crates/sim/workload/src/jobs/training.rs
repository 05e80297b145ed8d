//! Data-parallel training of a model: each rank computes gradients on its part of a batch, and then the ranks sum up
//! their gradients by a collective operation.
//!
//! Gradients are sent in buckets, one after the other, from the last layer of the model to the first. They are not sent
//! while other gradients are still being computed, because DRack §7.2.1 has a computing stage and a separate
//! communication stage.
//!
//! While a rank computes, it loads the weights of the model once. Loads of activations are not modelled, because they
//! depend on the batch.

use super::model::tensors;
use super::tasks::{Builder, Tasks};
use crate::collective::CollectivePlan;
use crate::error::WorkloadError;
use crate::source::TaskLoads;
use std::sync::Arc;
use unrack_rack::jobs::Training;
use unrack_units::Time;

/// Bytes of a gradient, which is a number of single precision.
const BYTES: u64 = 4;

/// Returns the rounds of the job: one for each iteration of the training.
///
/// # Errors
/// If the collective operation is not possible among `ranks` ranks.
pub fn training(spec: &Training, ranks: u32) -> Result<Vec<Arc<Tasks>>, WorkloadError> {
    let plan = CollectivePlan::new(spec.operation, spec.servers, ranks)?;
    let mut builder = Builder::new();
    let tensors = tensors(spec.model);
    let weights = tensors.iter().sum::<u64>() * BYTES;
    for rank in 0..ranks {
        let works = rank < plan.workers();
        let task = builder.task(rank, if works { spec.compute } else { Time::ZERO });
        builder.loads(task, TaskLoads { again: if works { weights } else { 0 }, ..TaskLoads::default() });
    }
    let mut before = 0;
    for bucket in buckets(&tensors, spec.bucket.get()) {
        before = plan.append(&mut builder, bucket, before);
    }
    let iteration = Arc::new(builder.finish());
    Ok(vec![iteration; spec.iterations as usize])
}

/// Returns the size of each bucket in bytes, in the order from the last tensor to the first. A bucket is complete when
/// the next tensor would exceed `full` bytes.
fn buckets(tensors: &[u64], full: u64) -> Vec<u64> {
    let mut buckets: Vec<u64> = Vec::new();
    for bytes in tensors.iter().rev().map(|parameters| parameters * BYTES) {
        match buckets.last_mut().filter(|bucket| **bucket + bytes <= full) {
            Some(bucket) => *bucket += bytes,
            None => buckets.push(bytes),
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_rack::Operation;
    use unrack_rack::jobs::TrainingModel;
    use unrack_units::Bytes;

    fn spec(model: TrainingModel) -> Training {
        let operation = Operation::RingAllReduce;
        let (compute, bucket) = (Time::from_us(10), Bytes::new(25 << 20));
        Training { model, operation, servers: None, iterations: 2, compute, bucket }
    }

    #[test]
    fn buckets_hold_all_and_are_not_too_full() {
        assert_eq!(buckets(&[1, 2, 3, 100, 4, 5], 48), [36, 400, 24]);
        let layers = tensors(TrainingModel::ResNet18);
        let full = 25 << 20;
        let buckets = buckets(&layers, full);
        assert_eq!(buckets.iter().sum::<u64>(), 4 * 11_181_642);
        assert!(buckets.len() == 2 && buckets.iter().all(|bucket| *bucket <= full));
    }

    #[test]
    fn a_ring_moves_what_it_must_and_servers_all_of_it() {
        let sum = |tasks: &Tasks| tasks.messages().map(|(_, _, bytes)| bytes).sum::<u64>();
        let bytes = 4 * 68_514_048;
        let ring = training(&spec(TrainingModel::TinyStories33M), 8).unwrap();
        assert_eq!((ring.len(), sum(&ring[0])), (2, 14 * bytes));
        assert_eq!(ring[0].computed(), Time::from_us(80));
        let servers = Training {
            operation: Operation::ParameterServer,
            servers: Some(4),
            ..spec(TrainingModel::TinyStories33M)
        };
        let served = training(&servers, 8).unwrap();
        assert_eq!(sum(&served[0]), 4 * 2 * bytes);
        assert_eq!(served[0].computed(), Time::from_us(40));
        let halving = Training { operation: Operation::HalvingDoubling, ..spec(TrainingModel::ResNet18) };
        assert!(training(&halving, 6).is_err());
    }
}
