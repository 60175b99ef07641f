//! `gantry sum audit`: compares a folder with a manifest.
//!
//! Listed files are hashed with the manifest's functions. Unlisted files are hashed only if a listed file is missing, because they may be
//! moved files. `plan.rs` reads the manifests, `tree.rs` compares names, links and folders, `report.rs` prints.

mod plan;
mod report;
mod tree;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::bag::Bag;
use super::console::Console;
use super::digest::Digest;
use super::engine::{Engine, HashedFile, Sink};
use super::function::Functions;
use super::lists::ListParser;
use super::names::HashId;
use super::open::Opener;
use super::record::is_as_recorded;
use super::{Run, cache, progress};
use plan::{ListedFile, Plan};
use report::{Report, Verdict};
use tree::Tree;

/// Most files of the same digest that are compared with a listed file. More files can share one digest and
/// differ in another only if a function is broken or a manifest is wrong.
const MAX_COLLISIONS: usize = 16;

/// Compares, and returns the exit status: 0 if everything is as listed, 1 if something differs, 2 if something could not be compared.
///
/// # Errors
/// Describes a manifest that cannot be used.
pub(super) fn run(run: &Run<'_>, parser: ListParser, opener: &mut Opener, console: &mut Console) -> Result<u8, String> {
    let plan = Plan::new(&run.options.operands)?;
    let mut report = Report::new(run.options, console);
    let listing = plan.read(parser, &mut report)?;
    let tree = Tree::new(&plan, &listing, run.options, &mut report);
    let files = &listing.files;

    let mut jobs = Vec::new();
    let ids = |file: &ListedFile| file.digests.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    for (&name, found_as) in &tree.present {
        let file = &files[name];
        jobs.push(Job {
            name,
            found_as: found_as.as_ref().unwrap_or(name),
            expected: Some(file),
            functions: opener.functions(&ids(file))?,
        });
    }
    let of_missing: BTreeSet<HashId> = tree.missing.iter().flat_map(|name| ids(&files[*name])).collect();
    if !of_missing.is_empty() {
        let functions = opener.functions(&of_missing.into_iter().collect::<Vec<_>>())?;
        let job = |name| Job { name, found_as: name, expected: None, functions: functions.clone() };
        jobs.extend(tree.new.iter().map(job));
    }
    let candidates = hash(run, &plan, &jobs, opener.threads, &mut report);

    let mut unlisted: BTreeMap<&Vec<u8>, Option<&(&Job<'_>, HashedFile)>> =
        tree.new.iter().map(|name| (name, None)).collect();
    let mut missing: Vec<&Vec<u8>> = Vec::new();
    let mut candidates_by_digest: HashMap<(HashId, Digest), Vec<usize>> = HashMap::new();
    // Push in reverse, so that the first candidate is popped first.
    for (index, candidate) in candidates.iter().enumerate().rev() {
        let (job, found) = candidate;
        for (function, digest) in job.functions.iter().zip(&found.digests) {
            candidates_by_digest.entry((function.id, *digest)).or_default().push(index);
        }
        unlisted.insert(job.name, Some(candidate));
    }
    let mut taken = vec![false; candidates.len()];
    for name in tree.missing {
        let expected = &files[name].digests;
        let same = |index: &usize| !taken[*index] && candidates[*index].0.has_digests(expected, &candidates[*index].1);
        let found = expected.last().and_then(|digest| candidates_by_digest.get_mut(digest)).and_then(|indices| {
            // Drop candidates that were taken through another function.
            while indices.pop_if(|index| taken[*index]).is_some() {}
            let at = indices.len().saturating_sub(MAX_COLLISIONS);
            let position = indices[at..].iter().rposition(same)?;
            Some(indices.remove(at + position))
        });
        match found {
            Some(index) => {
                taken[index] = true;
                let (job, found) = &candidates[index];
                unlisted.remove(job.name);
                report.print(Verdict::Moved, job.name, Some(name), |object| object.found(job.ids(), found));
            }
            None => missing.push(name),
        }
    }
    let fetch = plan.bag.as_ref().map(|bag| promised_addresses(bag, files, &missing, &mut report)).unwrap_or_default();
    for name in missing {
        report.print(Verdict::Missing, name, None, |object| {
            object.digests("expected", files[name].digests.iter().copied());
            if let Some(address) = fetch.get(name) {
                object.text("url", address);
            }
        });
    }
    for (name, candidate) in unlisted {
        report.print(Verdict::New, name, None, |object| {
            if let Some((job, found)) = candidate {
                object.found(job.ids(), found);
            }
        });
    }
    if let Some(bag) = &plan.bag {
        let whole = run.options.include.is_empty() && run.options.exclude.is_empty();
        let payload = whole.then_some((tree.files, tree.bytes));
        bag.faults(payload).iter().for_each(|fault| report.print_fault(fault));
    }
    Ok(report.finish())
}

/// Returns the addresses of the files that `fetch.txt` promises. Reports its faults, and the number of missing files that it promises.
fn promised_addresses(
    bag: &Bag,
    files: &BTreeMap<Vec<u8>, ListedFile>,
    missing: &[&Vec<u8>],
    report: &mut Report<'_>,
) -> BTreeMap<Vec<u8>, String> {
    let path = bag.folder.join("fetch.txt");
    let (fetch, improper) = match bag.read_fetch_list() {
        Ok(read) => read,
        Err(error) => {
            report.print_unreadable(path.as_os_str().as_bytes(), &error);
            return BTreeMap::new();
        }
    };
    for line in improper {
        report.print_error(path.as_os_str().as_bytes(), &format!("{line}: improperly formatted line"));
    }
    for name in fetch.keys().filter(|name| !files.contains_key(*name)) {
        report.print_fault(&format!("fetch.txt: {}: not in a manifest", String::from_utf8_lossy(name).escape_debug()));
    }
    let count = missing.iter().filter(|name| fetch.contains_key(**name)).count();
    if count > 0 {
        let words = if count == 1 { "missing file is" } else { "missing files are" };
        report.print_remark(path.as_os_str().as_bytes(), &format!("{count} {words} still to be fetched"));
    }
    fetch
}

/// A file to hash.
struct Job<'a> {
    name: &'a Vec<u8>,
    /// The name in the folder, which may have another Unicode normalization form than the listed name.
    found_as: &'a Vec<u8>,
    /// The listed digests, if the file is listed.
    expected: Option<&'a ListedFile>,
    functions: Functions,
}

impl Job<'_> {
    fn ids(&self) -> impl Iterator<Item = HashId> {
        self.functions.iter().map(|function| function.id)
    }

    /// True if the file has these digests.
    fn has_digests(&self, expected: &[(HashId, Digest)], found: &HashedFile) -> bool {
        expected.iter().all(|listed| self.ids().zip(found.digests.iter().copied()).any(|pair| pair == *listed))
    }
}

/// Hashes files. Reports the listed files, and returns the others with their digests.
fn hash<'j>(
    run: &Run<'_>,
    plan: &Plan,
    jobs: &'j [Job<'j>],
    threads: Option<usize>,
    report: &mut Report<'_>,
) -> Vec<(&'j Job<'j>, HashedFile)> {
    let bar = run.bar(|| progress::sizes(jobs.iter().map(|job| plan.path(job.found_as))));
    report.console.write_above(bar.clone());
    let first = jobs.first().map(|job| &job.functions);
    let engine = Engine::new(first, jobs.len(), threads, bar.clone());
    let mut sink = AuditSink { run, jobs, report, candidates: Vec::new(), cached: 0 };
    engine.run(&mut sink, |pipeline| {
        for (index, job) in jobs.iter().enumerate() {
            cache::feed(run.cache, plan.path(job.found_as).into(), job.functions.clone(), index, pipeline);
        }
    });
    bar.finish_and_clear();
    let AuditSink { candidates, cached, report, .. } = sink;
    if cached > 0 {
        let files = if cached == 1 { "file was" } else { "files were" };
        report.console.error(format!("{cached} {files} not read; digests are from the cache").as_bytes());
    }
    candidates
}

struct AuditSink<'s, 'j, 'c> {
    run: &'s Run<'s>,
    jobs: &'j [Job<'j>],
    report: &'s mut Report<'c>,
    candidates: Vec<(&'j Job<'j>, HashedFile)>,
    cached: u64,
}

impl Sink<usize> for AuditSink<'_, '_, '_> {
    fn on_file(&mut self, path: OsString, index: usize, result: io::Result<HashedFile>) {
        let job = &self.jobs[index];
        let found = match result {
            Ok(found) => found,
            Err(error) => return self.report.print_unreadable(path.as_bytes(), &error),
        };
        self.cached += u64::from(found.cached);
        if let Some(cache) = self.run.cache {
            cache.borrow_mut().insert(path.as_bytes(), &job.functions, &found);
        }
        match job.expected {
            None => self.candidates.push((job, found)),
            Some(expected) if job.has_digests(&expected.digests, &found) => {
                self.report.print(Verdict::Ok, job.name, None, |object| object.found(job.ids(), &found));
            }
            Some(expected) => {
                let untouched = expected.recorded.is_some_and(|recorded| is_as_recorded(&recorded, &found));
                let verdict = if untouched { Verdict::Damaged } else { Verdict::Changed };
                self.report.print(verdict, job.name, None, |object| {
                    object.found(job.ids(), &found);
                    object.digests("expected", expected.digests.iter().copied());
                });
            }
        }
    }

    fn on_note(&mut self, _: usize) {}

    fn on_wait(&mut self) {
        self.report.console.flush();
    }
}
