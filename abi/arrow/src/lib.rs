//! Columns of strings and byte strings behind [Arrow's C data interface](https://arrow.apache.org/docs/format/CDataInterface.html) and
//! [C stream interface](https://arrow.apache.org/docs/format/CStreamInterface.html). Imports columns without a copy, and exports columns
//! of its own.
//!
//! The interface gives the length of a buffer only for the data of views. The crate checks each view against its buffer, and each
//! offset against the last one. Like every consumer, the crate trusts that the producer's buffers have the length that their layout needs,
//! and do not change.
//!
//! | file | content |
//! |---|---|
//! | `raw.rs` | the three structures, which release their contents on drop |
//! | `layout.rs` | format strings of the supported types |
//! | `names.rs` | names of types, for errors |
//! | `column.rs` | an imported column |
//! | `reader.rs` | an imported stream of columns |
//! | `export.rs` | columns of fixed-size values, exported as an array or a stream |
//! | `error.rs` | errors |

mod column;
mod error;
mod export;
mod layout;
mod names;
pub mod raw;
mod reader;

pub use column::Column;
pub use error::Error;
pub use export::{ExportedColumn, Type, stream};
pub use layout::Layout;
pub use reader::Reader;
