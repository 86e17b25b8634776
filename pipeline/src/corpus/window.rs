//! Memory of a zstd stream: the window size in the header of its first frame.
//!
//! RFC 8878, section 3.1.1.1: magic number, descriptor, window descriptor, dictionary id, content size. Files of
//! `pzstd` begin with a frame to be skipped.

/// Window that every decoder should support (RFC 8878, section 3.1.1.1.2). Lower limit for any first frame, since later
/// frames may need more than it does.
pub(super) const WINDOW_BYTES: u64 = 8 << 20;

/// Returns the window bytes of a stream with this beginning; the lower limit if the header is unreadable.
pub(super) fn window_bytes(head: &[u8]) -> u64 {
    of_first_frame(head).unwrap_or(WINDOW_BYTES)
}

/// Returns the logarithm of the least power of two that is not smaller: the unit of the decoder's limit.
pub(super) fn log2(bytes: u64) -> u32 {
    bytes.max(1).next_power_of_two().trailing_zeros()
}

/// Returns true if the first frame of a stream with this beginning names a dictionary.
pub(super) fn needs_dictionary(head: &[u8]) -> bool {
    let dictionary = first_frame(head).and_then(|(descriptor, rest)| {
        let window = usize::from(descriptor & SINGLE_SEGMENT == 0);
        rest.get(window..window + dictionary_id_bytes(descriptor))
    });
    dictionary.is_some_and(|id| id.iter().any(|&byte| byte != 0))
}

/// Bit of a frame's descriptor: the frame has no window descriptor.
const SINGLE_SEGMENT: u8 = 0x20;

fn dictionary_id_bytes(descriptor: u8) -> usize {
    [0, 1, 2, 4][usize::from(descriptor & 3)]
}

/// Returns the descriptor of the first frame with data, and the bytes after it.
fn first_frame(mut head: &[u8]) -> Option<(u8, &[u8])> {
    loop {
        let magic = u32::from_le_bytes(head.get(..4)?.try_into().ok()?);
        head = &head[4..];
        if magic == 0xfd2f_b528 {
            break;
        }
        if magic & 0xffff_fff0 != 0x184d_2a50 {
            return None;
        }
        let skip = u32::from_le_bytes(head.get(..4)?.try_into().ok()?);
        head = head.get(4 + usize::try_from(skip).ok()?..)?;
    }
    head.split_first().map(|(&descriptor, rest)| (descriptor, rest))
}

fn of_first_frame(head: &[u8]) -> Option<u64> {
    let (descriptor, rest) = first_frame(head)?;
    if descriptor & SINGLE_SEGMENT == 0 {
        let window = *rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // Single segment: its content size is its window size.
    let id = dictionary_id_bytes(descriptor);
    let (length, least) = [(1, 0), (2, 256), (4, 0), (8, 0)][usize::from(descriptor >> 6)];
    let mut size = [0; 8];
    size[..length].copy_from_slice(rest.get(id..id + length)?);
    u64::from_le_bytes(size).checked_add(least)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn stream(log: u32, text: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("in memory");
        encoder.window_log(log).expect("a legal window");
        encoder.write_all(text).expect("in memory");
        encoder.finish().expect("in memory")
    }

    #[test]
    fn the_window_is_the_one_that_was_asked_for() {
        for log in [24, 27, 31] {
            let bytes = stream(log, b"one text");
            assert_eq!(window_bytes(&bytes), 1 << log);
            let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &bytes].concat();
            assert_eq!(window_bytes(&skipped), 1 << log, "behind a frame that is skipped");
            assert_eq!(log2(1 << log), log);
        }
        assert_eq!(log2((1 << 24) + 1), 25);
        // The size is known in advance, so these are single segments of 300 and of 20 million bytes.
        assert_eq!(of_first_frame(&zstd::bulk::compress(&[7; 300], 1).expect("in memory")), Some(300));
        for broken in [&b""[..], b"text", &[0x28, 0xb5, 0x2f, 0xfd], &[0x28, 0xb5, 0x2f, 0xfd, 0xe0, 1]] {
            assert_eq!(window_bytes(broken), WINDOW_BYTES);
        }
    }
}
