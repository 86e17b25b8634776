//! Cache entries: chunks of text and their ids.
//!
//! A key is the whole chunk, padded with `FF`, which occurs in no UTF-8. So equal keys are equal chunks, and lengths
//! are not stored. Ids take three bytes each: any vocabulary fits, and one byte shuffle unpacks them.

/// Maximum bytes of the chunk of a [`ShortEntry`].
pub(super) const KEY_BYTES: usize = 16;

/// Maximum ids of a [`ShortEntry`].
pub(super) const IDS_MAX: usize = 5;

/// Bytes of an id.
pub(super) const ID_BYTES: usize = 3;

/// Least id that is too large.
pub(super) const ID_END: u32 = 1 << (8 * ID_BYTES);

/// Chunk of at most 16 bytes.
pub(super) type Key = [u64; 2];

/// Key that no chunk has: its first byte begins no character.
const NO_KEY: Key = [u64::MAX - 1, u64::MAX];

/// Masks that set the padding after a chunk, by its length; a chunk that is too long gets an invalid key.
static PADDING: [Key; KEY_BYTES + 2] = {
    let mut padding = [[u64::MAX; 2]; KEY_BYTES + 2];
    let mut length = 0;
    while length <= KEY_BYTES {
        let bits = if length < KEY_BYTES { u128::MAX << (8 * length) } else { 0 };
        padding[length] = halves(bits);
        length += 1;
    }
    padding
};

#[expect(clippy::cast_possible_truncation, reason = "the half that is left is the other one")]
const fn halves(whole: u128) -> [u64; 2] {
    [whole as u64, (whole >> 64) as u64]
}

/// Returns the key of the first `length` of these bytes. For a greater length it returns a key that no entry has.
#[inline]
pub(super) fn key(bytes: &[u8; KEY_BYTES], length: usize) -> Key {
    let (low, high) = bytes.split_at(8);
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of sixteen"));
    let padding = &PADDING[length.min(KEY_BYTES + 1)];
    [word(low) | padding[0], word(high) | padding[1]]
}

/// Returns the key of a separate chunk.
#[inline]
pub(super) fn key_of(chunk: &[u8]) -> Key {
    let mut bytes = [0; KEY_BYTES];
    let length = chunk.len().min(KEY_BYTES);
    bytes[..length].copy_from_slice(&chunk[..length]);
    key(&bytes, chunk.len())
}

/// Returns the hash of a key: the product of its halves, folded to 64 bits.
#[inline]
pub(super) fn hash(key: Key) -> u64 {
    let product = u128::from(key[0] ^ 0x9e37_79b9_7f4a_7c15) * u128::from(key[1] ^ 0xc2b2_ae3d_27d4_eb4f);
    let [low, high] = halves(product);
    low ^ high
}

/// Short chunk and its ids: two entries per cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct ShortEntry {
    key: Key,
    /// Up to five ids, then their number. Kernels rely on a number of at most five.
    packed: [u8; 16],
}

impl ShortEntry {
    /// Free slot.
    pub(super) const FREE: Self = Self { key: NO_KEY, packed: [0; 16] };

    /// Creates an entry, if number and size of the ids fit.
    pub(super) fn new(key: Key, ids: &[u32]) -> Option<Self> {
        let mut packed = [0; 16];
        pack(ids, &mut packed[..IDS_MAX * ID_BYTES])?;
        packed[15] = u8::try_from(ids.len()).ok()?;
        Some(Self { key, packed })
    }

    #[inline]
    pub(super) fn is(&self, key: Key) -> bool {
        (self.key[0] ^ key[0]) | (self.key[1] ^ key[1]) == 0
    }

    pub(super) fn is_free(&self) -> bool {
        self.is(NO_KEY)
    }

    /// Returns the packed ids, with their number in the last byte.
    #[inline]
    pub(super) fn packed(&self) -> &[u8; 16] {
        debug_assert!(self.count() <= IDS_MAX);
        &self.packed
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.packed[15])
    }

    /// Returns the ids.
    #[inline]
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        unpack(&self.packed, self.count())
    }
}

/// Maximum bytes of the chunk of a [`LongEntry`].
pub(super) const LONG_BYTES: usize = 32;

/// Maximum ids of a [`LongEntry`].
const LONG_IDS_MAX: usize = 10;

/// Longer chunk, or one of more ids: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct LongEntry {
    key: LongKey,
    packed: [u8; 32],
}

impl LongEntry {
    /// Free slot.
    pub(super) const FREE: Self = Self { key: [NO_KEY; 2], packed: [0; 32] };

    /// Creates an entry, if chunk and ids fit.
    pub(super) fn new(chunk: &[u8], ids: &[u32]) -> Option<Self> {
        let mut packed = [0; 32];
        pack(ids, &mut packed[..LONG_IDS_MAX * ID_BYTES])?;
        packed[31] = u8::try_from(ids.len()).ok()?;
        Some(Self { key: long_key(chunk)?, packed })
    }

    pub(super) fn is(&self, key: LongKey) -> bool {
        self.key == key
    }

    /// Returns the ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        unpack(&self.packed, usize::from(self.packed[31]))
    }
}

/// Keys of a longer chunk's halves.
pub(super) type LongKey = [Key; 2];

/// Returns the key of a chunk, if it is not too long.
pub(super) fn long_key(chunk: &[u8]) -> Option<LongKey> {
    let (first, second) = chunk.split_at(chunk.len().min(KEY_BYTES));
    (chunk.len() <= LONG_BYTES).then(|| [key_of(first), key_of(second)])
}

/// Returns the hash of a longer chunk, computed as in [`hash`].
pub(super) fn long_hash([first, second]: LongKey) -> u64 {
    hash([first[0] ^ second[0].rotate_left(23), first[1] ^ second[1].rotate_left(41)])
}

fn pack(ids: &[u32], target: &mut [u8]) -> Option<()> {
    for (at, id) in ids.iter().enumerate() {
        let bytes = (*id < ID_END).then(|| id.to_le_bytes())?;
        target.get_mut(at * ID_BYTES..(at + 1) * ID_BYTES)?.copy_from_slice(&bytes[..ID_BYTES]);
    }
    Some(())
}

fn unpack(packed: &[u8], count: usize) -> impl Iterator<Item = u32> {
    packed.chunks_exact(ID_BYTES).take(count).map(|id| u32::from_le_bytes([id[0], id[1], id[2], 0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_holds_what_fits_and_nothing_else() {
        let ids = [0, 1, 65_536, ID_END - 1, 7, 8, 9, 10, 11, 12, 13];
        let key = key(b"sixteen bytes of", 7);
        for count in 0..=ids.len() {
            let short = ShortEntry::new(key, &ids[..count]);
            assert_eq!(short.map(|entry| entry.ids().collect()), (count <= 5).then(|| ids[..count].to_vec()));
            let long = LongEntry::new(b"sixteen bytes of it", &ids[..count]);
            assert_eq!(long.map(|entry| entry.ids().collect()), (count <= 10).then(|| ids[..count].to_vec()));
        }
        assert!(ShortEntry::new(key, &[ID_END]).is_none());
        assert!(LongEntry::new(&[b'a'; 33], &[1]).is_none() && LongEntry::new(&[b'a'; 32], &[1]).is_some());
    }

    #[test]
    fn a_key_is_the_chunk_and_its_length() {
        let bytes = b"abcdefghijklmnop";
        for length in 1..=KEY_BYTES {
            let mut other = *bytes;
            other[length..].fill(b'?');
            assert_eq!(key(bytes, length), key(&other, length), "what lies behind does not count");
            assert_ne!(key(bytes, length), key(bytes, length - 1));
            assert!(!ShortEntry::FREE.is(key(bytes, length)));
        }
        assert_ne!(key(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 3), key(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 4));
        assert!(
            [17, 1000]
                .iter()
                .all(|&length| key(bytes, length) == [u64::MAX; 2] && !ShortEntry::FREE.is(key(bytes, length)))
        );
    }
}
