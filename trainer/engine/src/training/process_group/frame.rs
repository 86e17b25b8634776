//! Bytes that ranks exchange: frames of operations, row digests and stop requests.
//!
//! Every operation on bytes begins with one all-gather of frames of one size. So ranks that are in different operations
//! notice it, and do not wait for each other. Short contents are in the frame itself.

use trainer_plan::Error;
use trainer_plan::scaling::links::FRAME_BYTES;
use trainer_plan::stop_request::StopRequest;

/// Size of a frame. A larger one saves the second exchange for longer contents.
pub(super) const FRAME: usize = FRAME_BYTES as usize;
/// Maximum bytes of contents that fit into a frame.
pub(super) const INLINE: usize = FRAME - HEADER;
/// Maximum bytes of contents of one rank.
pub(super) const MAX_LENGTH: usize = 1 << 28;

const HEADER: usize = 64;
const NAME: usize = HEADER - 18;
const HASH: usize = blake3::OUT_LEN;

/// Stop requests by code. 0 is none.
const STOPS: [StopRequest; 5] =
    [StopRequest::Interrupt, StopRequest::Terminate, StopRequest::Hangup, StopRequest::Requeue, StopRequest::Guard];

/// Operation on bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    Gather = 1,
    Broadcast = 2,
}

impl Exchange {
    /// Returns the name of the operation for errors.
    pub(super) fn of(self, what: &str) -> String {
        match self {
            Self::Gather => format!("the gather of {what}"),
            Self::Broadcast => format!("the broadcast of {what}"),
        }
    }
}

/// Frame of one rank.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    number: u64,
    operation: String,
    /// Length of the contents.
    pub length: usize,
    /// First bytes of the contents.
    pub inline: &'a [u8],
}

/// Encodes the frame of the `number`-th operation of this rank.
pub(super) fn encode(number: u64, exchange: Exchange, what: &str, contents: &[u8]) -> [u8; FRAME] {
    let mut bytes = [0; FRAME];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&(contents.len() as u64).to_le_bytes());
    bytes[16] = exchange as u8;
    let name = &what.as_bytes()[..what.len().min(NAME)];
    bytes[17] = u8::try_from(name.len()).expect("a short name");
    bytes[18..18 + name.len()].copy_from_slice(name);
    let inline = &contents[..contents.len().min(INLINE)];
    bytes[HEADER..HEADER + inline.len()].copy_from_slice(inline);
    bytes
}

/// Decodes a frame. Contents of a longer frame are ignored, of a shorter one refused.
pub(super) fn decode(bytes: &[u8]) -> Result<Frame<'_>, Error> {
    let wrong = || Error::Foreign("a rank sent bytes that are not a frame: all ranks must run the same program".into());
    let header: &[u8; FRAME] = bytes.try_into().map_err(|_| wrong())?;
    let number = |at: usize| u64::from_le_bytes(*header[at..].first_chunk().expect("within the header"));
    let length = usize::try_from(number(8)).ok().filter(|length| *length <= MAX_LENGTH).ok_or_else(wrong)?;
    let exchange = match header[16] {
        1 => Exchange::Gather,
        2 => Exchange::Broadcast,
        _ => return Err(wrong()),
    };
    let name = header[18..HEADER].get(..usize::from(header[17])).ok_or_else(wrong)?;
    Ok(Frame {
        number: number(0),
        operation: exchange.of(&String::from_utf8_lossy(name)),
        length,
        inline: &header[HEADER..HEADER + length.min(INLINE)],
    })
}

/// Checks that all ranks are in the same operation. Every rank sees all frames, so all ranks return the error.
pub(super) fn check_same(frames: &[Frame<'_>]) -> Result<(), Error> {
    let Some(first) = frames.first() else { return Ok(()) };
    let Some((rank, other)) =
        frames.iter().enumerate().find(|(_, it)| (it.number, &it.operation) != (first.number, &first.operation))
    else {
        return Ok(());
    };
    let text = |rank: usize, it: &Frame<'_>| format!("rank {rank} is in operation {}, {}", it.number, it.operation);
    Err(Error::Foreign(
        format!(
            "the ranks do not run in step: {}, but {}: all ranks must run the same program and plan",
            text(0, first),
            text(rank, other)
        )
        .into(),
    ))
}

/// Encodes the row digests of micro-batches.
pub(super) fn encode_digests(micro_batches: &[&[blake3::Hash]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for digests in micro_batches {
        bytes.extend((digests.len() as u64).to_le_bytes());
        digests.iter().for_each(|digest| bytes.extend(digest.as_bytes()));
    }
    bytes
}

/// Decodes [`encode_digests`].
pub(super) fn decode_digests(mut bytes: &[u8]) -> Result<Vec<Vec<blake3::Hash>>, Error> {
    let mut micro_batches = Vec::new();
    while let Some((count, rest)) = bytes.split_first_chunk() {
        let rows = usize::try_from(u64::from_le_bytes(*count)).ok().and_then(|rows| rows.checked_mul(HASH));
        let Some((digests, rest)) = rows.and_then(|length| rest.split_at_checked(length)) else { break };
        micro_batches.push(digests.as_chunks().0.iter().map(|digest| blake3::Hash::from_bytes(*digest)).collect());
        bytes = rest;
    }
    if bytes.is_empty() { Ok(micro_batches) } else { Err(unreadable("row digests")) }
}

/// Encodes a stop request.
pub(super) fn encode_stop(stop: Option<StopRequest>) -> [u8; 1] {
    let index = stop.and_then(|stop| STOPS.iter().position(|it| *it == stop));
    [index.map_or(0, |index| u8::try_from(index + 1).expect("few requests"))]
}

/// Decodes [`encode_stop`].
pub(super) fn decode_stop(bytes: &[u8]) -> Result<Option<StopRequest>, Error> {
    match bytes {
        [0] => Ok(None),
        [code] => STOPS.get(usize::from(*code) - 1).copied().map(Some).ok_or_else(|| unreadable("stop requests")),
        _ => Err(unreadable("stop requests")),
    }
}

fn unreadable(what: &str) -> Error {
    Error::Foreign(format!("{what} of a rank cannot be read: all ranks must run the same program").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_written_or_refused() {
        let seeds = vec![encode(7, Exchange::Gather, "counts", &[5; 2000]).to_vec(), vec![0; FRAME]];
        fuzz::target!("frame", seeds, |bytes: &[u8]| {
            if let Ok(frame) = decode(bytes) {
                assert!(frame.inline.len() == frame.length.min(INLINE) && frame.length <= MAX_LENGTH);
            }
            if let Ok(digests) = decode_digests(bytes) {
                let lists: Vec<&[blake3::Hash]> = digests.iter().map(Vec::as_slice).collect();
                assert_eq!(encode_digests(&lists), bytes);
            }
            if let Ok(stop) = decode_stop(bytes) {
                assert_eq!(encode_stop(stop), bytes);
            }
        });
        let contents: Vec<u8> = (0..=255).collect();
        let bytes = encode(1 << 40, Exchange::Broadcast, &"é".repeat(60), &contents);
        let frame = decode(&bytes).expect("a frame");
        assert_eq!((frame.number, frame.length, frame.inline), (1 << 40, 256, &contents[..]));
        assert_eq!(frame.operation, format!("the broadcast of {}", "é".repeat(NAME / 2)));
    }

    #[test]
    fn ranks_in_different_operations_are_named() {
        let frames = [
            encode(3, Exchange::Gather, "counts", &[]),
            encode(3, Exchange::Gather, "counts", &[1]),
            encode(3, Exchange::Gather, "row digests", &[]),
        ];
        let decoded =
            |count: usize| frames[..count].iter().map(|bytes| decode(bytes).expect("a frame")).collect::<Vec<_>>();
        check_same(&decoded(2)).expect("lengths may differ");
        let error = check_same(&decoded(3)).expect_err("rank 2 differs").to_string();
        let expected = "the ranks do not run in step: rank 0 is in operation 3, the gather of counts, but rank 2 is in \
                        operation 3, the gather of row digests: all ranks must run the same program and plan";
        assert_eq!(error, expected);
    }

    #[test]
    fn every_stop_request_has_a_code() {
        for stop in STOPS.into_iter().map(Some).chain([None]) {
            assert_eq!(decode_stop(&encode_stop(stop)).expect("a code"), stop);
        }
        for wrong in [&[][..], &[6], &[1, 1]] {
            decode_stop(wrong).expect_err("not a code");
        }
    }
}
