//! Several texts in one string.

/// Concatenated texts, each followed by a line feed, which marks its end.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    joined: &'a str,
    ends: &'a [usize],
}

impl<'a> Texts<'a> {
    /// Separator between two texts, and after the last.
    pub const BETWEEN: char = '\n';

    /// Creates the texts of `joined` that end at these positions, in ascending order.
    ///
    /// # Panics
    /// If the last text is not followed by a line feed.
    #[must_use]
    pub fn new(joined: &'a str, ends: &'a [usize]) -> Self {
        let end = ends.last().map_or(0, |end| end + 1);
        assert!(end == joined.len() && (end == 0 || joined.ends_with(Self::BETWEEN)), "a line feed ends each text");
        Self { joined, ends }
    }

    /// Returns all texts with their separators.
    pub(crate) fn joined(&self) -> &'a str {
        self.joined
    }

    /// Returns the end of each text.
    pub(crate) fn ends(&self) -> &'a [usize] {
        self.ends
    }

    /// Returns the texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let joined = self.joined;
        let mut begin = 0;
        self.ends.iter().map(move |&end| &joined[std::mem::replace(&mut begin, end + 1)..end])
    }
}
