//! Standard output as a terminal: width and colours.

use std::io::{IsTerminal, stdout};
use std::sync::OnceLock;

use gantry_runtime::rights;
use rustix::termios::tcgetwinsize;

/// Returns the width of the terminal in columns, or 80 if the terminal does not tell. Without a terminal, returns the value of the variable
/// `COLUMNS` (environ(7)), or `None` if it is not set or not a positive number.
pub(crate) fn width() -> Option<usize> {
    if !stdout().is_terminal() {
        return rights::variable("COLUMNS")?.to_str()?.parse().ok().filter(|columns| *columns > 0);
    }
    let columns = tcgetwinsize(stdout()).map_or(0, |size| size.ws_col);
    Some(if columns == 0 { 80 } else { columns.into() })
}

/// Returns the width for sentences: at most 80 columns.
pub(crate) fn reading_width() -> usize {
    width().map_or(80, |columns| columns.min(80))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Colours the text, if standard output shows colours and the user allows it (`NO_COLOR`, no-color.org).
pub(crate) fn paint(text: &str, colour: Colour) -> String {
    static SHOWN: OnceLock<bool> = OnceLock::new();
    let shown = SHOWN.get_or_init(|| {
        let variable = |name| rights::variable(name).filter(|value| !value.is_empty());
        stdout().is_terminal() && variable("NO_COLOR").is_none() && variable("TERM").is_some_and(|term| term != "dumb")
    });
    if *shown { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
}

/// Returns the width of a text in columns, without its colours.
pub(crate) fn columns(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().chars().count();
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count())).sum::<usize>()
}

/// Wraps text to `width` columns; `indent` precedes all lines but the first. A word that is longer than
/// `width` has a line of its own.
pub(crate) fn wrap(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            *line += word;
        } else if columns(line) + 1 + columns(word) <= width {
            *line += " ";
            *line += word;
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room() {
        assert_eq!(columns("\x1b[31mFAILED\x1b[0m"), 6);
        assert_eq!(columns("é \x1b[32mx\x1b[0m."), 4);
        assert_eq!(columns(""), 0);
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrap("one two three", 7, ""), ["one two", "three"]);
        assert_eq!(wrap("one two three four", 8, "  "), ["one two", "  three", "  four"]);
        assert_eq!(wrap("supercalifragilistic a", 3, ""), ["supercalifragilistic", "a"]);
        assert_eq!(wrap("", 7, ""), [""]);
    }
}
