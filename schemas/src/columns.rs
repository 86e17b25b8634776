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

/// Whether the second segment of a pair is a random one: 1 if it is, 0 if it follows the first. The same value in every
/// cell of a row, padding included, so that the column has the shape of all others; readers use column 0.
pub const IS_RANDOM: Column<u8> = Column::new("is_random");

/// The original id where the model must predict, −100 elsewhere.
pub const LABELS: Column<i32> = Column::new("labels");

/// The column (position in the row) of each anchor's positive, −1 where a position has none.
pub const POSITIVES: Column<i16> = Column::new("positives");

/// The segment of each token: 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`; 0 for padding.
pub const TOKEN_TYPES: Column<u8> = Column::new("token_types");

/// What [`LABELS`] holds where nothing is predicted (the field's convention).
pub const IGNORE: i32 = -100;
