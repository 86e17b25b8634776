//! Character classes of the pre-tokenizer: white space, letter, number, or other.
//!
//! The classes are those of the regular expression of the crate's `ByteLevel`. They depend on the Unicode version of
//! its regex library, which may be the system's. So the code does not copy them from a table. It queries the library,
//! once per plane of 65,536 code points, at the first character of the plane (3 ms).

use std::sync::OnceLock;

use tokenizers::utils::SysRegex;

/// Class as two bits. White space has neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    White = 0,
    Letter = 1,
    Number = 2,
    Other = 3,
}

/// Classes of all code points.
#[derive(Debug)]
pub(crate) struct Classes {
    planes: [OnceLock<Plane>; 17],
}

/// Classes of a plane in two stages: most blocks of 256 have a single class, and equal blocks are stored once (20 kB
/// for the first plane).
#[derive(Debug)]
struct Plane {
    /// Start of each block in `classes`, in blocks.
    blocks: [u8; 256],
    classes: Vec<Class>,
}

const BLOCK: usize = 256;
const PLANE: usize = 1 << 16;

static CLASSES: Classes = Classes { planes: [const { OnceLock::new() }; 17] };

impl Classes {
    /// Returns the classes of the crate.
    pub(crate) fn of_the_crate() -> &'static Self {
        &CLASSES
    }

    /// Returns the class of a code point.
    #[inline]
    pub(super) fn of_code_point(&self, code_point: u32) -> Class {
        let plane = code_point as usize / PLANE;
        let place = code_point as usize % PLANE;
        let plane = self.planes[plane].get_or_init(|| Plane::learned(plane));
        plane.classes[usize::from(plane.blocks[place / BLOCK]) * BLOCK + place % BLOCK]
    }

    /// Returns class and length in bytes of the first character of `text`, which is UTF-8 and not empty.
    #[inline]
    pub(super) fn first(&self, text: &[u8]) -> (Class, usize) {
        let tail = |at: usize| u32::from(text[at] & 0x3F);
        match u32::from(text[0]) {
            lead @ 0..0x80 => (self.of_code_point(lead), 1),
            lead @ 0..0xE0 => (self.of_code_point((lead & 0x1F) << 6 | tail(1)), 2),
            lead @ 0..0xF0 => (self.of_code_point((lead & 0x0F) << 12 | tail(1) << 6 | tail(2)), 3),
            lead => (self.of_code_point((lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3)), 4),
        }
    }
}

impl Plane {
    fn learned(number: usize) -> Self {
        let first = u32::try_from(number * PLANE).expect("a code point");
        let text: String = (first..).take(PLANE).filter_map(char::from_u32).collect();
        // Surrogates do not occur in text.
        let mut flat = vec![Class::Other; PLANE];
        for (pattern, class) in [(r"\s+", Class::White), (r"\p{L}+", Class::Letter), (r"\p{N}+", Class::Number)] {
            let regex = SysRegex::new(pattern).expect("a pattern that the crate uses itself");
            for (begin, end) in regex.find_iter(&text) {
                text[begin..end].chars().for_each(|character| flat[character as usize % PLANE] = class);
            }
        }
        let mut blocks = [0; 256];
        let mut classes = Vec::<Class>::new();
        for (place, block) in blocks.iter_mut().zip(flat.chunks_exact(BLOCK)) {
            let known = classes.chunks_exact(BLOCK).position(|known| known == block);
            *place = u8::try_from(known.unwrap_or(classes.len() / BLOCK)).expect("at most 256 blocks");
            if known.is_none() {
                classes.extend_from_slice(block);
            }
        }
        Self { blocks, classes }
    }
}
