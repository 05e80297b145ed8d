//! Quotations that fit on a line.

use std::borrow::Cow;

/// Characters of an input that an error quotes at most.
pub const WIDTH: usize = 80;
/// Characters kept of the end of what is longer.
const TAIL: usize = 20;
const GAP: char = '…';

/// `text` in at most [`WIDTH`] characters: of what is longer, the beginning and the end.
pub fn clipped(text: &str) -> Cow<'_, str> {
    clipped_to(text, WIDTH)
}

/// The same in at most `width` characters, which are more than [`WIDTH`] / 2.
pub fn clipped_to(text: &str, width: usize) -> Cow<'_, str> {
    // Most texts are short, and counting characters of a long one takes time.
    let place = |n| text.char_indices().nth(n).map(|(at, _)| at);
    if text.len() <= width || place(width).is_none() {
        return text.into();
    }
    let head = place(width - TAIL - 1).unwrap_or(text.len());
    let tail = text.char_indices().nth_back(TAIL - 1).map_or(0, |(at, _)| at);
    format!("{}{GAP}{}", &text[..head], &text[tail..]).into()
}
