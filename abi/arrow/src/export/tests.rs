//! Exported columns, imported again.

use super::*;
use crate::{Column, Layout, Reader};

fn make_column(kind: Type, values: &[Option<&[u8]>]) -> Arc<ExportedColumn> {
    let mut column = ExportedColumn { kind, data: Vec::new(), validity: None, len: values.len() };
    if values.iter().any(Option::is_none) {
        let mut bits = vec![0; values.len().div_ceil(8)];
        values
            .iter()
            .enumerate()
            .filter(|(_, value)| value.is_some())
            .for_each(|(at, _)| bits[at / 8] |= 1 << (at % 8));
        column.validity = Some(bits);
    }
    for value in values {
        column.data.extend_from_slice(value.unwrap_or(&vec![0; kind.size()]));
    }
    Arc::new(column)
}

fn column(kind: Type, array: ArrowArray) -> Column {
    // SAFETY: array and schema were made here, for the same type.
    unsafe {
        let (layout, is_table) = Layout::from_schema(&kind.schema()).unwrap();
        Column::new(array, layout, is_table).unwrap()
    }
}

fn values(column: &Column) -> Vec<Option<&[u8]>> {
    (0..column.len()).map(|index| column.value(index).unwrap()).collect()
}

const VALUES: [Option<&[u8]>; 3] = [Some(b"ab"), None, Some(b"cd")];

#[test]
fn exported_values_can_be_imported() {
    for kind in [Type::Bytes(2), Type::Text(2)] {
        let exported = make_column(kind, &VALUES);
        let array = exported.clone().array().unwrap();
        assert_eq!((array.length, array.null_count), (3, 1));
        assert_eq!(values(&column(kind, array)), VALUES);
        assert_eq!((0..3).map(|index| exported.value(index)).collect::<Vec<_>>(), VALUES);
        assert_eq!(Arc::strong_count(&exported), 1, "an array was not released");
    }
}

#[test]
fn a_stream_yields_every_column_and_ends() {
    let kind = Type::Text(2);
    let (first, second) = (make_column(kind, &VALUES), make_column(kind, &VALUES[..1]));
    // SAFETY: the stream was made here.
    let mut reader = unsafe { Reader::new(stream(kind, vec![first.clone(), second])) }.unwrap();
    assert_eq!(values(&reader.next().unwrap().unwrap()), VALUES);
    assert_eq!(values(&reader.next().unwrap().unwrap()), VALUES[..1]);
    assert!(reader.next().is_none() && reader.next().is_none());
    assert_eq!(Arc::strong_count(&first), 1, "the stream still holds the column");
    // SAFETY: as above. The stream is released before its end.
    drop(unsafe { Reader::new(stream(kind, vec![first.clone()])) }.unwrap());
    assert_eq!(Arc::strong_count(&first), 1);
}

#[test]
fn a_stream_without_a_function_is_refused_and_released() {
    let kind = Type::Text(2);
    let column = make_column(kind, &VALUES);
    let mut stream = stream(kind, vec![column.clone()]);
    stream.get_next = None;
    // SAFETY: the stream was made here.
    let refused = unsafe { Reader::new(stream) }.unwrap_err();
    assert!(refused.to_string().contains("lacks a function"), "{refused}");
    assert_eq!(Arc::strong_count(&column), 1, "the stream still holds the column");
}

#[test]
fn concatenated_columns_keep_their_nulls() {
    let kind = Type::Bytes(2);
    let (nulls, whole) = (make_column(kind, &VALUES), make_column(kind, &[Some(&b"ef"[..]); 9]));
    let together = ExportedColumn::concatenate(kind, &[whole, nulls]).unwrap();
    let expected = [&[Some(&b"ef"[..]); 9][..], &VALUES].concat();
    assert_eq!(values(&column(kind, together.array().unwrap())), expected);
    assert_eq!(ExportedColumn::concatenate(kind, &[]).unwrap().len, 0);
}

#[test]
fn an_array_of_more_than_2_gib_of_strings_is_an_error() {
    let kind = Type::Text(1 << 20);
    let long = ExportedColumn { kind, data: Vec::new(), validity: None, len: 2048 };
    assert_eq!(kind.max_values(), 2047);
    assert_eq!(Arc::new(long).array().unwrap_err(), Error::TooLong);
}
