//! Check of a pool: calls and streams, of which the client and the server compare every byte. Between two hosts, it
//! shows that the hosts really share the memory, and that the kind of memory is configured correctly.

use crate::Error;
use crate::service::{MIRROR, PARTS, SERVICE, wait_for_service};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::Path;
use unrack_basis::SplitMix64;
use unrack_rpc::Client;
use unrack_rpc::client::{CallWindow, Options, PendingCall};
use unrack_rpc::server::{Answered, Call, CallRefusal};
use unrack_rpc::view::{View, ViewMut};

/// Number of calls and streams that a check makes.
#[derive(Debug, Clone, Copy)]
pub struct CheckPlan {
    pub calls: u64,
    pub streams: u64,
    /// Numbers of calls in flight, in addition to the one that is waited for. Each size of the window is used in turn.
    pub windows: [u16; 3],
    pub seed: u64,
}

/// Numbers of calls, streams and bytes that a check compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CheckCounts {
    pub calls: u64,
    /// Bytes of requests and answers.
    pub call_bytes: u64,
    pub streams: u64,
    pub parts: u64,
    pub part_bytes: u64,
}

/// Maximum bytes of a request, and of an answer.
const MOST: u64 = 2 << 20;
/// Number of bytes of each part of a stream.
const PART: u64 = 4096;
/// Number with which the server refuses a request whose bytes differ from those that were sent.
const DIFFERENT: u16 = 9;

/// Draws a number of bytes. Most are small, and one in a hundred is up to [`MOST`].
fn draw_bytes(random: &mut SplitMix64) -> u64 {
    let most = match random.next_u64() % 100 {
        0 => MOST,
        1..10 => 64 << 10,
        _ => 4096,
    };
    // The ends of the range are drawn often.
    match random.next_u64() % 16 {
        0 => most,
        1 => 64,
        _ => 64 + random.next_u64() % (most - 63),
    }
}

/// Fills a message with its seed, followed by bytes that depend on the seed and on their position.
fn fill(mut message: ViewMut<'_>, seed: u64) {
    let mut random = SplitMix64::new(seed);
    let mut bytes: Vec<u8> = Vec::with_capacity(message.len() + 8);
    bytes.extend(seed.to_le_bytes());
    while bytes.len() < message.len() {
        bytes.extend(random.next_u64().to_le_bytes());
    }
    message.copy_from(&bytes[..message.len()]);
}

/// Returns the position of the first byte of a message that differs from the byte that [`fill`] wrote; `None` if all
/// are equal.
fn find_difference(message: View<'_>, seed: u64) -> Option<usize> {
    let found = message.to_vec();
    let mut random = SplitMix64::new(seed);
    let words = std::iter::once(seed).chain(std::iter::repeat_with(move || random.next_u64()));
    let mut expected = words.flat_map(u64::to_le_bytes);
    found.iter().position(|byte| Some(*byte) != expected.next())
}

/// Compares every byte of a request, then answers with the same number of bytes.
pub(crate) fn mirror(call: &mut Call<'_>) -> Answered {
    let seed = compared(call)?;
    let length = call.request().len();
    fill(call.answer(length)?, seed + 1);
    Ok(())
}

fn compared(call: &Call<'_>) -> Result<u64, CallRefusal> {
    let seed: u64 = call.request().get(0).map_err(|_| CallRefusal::from_number(DIFFERENT))?;
    match find_difference(call.request(), seed) {
        None => Ok(seed),
        Some(_) => Err(CallRefusal::from_number(DIFFERENT)),
    }
}

/// Writer of the parts of an answer, one part per call.
type AnswerParts = Box<dyn FnMut(&mut Call<'_>) -> Result<bool, CallRefusal> + Send>;

/// Compares every byte of a request, then answers with a number of parts that depends on the request's seed.
pub(crate) fn parts(call: &mut Call<'_>) -> Result<AnswerParts, CallRefusal> {
    let seed = compared(call)?;
    let (mut next, count) = (0, parts_of(seed));
    Ok(Box::new(move |call: &mut Call<'_>| {
        next += 1;
        fill(call.answer(PART as usize)?, seed + next);
        Ok(next < count)
    }))
}

fn parts_of(seed: u64) -> u64 {
    1 + seed % 20
}

/// Makes calls and streams to the service of [`serve_at`](crate::server::serve_at), and compares every byte.
///
/// # Errors
/// If a call fails, or if a byte differs from the one that was written.
pub fn check(pool: &Path, plan: &CheckPlan) -> Result<CheckCounts, Error> {
    wait_for_service(pool)?;
    let mut random = SplitMix64::new(plan.seed);
    let mut checked = CheckCounts { calls: 0, call_bytes: 0, streams: 0, parts: 0, part_bytes: 0 };
    for (part, window) in plan.windows.into_iter().enumerate() {
        let options = Options { window: CallWindow::Fixed(window), ..Options::default() };
        let client = Client::connect(pool, SERVICE, options)?;
        let share = |all: u64| {
            let (count, part) = (plan.windows.len() as u64, part as u64);
            all * (part + 1) / count - all * part / count
        };
        check_calls(&client, share(plan.calls), window, &mut random, &mut checked)?;
        for _ in 0..share(plan.streams) {
            check_stream(&client, random.next_u64() >> 1, usize::from(window), &mut checked)?;
        }
    }
    Ok(checked)
}

fn check_calls(
    client: &Client,
    calls: u64,
    window: u16,
    random: &mut SplitMix64,
    checked: &mut CheckCounts,
) -> Result<(), Error> {
    let mut under_way: VecDeque<(u64, u64, PendingCall<'_>)> = VecDeque::new();
    let mut left = calls;
    while left > 0 || !under_way.is_empty() {
        if left > 0 && under_way.len() <= usize::from(window) {
            let (seed, bytes) = (random.next_u64() >> 1, draw_bytes(random));
            let mut request = client.request(bytes as usize)?;
            fill(request.body(), seed);
            under_way.push_back((seed, bytes, request.start(MIRROR)?));
            left -= 1;
            continue;
        }
        let (seed, bytes, pending) = under_way.pop_front().expect("some are under way");
        let answer = pending.wait()?;
        compare(answer.body(), bytes, seed + 1)?;
        checked.calls += 1;
        checked.call_bytes += 2 * bytes;
    }
    Ok(())
}

fn check_stream(client: &Client, seed: u64, ahead: usize, checked: &mut CheckCounts) -> Result<(), Error> {
    let mut request = client.request(PART as usize)?;
    fill(request.body(), seed);
    let mut stream = request.stream(PARTS, ahead)?;
    let mut count = 0;
    while let Some(part) = stream.next_part()? {
        count += 1;
        compare(part.body(), PART, seed + count)?;
    }
    if count != parts_of(seed) {
        return Err(Error::Different { what: format!("{count} parts of {}", parts_of(seed)) });
    }
    checked.streams += 1;
    checked.parts += count;
    checked.part_bytes += count * PART;
    Ok(())
}

fn compare(answer: View<'_>, bytes: u64, seed: u64) -> Result<(), Error> {
    if answer.len() as u64 != bytes {
        return Err(Error::Different { what: format!("{} bytes came of {bytes}", answer.len()) });
    }
    match find_difference(answer, seed) {
        None => Ok(()),
        Some(at) => Err(Error::Different { what: format!("byte {at} of {bytes} is not what was written") }),
    }
}
