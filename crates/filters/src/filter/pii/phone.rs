//! Telephone numbers in a text.

use std::ops::Range;

/// Maximum length of a number with its separators.
const MAX_BYTES: usize = 32;

/// Returns the ranges of telephone numbers, in order.
pub(super) fn phone_ranges(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(|byte| is_start(*byte)) {
        let start = at + step;
        let is_joined = text[..start]
            .chars()
            .next_back()
            .is_some_and(|before| before.is_alphanumeric() || ".-,+_".contains(before));
        match number_end(bytes, start).filter(|_| !is_joined) {
            Some(end) => {
                ranges.push(start..end);
                at = end;
            }
            // The rest of a run of digits is no number either.
            None => at = start + 1 + bytes[start + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count(),
        }
    }
    ranges
}

fn is_start(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'+' | b'(')
}

/// Returns the end of the number that starts at `start`.
fn number_end(bytes: &[u8], start: usize) -> Option<usize> {
    let most = bytes.len().min(start + MAX_BYTES);
    let mut groups: Vec<usize> = Vec::new();
    let mut end = start;
    let mut at = start + usize::from(bytes[start] == b'+');
    while at < most {
        let digits = bytes[at..most].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            groups.push(digits);
            at += digits;
            end = at;
        }
        let separators =
            bytes[at..most].iter().take_while(|byte| matches!(byte, b' ' | b'.' | b'-' | b'(' | b')')).count();
        // Two numbers in a sentence are further apart.
        if separators > 2 || (separators == 0 && digits == 0) {
            break;
        }
        at += separators;
        if digits == 0 && separators > 0 && !groups.is_empty() {
            break;
        }
    }
    let is_joined = bytes.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80);
    let digits: usize = groups.iter().sum();
    let is_number = if bytes[start] == b'+' { (8..=15).contains(&digits) } else { groups == [3, 3, 4] };
    (is_number && !is_joined).then_some(end)
}
