//! What a page says, read from a copy of it. Another process wrote it, and anybody may have made one: nothing in it is believed.

use std::collections::BTreeMap;

use gantry_core::stats::Histogram;

use super::page::{Header, Kind, LINE, MAGIC};
use super::report::{Guest, MOST_NAMES, MOST_ROWS, Row};

/// Most blocks that are read; more is no page of ours.
const MOST: usize = 1 << 16;
/// Most bytes of a name, and of that of a guest.
const LONGEST: usize = 64;
const LONGEST_GUEST: usize = 255;

/// A page.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// When it was made, in seconds since 1970.
    pub(super) made: u64,
    pub(super) rows: Vec<Row>,
    pub(super) guests: Vec<Guest>,
}

/// How many words of a page are worth reading, by its first ones: `None` if it is no page.
pub(super) fn taken(header: &[u64; LINE]) -> Option<usize> {
    (header[Header::Magic as usize] == MAGIC).then(|| usize::try_from(header[Header::Taken as usize]).ok()).flatten()
}

/// What the words of a page say, as far as they say anything.
pub(super) fn contents(words: &[u64]) -> Option<Contents> {
    let header = words.first_chunk::<LINE>()?;
    let end = taken(header)?.min(words.len());
    let mut rows = BTreeMap::new();
    let (mut columns, mut guests) = (Vec::new(), Vec::new());
    for block in blocks(words.get(LINE..end)?).take(MOST) {
        match Kind::ALL.iter().find(|kind| **kind as u64 == block.kind) {
            Some(Kind::Columns) => columns = names(&block.text).map(str::to_owned).collect(),
            Some(Kind::Guest) if guests.len() < MOST_ROWS => guests.push(guest(&block)),
            // Too many, or of a later version.
            Some(Kind::Guest) | None => {}
            Some(kind) => add(&mut rows, *kind, &block, &columns),
        }
    }
    Some(Contents { made: header[Header::Made as usize], rows: rows.into_values().collect(), guests })
}

struct Block<'a> {
    kind: u64,
    text: String,
    numbers: &'a [u64],
}

/// The blocks, up to the first that is not whole.
fn blocks(mut words: &[u64]) -> impl Iterator<Item = Block<'_>> {
    std::iter::from_fn(move || {
        let [length, about, ..] = *words else { return None };
        let block = words.get(..usize::try_from(length).ok()?)?;
        let (kind, text, count) = (about >> 56, (about >> 32 & 0xff_ffff) as usize, (about & 0xffff_ffff) as usize);
        let head = text.div_ceil(size_of::<u64>()).checked_add(2)?.next_multiple_of(LINE);
        let numbers = block.get(head..head.checked_add(count)?)?;
        let text = text.min(LONGEST_GUEST + MOST_NAMES * LONGEST);
        let bytes: Vec<u8> = block[2..head].iter().flat_map(|word| word.to_ne_bytes()).take(text).collect();
        words = &words[block.len()..];
        Some(Block { kind, text: printable(&bytes), numbers })
    })
}

/// Text as it may be shown in a terminal.
pub(super) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The names of a text, none of which is longer than names are.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('\t').take(MOST_NAMES).map(|name| shortened(name, LONGEST))
}

fn shortened(name: &str, most: usize) -> &str {
    &name[..name.floor_char_boundary(most)]
}

/// The guest of a block.
fn guest(block: &Block<'_>) -> Guest {
    let (name, rest) = block.text.split_once('\t').unwrap_or((&block.text, ""));
    let numbers = names(rest).map(str::to_owned).zip(block.numbers.iter().copied());
    Guest { name: shortened(name, LONGEST_GUEST).to_owned(), numbers: numbers.collect() }
}

/// Adds the numbers of a block to its row.
fn add(rows: &mut BTreeMap<[String; 3], Row>, kind: Kind, block: &Block<'_>, columns: &[String]) {
    let mut fields = names(&block.text).map(str::to_owned);
    let [device, class, algorithm, operation, stage] = std::array::from_fn(|_| fields.next().unwrap_or_default());
    let site = [device.clone(), algorithm.clone(), operation.clone()];
    if rows.len() == MOST_ROWS && !rows.contains_key(&site) {
        return;
    }
    let some = |text: String| (!text.is_empty()).then_some(text);
    let row = rows.entry(site).or_insert_with(|| Row::new(some(device), some(class), algorithm, operation));
    match kind {
        Kind::Columns | Kind::Guest => {}
        Kind::Counts => {
            let counted = columns.iter().zip(block.numbers).filter(|(_, number)| **number > 0);
            counted.for_each(|(column, number)| row.count(column, *number));
        }
        Kind::Times => row.time(&stage, &Histogram::from_words(block.numbers.iter().copied())),
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

    /// A page with this header and these blocks: kind, text, numbers.
    fn page(blocks: &[(u64, &str, &[u64])]) -> Vec<u64> {
        let mut words = vec![0; LINE];
        for (kind, text, numbers) in blocks {
            let head = (2 + text.len().div_ceil(8)).next_multiple_of(LINE);
            let mut block = vec![0; head + numbers.len().next_multiple_of(LINE)];
            (block[0], block[1]) = (block.len() as u64, kind << 56 | (text.len() as u64) << 32 | numbers.len() as u64);
            for (word, bytes) in block[2..].iter_mut().zip(text.as_bytes().chunks(8)) {
                let mut padded = [0; 8];
                padded[..bytes.len()].copy_from_slice(bytes);
                *word = u64::from_ne_bytes(padded);
            }
            block[head..head + numbers.len()].copy_from_slice(numbers);
            words.extend(block);
        }
        (words[Header::Magic as usize], words[Header::Taken as usize]) = (MAGIC, words.len() as u64);
        words
    }

    fn sums(words: &[u64]) -> Vec<(Option<String>, String, u64, u64)> {
        let rows = contents(words).map(|contents| contents.rows).unwrap_or_default();
        rows.into_iter().map(|row| (row.device, row.algorithm, row.requests, row.bytes)).collect()
    }

    #[test]
    fn blocks_of_one_site_are_added_up_by_the_names_of_their_columns() {
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
    fn guests_have_their_numbers_by_name() {
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
    fn what_is_no_page_says_nothing() {
        let good = page(&[(Kind::Tally as u64, "host\t\tsha256\tdigest\t", &[7, 700])]);
        assert_eq!(sums(&good).len(), 1);
        for length in 0..good.len() {
            assert!(sums(&good[..length]).len() <= 1, "cut after {length} words");
        }
        let with = |place: usize, value: u64| {
            let mut words = good.clone();
            words[place] = value;
            sums(&words)
        };
        assert_eq!(with(Header::Magic as usize, MAGIC + 1), []);
        for taken in [0, 1, LINE as u64, u64::MAX] {
            assert!(with(Header::Taken as usize, taken).len() <= 1);
        }
        // The length of the block, its kind, and those of its text and numbers.
        for length in [0, 1, 15, 33, u64::MAX] {
            assert_eq!(with(LINE, length), [], "{length} words");
        }
        for about in [0, u64::MAX, 0xff_ffff << 32, 0xffff_ffff] {
            assert_eq!(with(LINE + 1, Kind::Tally as u64 ^ about), [], "{about:x}");
        }
    }

    #[test]
    fn names_are_printable() {
        let words = page(&[(Kind::Tally as u64, "\x1b[2J\u{7}\t\tsha256\tdigest\t", &[1, 1])]);
        assert_eq!(sums(&words)[0].0.as_deref(), Some("\u{fffd}[2J\u{fffd}"));
    }

    /// Memory that a page may take, for each of its bytes.
    const TIMES: usize = 16;

    #[test]
    fn a_page_takes_no_more_memory_than_some_times_its_bytes() {
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
            let (rows, taken) = gantry_lab::memory::taken(|| contents(&words).map(|contents| contents.rows.len()));
            assert!(rows.is_some(), "{bomb}");
            assert!(taken.bytes <= TIMES * bytes, "{bomb}: {} bytes for {bytes}", taken.bytes);
        }
    }

    fn many_columns(count: usize) -> String {
        gantry_lab::memory::many(count, |column| format!("event:{column}\t"))
    }
}
