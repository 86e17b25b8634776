//! Several texts in one piece of memory.

/// Texts that stand one behind the other, a line feed behind each: what looks at all of them at once sees where each ends.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    joined: &'a str,
    ends: &'a [usize],
}

impl<'a> Texts<'a> {
    /// Between two texts, and behind the last.
    pub const BETWEEN: char = '\n';

    /// The texts of `joined` that end at these places, in ascending order.
    ///
    /// # Panics
    /// If something else than a line feed stands behind the last.
    #[must_use]
    pub fn new(joined: &'a str, ends: &'a [usize]) -> Self {
        let end = ends.last().map_or(0, |end| end + 1);
        assert!(end == joined.len() && (end == 0 || joined.ends_with(Self::BETWEEN)), "a line feed ends each text");
        Self { joined, ends }
    }

    /// All of them, with what stands between.
    pub(crate) fn joined(&self) -> &'a str {
        self.joined
    }

    /// Where each ends.
    pub(crate) fn ends(&self) -> &'a [usize] {
        self.ends
    }

    /// One after another.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (joined, mut begin) = (self.joined, 0);
        self.ends.iter().map(move |&end| &joined[std::mem::replace(&mut begin, end + 1)..end])
    }
}
