//! E-mail and IP addresses in a text.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Maximum length of the part before the `@`, and of a domain.
const MAX_LOCAL_BYTES: usize = 64;
const MAX_DOMAIN_BYTES: usize = 255;

/// Maximum length of an IP address as text.
const MAX_IP_BYTES: usize = 45;

/// Returns the ranges of e-mail addresses, in order. Searches from each `@` in both directions.
pub(super) fn email_ranges(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for at in memchr::memchr_iter(b'@', bytes) {
        let free = ranges.last().map_or(0, |range| range.end);
        if let Some(range) = local_part(bytes, free, at).zip(domain_end(bytes, at + 1)).map(|(start, end)| start..end) {
            ranges.push(range);
        }
    }
    ranges
}

/// Returns the start of the part before the `@`.
fn local_part(bytes: &[u8], free: usize, at: usize) -> Option<usize> {
    let least = free.max(at.saturating_sub(MAX_LOCAL_BYTES));
    let run = bytes[least..at].iter().rev().take_while(|byte| is_local(**byte)).count();
    let start = at - run;
    let is_edge = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // Punctuation before an address belongs to the sentence.
    let start = (start..at).find(|&start| is_edge(bytes[start]))?;
    // A longer run, or a letter outside ASCII before it, is no address of this definition.
    let is_cut = start > 0 && start == least && (is_local(bytes[start - 1]) || bytes[start - 1] >= 0x80);
    let after_letter = start > 0 && bytes[start - 1] >= 0x80 && is_word_end(bytes, start);
    (is_edge(bytes[at - 1]) && !is_cut && !after_letter).then_some(start)
}

/// Whether the character that ends at `end` is a letter or digit.
fn is_word_end(bytes: &[u8], end: usize) -> bool {
    let start = (end.saturating_sub(4)..end).rev().find(|&start| bytes[start] & 0xc0 != 0x80);
    let character = start.and_then(|start| str::from_utf8(&bytes[start..end]).ok());
    character.and_then(|text| text.chars().next()).is_some_and(char::is_alphanumeric)
}

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_{|}~-".contains(&byte)
}

/// Returns the end of the domain that starts at `start`.
fn domain_end(bytes: &[u8], start: usize) -> Option<usize> {
    let most = bytes.len().min(start + MAX_DOMAIN_BYTES + 1);
    let is_domain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let run = bytes[start..most].iter().take_while(|byte| is_domain(byte)).count();
    let domain = &bytes[start..start + run];
    // A sentence can end behind an address.
    let length = domain.iter().rposition(u8::is_ascii_alphanumeric)? + 1;
    let domain = &domain[..length];
    if length > MAX_DOMAIN_BYTES {
        return None;
    }
    let mut labels = domain.split(|byte| *byte == b'.');
    let is_label = |label: &[u8]| {
        let ends = label.first().zip(label.last());
        ends.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
    };
    let last = labels.next_back()?;
    let is_valid = last.len() >= 2 && last.iter().all(u8::is_ascii_alphabetic) && labels.clone().count() > 0;
    (is_valid && labels.all(is_label)).then_some(start + length)
}

/// Returns the ranges of public IP addresses, in order. Examines each run of digits, `a` to `f`, `.` and `:`.
pub(super) fn ip_ranges(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(|byte| is_address(*byte)) {
        let start = at + step;
        let end = start + bytes[start..].iter().take_while(|byte| is_address(**byte)).count();
        at = end;
        let run = &bytes[start..end];
        // Words such as `added` are runs too.
        let is_candidate = run.len() >= 3 && run.iter().any(|byte| matches!(byte, b'.' | b':'));
        if is_candidate && !touches_word(text, start, end) {
            ranges.extend(public_address(&text[start..end]).map(|found| start + found.start..start + found.end));
        }
    }
    ranges
}

fn is_address(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':')
}

/// Whether a letter, a digit or `_` is next to the range.
fn touches_word(text: &str, start: usize, end: usize) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    text[..start].chars().next_back().is_some_and(is_word) || text[end..].chars().next().is_some_and(is_word)
}

/// Returns the range of the public address in a run, without punctuation around it and without a port.
fn public_address(run: &str) -> Option<Range<usize>> {
    let start = if run.starts_with("::") { 0 } else { run.len() - run.trim_start_matches(['.', ':']).len() };
    let address = run[start..].trim_end_matches(['.', ':']);
    let colons = address.bytes().filter(|byte| *byte == b':').count();
    if colons < 2 {
        let address = address.split_once(':').map_or(address, |(address, _)| address);
        let is_public = address.parse().is_ok_and(is_public_v4);
        return is_public.then_some(start..start + address.len());
    }
    let is_short = address.len() <= MAX_IP_BYTES;
    (is_short && address.parse().is_ok_and(is_public_v6)).then_some(start..start + address.len())
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || matches!((first, second, third), (0 | 224..=255, ..) | (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Global unicast addresses, without those of documentation and protocols.
    (0x2000..0x4000).contains(&first) && !(first == 0x2001 && (second == 0xdb8 || second < 0x200)) && first != 0x3fff
}
