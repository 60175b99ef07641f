//! Columns of strings and byte strings behind [Arrow's C data interface](https://arrow.apache.org/docs/format/CDataInterface.html) and
//! [C stream interface](https://arrow.apache.org/docs/format/CStreamInterface.html): those of others are read where they lie, own ones are
//! handed out.
//!
//! The interface tells no lengths of buffers but those of views. What it tells is checked: each offset against the last one, each view
//! against its buffer. That buffers are as long as the layout needs, and that nobody changes them, is the producer's word, as it is to every
//! consumer.
//!
//! | file | content |
//! |---|---|
//! | `raw.rs` | the three structures, which release what they own |
//! | `layout.rs` | format strings of the types that are read |
//! | `column.rs` | a column of another program, value by value |
//! | `reader.rs` | a stream of columns of another program |
//! | `made.rs` | columns of fixed-size values, handed out as an array or a stream |
//! | `error.rs` | what can be wrong with a column |

mod column;
mod error;
mod layout;
mod made;
pub mod raw;
mod reader;

pub use column::Column;
pub use error::Error;
pub use layout::Layout;
pub use made::{Made, Type, stream};
pub use reader::Reader;
