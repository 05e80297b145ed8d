//! Return of every page to the program, before a fork and at the pager's end.

use super::space::PagedSpace;
use crate::reserved_region::LANDINGS;
use crate::sys::{PAGE, now_ns};
use crate::table::{RecordId, State};
use alloc::vec::Vec;
use rustix::io::Errno;

/// Maximum number of pages that are moved at once.
const MOST_MOVED: usize = 512;

/// Puts back every page whose mapping still exists. No fetch may be in flight or begin meanwhile.
pub(super) fn put_all_back(space: &mut PagedSpace) {
    let away = space.pages.thawing();
    if space.store.is_connected() {
        return bring_back(space, &away);
    }
    let mut rest = &away[..];
    while let Some(first) = rest.first() {
        // Changes applied meanwhile may have dropped some pages.
        if !space.is_away(*first) {
            rest = &rest[1..];
            continue;
        }
        let present = rest.iter().take_while(|id| space.is_away(**id)).count();
        let run = space.pages.run_length(&rest[..present]).min(MOST_MOVED);
        put_run_back(space, &rest[..run]);
        rest = &rest[run..];
    }
}

/// Puts back every page of `away` as soon as it has arrived, including pages at the memory node.
fn bring_back(space: &mut PagedSpace, away: &[RecordId]) {
    let mut rest = away.iter().copied();
    let mut wave: Vec<RecordId> = Vec::with_capacity(LANDINGS / 2);
    loop {
        let room = wave.capacity() - wave.len();
        wave.extend(rest.by_ref().take(room));
        if wave.is_empty() {
            return;
        }
        let before = wave.len();
        wave.retain(|id| {
            if space.is_away(*id) {
                space.withdraw(*id);
                space.ask_for(*id);
                if space.contents(*id).is_some() {
                    put_run_back(space, &[*id]);
                }
            }
            space.is_away(*id)
        });
        if wave.len() == before {
            space.wait_for_node();
            space.read_changes();
        }
    }
}

fn put_run_back(space: &mut PagedSpace, run: &[RecordId]) {
    let mut rest = run;
    while let Some(first) = rest.first() {
        let record = *space.pages.table.get(*first);
        if !space.is_away(*first) {
            rest = &rest[1..];
            continue;
        }
        let Some(contents) = space.contents(*first) else { return };
        let (moved, result) = space.memory.give(record.address, contents, rest.len() * PAGE, true);
        for id in &rest[..moved / PAGE] {
            space.contents_moved(*id);
            thawed(space, *id);
        }
        rest = &rest[moved / PAGE..];
        match result {
            Ok(()) => {}
            // A change may have broken the run of neighbours. Therefore the rest is moved page by page.
            Err(Errno::AGAIN) => {
                space.read_changes();
                if rest.len() > 1 {
                    return rest.iter().for_each(|id| put_run_back(space, &[*id]));
                }
            }
            Err(_) if rest.len() > 1 => return rest.iter().for_each(|id| put_run_back(space, &[*id])),
            Err(_) => rest = copy_first_back(space, rest),
        }
    }
}

fn copy_first_back<'a>(space: &mut PagedSpace, run: &'a [RecordId]) -> &'a [RecordId] {
    let address = space.pages.table.get(run[0]).address;
    match space.copy_back(run[0], address) {
        Ok(id) => thawed(space, id),
        Err(Errno::AGAIN) => {
            space.read_changes();
            return run;
        }
        // The page's mapping is being moved or unmapped.
        Err(_) => {}
    }
    &run[1..]
}

/// Records that a page is back in the program. Pages that were remote will be the first to be evicted again, and clean ones must then still
/// be known as clean.
fn thawed(space: &mut PagedSpace, id: RecordId) {
    let was_remote = space.pages.table.get(id).state == State::Remote;
    space.pages.activate(id, false, now_ns());
    if was_remote {
        space.pages.table.to_front(id);
    }
}
