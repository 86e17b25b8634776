//! The shared vocabulary of columns. A new kind of supervision adds one constant here.
//!
//! All are fixed-shape: `rows × width` of the view they belong to.

use crate::column::Column;

/// Ids fed to the model. Every view has it.
pub const INPUT_IDS: Column<i32> = Column::new("input_ids");

/// 1 for real tokens (specials included), 0 for padding. Absent from a batch whose rows are all full.
pub const ATTENTION_MASK: Column<u8> = Column::new("attention_mask");

/// Index of each token within the content of the sample it came from; −1 for frame tokens and padding.
pub const ORIGIN: Column<i16> = Column::new("origin");

/// Low 31 bits of the name of the document that owns each token; −1 for frame tokens and padding.
pub const DOCUMENT: Column<i32> = Column::new("document");

/// 32 random bits for each token to predict, 0 elsewhere: what a network that fills masks samples from.
pub const DRAWS: Column<i32> = Column::new("draws");

/// Whether the second segment of a pair is a random one: 1 if it is, 0 if it follows the first. The same value in every
/// cell of a row, padding included, so that the column has the shape of all others; readers use column 0.
pub const IS_RANDOM: Column<u8> = Column::new("is_random");

/// The original id where the model must predict, −100 elsewhere.
pub const LABELS: Column<i32> = Column::new("labels");

/// The column (position in the row) of each anchor's positive, −1 where a position has none.
pub const POSITIVES: Column<i16> = Column::new("positives");

/// Segment of each token: 0 for the first and for padding, 1 for the second. Views of single segments do not make it.
pub const TOKEN_TYPES: Column<u8> = Column::new("token_types");

/// 1 where the id differs from the original, 0 elsewhere.
pub const REPLACED: Column<u8> = Column::new("replaced");

/// What [`LABELS`] holds where nothing is predicted (the field's convention).
pub const IGNORE: i32 = -100;
