//! Cost of reading a message only once: copies and words through a [`View`], compared with plain loads, which would let
//! a peer change the bytes between a check and a use.
//!
//! The two ways of reading take turns, one batch each, so that the load of the machine affects them equally. The median
//! of the batches is shown.

use std::hint::black_box;
use std::time::{Duration, Instant};
use unrack_rpc::view::View;

const SIZES: [usize; 5] = [64, 512, 4 << 10, 64 << 10, 2 << 20];
/// Duration of one batch.
const BATCH: Duration = Duration::from_millis(5);
const BATCHES: usize = 41;

fn main() {
    println!("ns to read a message: through a view, and plainly");
    println!(
        "{:>9} {:>10} {:>10} {:>7}   {:>10} {:>10} {:>7}",
        "bytes", "copy", "plain", "", "words", "plain", ""
    );
    for bytes in SIZES {
        let message = vec![0x5au64; bytes / 8];
        // SAFETY: the message outlives the view, and no thread writes to it.
        let view = unsafe { View::new(message.as_ptr().cast(), bytes) };
        // SAFETY: as for the view; here this process is the trusted peer.
        let slice = unsafe { view.as_slice_of_trusted_peer() };
        let (mut here, mut there) = (vec![0; bytes], vec![0; bytes]);
        let [copy, plain_copy] =
            medians([&mut || black_box(&view).copy_to(black_box(&mut here)), &mut || {
                black_box(&mut there).copy_from_slice(black_box(slice))
            }]);
        let [words, plain_words] = medians([
            &mut || {
                let word = |at| black_box(&view).get::<u64>(at).unwrap_or(0);
                black_box((0..bytes).step_by(8).map(word).fold(0u64, u64::wrapping_add));
            },
            &mut || {
                let word = |word: &[u8]| u64::from_ne_bytes(word.try_into().unwrap_or([0; 8]));
                black_box(black_box(slice).chunks_exact(8).map(word).fold(0u64, u64::wrapping_add));
            },
        ]);
        println!(
            "{bytes:>9} {copy:>10.1} {plain_copy:>10.1} {:>6.2}x   {words:>10.1} {plain_words:>10.1} {:>6.2}x",
            copy / plain_copy,
            words / plain_words
        );
    }
}

/// Returns the median time of one run of each way, in ns.
fn medians(mut ways: [&mut dyn FnMut(); 2]) -> [f64; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..BATCHES {
        for (way, times) in ways.iter_mut().zip(&mut times) {
            times.push(batch(way));
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[BATCHES / 2]
    })
}

/// Runs a way repeatedly for the duration of a batch, and returns the time of one run in ns.
fn batch(way: &mut dyn FnMut()) -> f64 {
    let (began, mut runs) = (Instant::now(), 0u64);
    while began.elapsed() < BATCH {
        (0..64).for_each(|_| way());
        runs += 64;
    }
    began.elapsed().as_nanos() as f64 / runs as f64
}
