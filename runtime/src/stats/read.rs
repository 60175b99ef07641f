//! Parses a copy of a page. Another process wrote the page, possibly a hostile one, so all content is checked.

use std::collections::BTreeMap;

use gantry_core::stats::Histogram;

use super::page::{Header, Kind, LINE_WORDS, MAGIC};
use super::report::{Guest, MAX_NAMES, MAX_ROWS, Row};

/// Maximum number of blocks that are read.
const MAX_BLOCKS: usize = 1 << 16;
/// Maximum bytes of a name, and of a guest's name.
const MAX_NAME_BYTES: usize = 64;
const MAX_GUEST_NAME_BYTES: usize = 255;

/// The content of a page.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Creation time, in seconds since 1970.
    pub(super) created: u64,
    pub(super) rows: Vec<Row>,
    pub(super) guests: Vec<Guest>,
}

/// Returns the number of words in use, from the header; `None` if the words are not the header of a page.
pub(super) fn used_words(header: &[u64; LINE_WORDS]) -> Option<usize> {
    (header[Header::Magic as usize] == MAGIC).then(|| usize::try_from(header[Header::Used as usize]).ok()).flatten()
}

/// Parses the words of a page as far as possible.
pub(super) fn contents(words: &[u64]) -> Option<Contents> {
    let header = words.first_chunk::<LINE_WORDS>()?;
    let end = used_words(header)?.min(words.len());
    let mut rows = BTreeMap::new();
    let (mut columns, mut guests) = (Vec::new(), Vec::new());
    for block in blocks(words.get(LINE_WORDS..end)?).take(MAX_BLOCKS) {
        match Kind::ALL.iter().find(|kind| **kind as u64 == block.kind) {
            Some(Kind::Columns) => columns = names(&block.text).map(str::to_owned).collect(),
            Some(Kind::Guest) if guests.len() < MAX_ROWS => guests.push(guest(&block)),
            // Too many guests, or a block of a later version.
            Some(Kind::Guest) | None => {}
            Some(kind) => add_to_row(&mut rows, *kind, &block, &columns),
        }
    }
    Some(Contents { created: header[Header::Created as usize], rows: rows.into_values().collect(), guests })
}

struct Block<'a> {
    kind: u64,
    text: String,
    numbers: &'a [u64],
}

/// Iterates over the blocks, up to the first incomplete one.
fn blocks(mut words: &[u64]) -> impl Iterator<Item = Block<'_>> {
    std::iter::from_fn(move || {
        let [length, about, ..] = *words else { return None };
        let block = words.get(..usize::try_from(length).ok()?)?;
        let (kind, text, count) = (about >> 56, (about >> 32 & 0xff_ffff) as usize, (about & 0xffff_ffff) as usize);
        let head = text.div_ceil(size_of::<u64>()).checked_add(2)?.next_multiple_of(LINE_WORDS);
        let numbers = block.get(head..head.checked_add(count)?)?;
        let text = text.min(MAX_GUEST_NAME_BYTES + MAX_NAMES * MAX_NAME_BYTES);
        let bytes: Vec<u8> = block[2..head].iter().flat_map(|word| word.to_ne_bytes()).take(text).collect();
        words = &words[block.len()..];
        Some(Block { kind, text: printable(&bytes), numbers })
    })
}

/// Replaces characters that are not safe in a terminal.
pub(super) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Splits a text into names, shortened to the maximum length.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('\t').take(MAX_NAMES).map(|name| truncate(name, MAX_NAME_BYTES))
}

fn truncate(name: &str, max_bytes: usize) -> &str {
    &name[..name.floor_char_boundary(max_bytes)]
}

/// Returns the guest of a block.
fn guest(block: &Block<'_>) -> Guest {
    let (name, rest) = block.text.split_once('\t').unwrap_or((&block.text, ""));
    let numbers = names(rest).map(str::to_owned).zip(block.numbers.iter().copied());
    Guest { name: truncate(name, MAX_GUEST_NAME_BYTES).to_owned(), numbers: numbers.collect() }
}

/// Adds the numbers of a block to its row.
fn add_to_row(rows: &mut BTreeMap<[String; 3], Row>, kind: Kind, block: &Block<'_>, columns: &[String]) {
    let mut fields = names(&block.text).map(str::to_owned);
    let [device, class, algorithm, operation, stage] = std::array::from_fn(|_| fields.next().unwrap_or_default());
    let site = [device.clone(), algorithm.clone(), operation.clone()];
    if rows.len() == MAX_ROWS && !rows.contains_key(&site) {
        return;
    }
    let non_empty = |text: String| (!text.is_empty()).then_some(text);
    let row = rows.entry(site).or_insert_with(|| Row::new(non_empty(device), non_empty(class), algorithm, operation));
    match kind {
        Kind::Columns | Kind::Guest => {}
        Kind::Counts => {
            let counted = columns.iter().zip(block.numbers).filter(|(_, number)| **number > 0);
            counted.for_each(|(column, number)| row.add_count(column, *number));
        }
        Kind::Times => row.add_times(&stage, &Histogram::from_words(block.numbers.iter().copied())),
        Kind::Tally => {
            let [requests, bytes] = [0, 1].map(|at| block.numbers.get(at).copied().unwrap_or(0));
            row.requests = row.requests.saturating_add(requests);
            row.bytes = row.bytes.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page with these blocks: kind, text, numbers.
    fn page(blocks: &[(u64, &str, &[u64])]) -> Vec<u64> {
        let mut words = vec![0; LINE_WORDS];
        for (kind, text, numbers) in blocks {
            let head = (2 + text.len().div_ceil(8)).next_multiple_of(LINE_WORDS);
            let mut block = vec![0; head + numbers.len().next_multiple_of(LINE_WORDS)];
            (block[0], block[1]) = (block.len() as u64, kind << 56 | (text.len() as u64) << 32 | numbers.len() as u64);
            for (word, bytes) in block[2..].iter_mut().zip(text.as_bytes().chunks(8)) {
                let mut padded = [0; 8];
                padded[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_ne_bytes(padded);
            }
            block[head..head + numbers.len()].copy_from_slice(numbers);
            words.extend(block);
        }
        (words[Header::Magic as usize], words[Header::Used as usize]) = (MAGIC, words.len() as u64);
        words
    }

    fn sums(words: &[u64]) -> Vec<(Option<String>, String, u64, u64)> {
        let rows = contents(words).map(|contents| contents.rows).unwrap_or_default();
        rows.into_iter().map(|row| (row.device, row.algorithm, row.requests, row.bytes)).collect()
    }

    #[test]
    fn adds_up_the_blocks_of_a_site_by_column_name() {
        let words = page(&[
            (Kind::Columns as u64, "bytes\trequests:turn\tof-a-later-version\trequests:trial", &[]),
            (Kind::Counts as u64, "lanes\tcpu\tsha256\tdigest\t", &[100, 2, 9, 1]),
            (Kind::Counts as u64, "lanes\tcpu\tsha256\tdigest\t", &[50, 1]),
            (Kind::Tally as u64, "host\t\tsha256\tdigest\t", &[7, 700]),
            (77, "lanes\tcpu\tsha256\tdigest\t", &[1, 1, 1, 1]),
        ]);
        let text = |text: &str| text.to_owned();
        let expected = [(Some(text("host")), text("sha256"), 7, 700), (Some(text("lanes")), text("sha256"), 4, 150)];
        assert_eq!(sums(&words), expected);
    }

    #[test]
    fn reads_the_numbers_of_guests_by_name() {
        let words = page(&[
            (Kind::Guest as u64, "vm1\trequests\tbytes", &[3, 300]),
            (Kind::Guest as u64, "vm2\trequests\tof-a-later-version", &[5]),
            (Kind::Guest as u64, "", &[]),
        ]);
        let guests = contents(&words).unwrap().guests;
        let shown: Vec<_> = guests.iter().map(|guest| format!("{} {:?}", guest.name, guest.numbers)).collect();
        assert_eq!(shown, [r#"vm1 {"bytes": 300, "requests": 3}"#, r#"vm2 {"requests": 5}"#, " {}"]);
    }

    #[test]
    fn malformed_pages_have_no_rows() {
        let good = page(&[(Kind::Tally as u64, "host\t\tsha256\tdigest\t", &[7, 700])]);
        assert_eq!(sums(&good).len(), 1);
        for length in 0..good.len() {
            assert!(sums(&good[..length]).len() <= 1, "cut after {length} words");
        }
        let with = |index: usize, value: u64| {
            let mut words = good.clone();
            words[index] = value;
            sums(&words)
        };
        assert_eq!(with(Header::Magic as usize, MAGIC + 1), []);
        for taken in [0, 1, LINE_WORDS as u64, u64::MAX] {
            assert!(with(Header::Used as usize, taken).len() <= 1);
        }
        // The length of the block, then its kind with the lengths of text and numbers.
        for length in [0, 1, 15, 33, u64::MAX] {
            assert_eq!(with(LINE_WORDS, length), [], "{length} words");
        }
        for about in [0, u64::MAX, 0xff_ffff << 32, 0xffff_ffff] {
            assert_eq!(with(LINE_WORDS + 1, Kind::Tally as u64 ^ about), [], "{about:x}");
        }
    }

    #[test]
    fn names_are_printable() {
        let words = page(&[(Kind::Tally as u64, "\x1b[2J\u{7}\t\tsha256\tdigest\t", &[1, 1])]);
        assert_eq!(sums(&words)[0].0.as_deref(), Some("\u{fffd}[2J\u{fffd}"));
    }

    /// Maximum bytes of memory for each byte of a page.
    const MAX_RATIO: usize = 16;

    #[test]
    fn reading_a_page_takes_bounded_memory() {
        let sites: Vec<String> = (0..2000).map(|site| format!("\t\t{site}\t\t")).collect();
        let stages: Vec<String> = (0..2000).map(|stage| format!("\t\t\t\t{stage}")).collect();
        let long = format!("requests:{}", "x".repeat(100_000));
        let many = "event:x\t".repeat(1000);
        let different = many_columns(1000);
        let text = "\u{7}".repeat(1000) + "\t\t";
        let counts = |columns: &str, sites: &[String], numbers: &[u64]| {
            let counts = sites.iter().map(|site| (Kind::Counts as u64, site.as_str(), numbers));
            page(&[(Kind::Columns as u64, columns, &[][..])].into_iter().chain(counts).collect::<Vec<_>>())
        };
        let of = |kind: Kind, texts: &[String], numbers: &[u64]| {
            page(&texts.iter().map(|text| (kind as u64, text.as_str(), numbers)).collect::<Vec<_>>())
        };
        let guest = vec![format!("vm\t{}", many_columns(1000)); 100];
        for (bomb, words) in [
            ("a long name that rows share", counts(&long, &sites, &[1])),
            ("a column of many names", counts(&many, &sites[..100], &[1; 1000])),
            ("many columns", counts(&different, &sites[..100], &[1; 1000])),
            ("many sites", of(Kind::Tally, &sites, &[1, 1])),
            ("stages of one site", of(Kind::Times, &stages, &[1])),
            ("guests of many numbers", of(Kind::Guest, &guest, &[1; 1000])),
            ("long names that cannot be printed", of(Kind::Tally, &vec![text; 1000], &[1, 1])),
        ] {
            let bytes = size_of_val(&words[..]);
            let (rows, taken) = gantry_lab::memory::measure(|| contents(&words).map(|contents| contents.rows.len()));
            assert!(rows.is_some(), "{bomb}");
            assert!(taken.peak_bytes <= MAX_RATIO * bytes, "{bomb}: {} bytes for {bytes}", taken.peak_bytes);
        }
    }

    fn many_columns(count: usize) -> String {
        gantry_lab::memory::concat_parts(count, |column| format!("event:{column}\t"))
    }
}
