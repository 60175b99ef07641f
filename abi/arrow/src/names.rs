//! Readable names of Arrow's types for error messages, close to pyarrow's.

use std::borrow::Cow;

/// Returns a readable name for a format string of the C data interface. Returns an unknown format string unchanged, because later versions of
/// Arrow may add types.
pub(crate) fn type_name(format: &str) -> Cow<'_, str> {
    let (kind, parameters) = format.split_once(':').unwrap_or((format, ""));
    let name = match kind {
        "n" => "null",
        "b" => "bool",
        "c" => "int8",
        "C" => "uint8",
        "s" => "int16",
        "S" => "uint16",
        "i" => "int32",
        "I" => "uint32",
        "l" => "int64",
        "L" => "uint64",
        "e" => "float16",
        "f" => "float",
        "g" => "double",
        "u" => "string",
        "z" => "binary",
        "U" => "large_string",
        "Z" => "large_binary",
        "vu" => "string_view",
        "vz" => "binary_view",
        "w" => return format!("fixed_size_binary({parameters})").into(),
        "d" => return format!("decimal({parameters})").into(),
        "tdD" => "date32",
        "tdm" => "date64",
        "+l" | "+L" | "+w" | "+vl" | "+vL" => "list",
        "+s" => "struct",
        "+m" => "map",
        "+ud" | "+us" => "union",
        "+r" => "run_end_encoded",
        "tiM" | "tiD" | "tin" => "interval",
        _ => match (kind.get(..2), kind.get(2..)) {
            (Some("ts"), Some(unit)) if parameters.is_empty() => {
                return format!("timestamp({})", unit_name(unit)).into();
            }
            (Some("ts"), Some(unit)) => return format!("timestamp({}, {parameters})", unit_name(unit)).into(),
            (Some("tt"), Some(unit)) => return format!("time({})", unit_name(unit)).into(),
            (Some("tD"), Some(unit)) => return format!("duration({})", unit_name(unit)).into(),
            _ => return format.into(),
        },
    };
    name.into()
}

fn unit_name(unit: &str) -> &str {
    match unit {
        "m" => "ms",
        "u" => "us",
        "n" => "ns",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_readable_names() {
        for (format, name) in [
            ("l", "int64"),
            ("g", "double"),
            ("tdD", "date32"),
            ("tsu:UTC", "timestamp(us, UTC)"),
            ("tsn:", "timestamp(ns)"),
            ("ttm", "time(ms)"),
            ("tDs", "duration(s)"),
            ("d:19,10", "decimal(19,10)"),
            ("w:42", "fixed_size_binary(42)"),
            ("+w:3", "list"),
            ("+us:0,1", "union"),
            ("?", "?"),
            ("t\u{e9}", "t\u{e9}"),
            ("", ""),
        ] {
            assert_eq!(type_name(format), name, "{format}");
        }
    }
}
