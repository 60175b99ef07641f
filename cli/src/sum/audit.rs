//! `gantry sum audit`: a folder beside what a manifest says of it.
//!
//! Listed files are hashed with the functions that the manifest has for them. A file that is not listed is hashed only if a listed one is missing:
//! it may be that one, moved.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::console::{Console, reason};
use super::digest::Digest;
use super::engine::{Engine, Found, Sink};
use super::function::Functions;
use super::lists::{Listed, Reading, bag_of, is_manifest, read_line};
use super::names::Id;
use super::open::Opener;
use super::options::Options;
use super::quote::quote;
use super::record::Object;
use super::walk::{Step, walk, wanted};
use super::{Run, cache, needs_escape, progress, write_name};

/// Files of one digest that are looked at for a listed file. More have it in common and differ in another one only where a function is broken, or
/// a manifest is wrong.
const COLLISIONS: usize = 16;

/// What is to be compared.
struct Plan {
    /// Names in results are relative to it.
    root: PathBuf,
    /// Where files are that are not listed.
    folder: PathBuf,
    manifests: Vec<PathBuf>,
    /// Listed names are relative to the current folder.
    from_here: bool,
}

/// Names below the root, and the digests of each.
type Listing = BTreeMap<Vec<u8>, Vec<(Id, Digest)>>;

/// Compares, and answers the exit status: 0 when everything is as listed, 1 when something differs, 2 when something could not be compared.
///
/// # Errors
/// A manifest that cannot be used, in words.
pub(super) fn run(run: &Run<'_>, reading: Reading, opener: &mut Opener, console: &mut Console) -> Result<u8, String> {
    let plan = plan(&run.options.operands)?;
    let mut report = Report { options: run.options, console, counts: [0; KINDS.len()], trouble: false };
    let listing = read(&plan, reading, &mut report)?;
    let (present, new) = look_around(&plan, &listing, run.options, &mut report);
    // What is listed below an excluded folder is as little a part of the comparison as what lies there.
    let wanted = |name: &Vec<u8>| wanted(&plan.folder, &plan.path(name), run.options);
    let missing: Vec<&Vec<u8>> = listing.keys().filter(|name| !present.contains(*name) && wanted(name)).collect();

    let mut jobs = Vec::new();
    let ids = |digests: &[(Id, Digest)]| digests.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    for name in &present {
        jobs.push(Job { name, expected: Some(&listing[name]), functions: opener.functions(&ids(&listing[name]))? });
    }
    let of_missing: BTreeSet<Id> = missing.iter().flat_map(|name| ids(&listing[*name])).collect();
    if !of_missing.is_empty() {
        let functions = opener.functions(&of_missing.into_iter().collect::<Vec<_>>())?;
        jobs.extend(new.iter().map(|name| Job { name, expected: None, functions: functions.clone() }));
    }
    let candidates = hash(run, &plan, &jobs, opener.threads, &mut report);

    let mut unlisted: BTreeMap<&Vec<u8>, Option<&(&Job<'_>, Found)>> = new.iter().map(|name| (name, None)).collect();
    let mut gone: Vec<&Vec<u8>> = Vec::new();
    let mut places: HashMap<(Id, Digest), Vec<usize>> = HashMap::new();
    // The first is taken first.
    for (place, candidate) in candidates.iter().enumerate().rev() {
        let (job, found) = candidate;
        for (function, digest) in job.functions.iter().zip(&found.digests) {
            places.entry((function.id, *digest)).or_default().push(place);
        }
        unlisted.insert(job.name, Some(candidate));
    }
    let mut taken = vec![false; candidates.len()];
    for name in missing {
        let expected = &listing[name];
        let same = |place: &usize| !taken[*place] && candidates[*place].0.agrees(expected, &candidates[*place].1);
        let found = expected.last().and_then(|digest| places.get_mut(digest)).and_then(|places| {
            // Another function may have led to it.
            while places.pop_if(|place| taken[*place]).is_some() {}
            let at = places.len().saturating_sub(COLLISIONS);
            let place = places[at..].iter().rposition(same)?;
            Some(places.remove(at + place))
        });
        match found {
            Some(place) => {
                taken[place] = true;
                let (job, found) = &candidates[place];
                unlisted.remove(job.name);
                report.say(Kind::Moved, job.name, Some(name), |object| object.found(job.ids(), found));
            }
            None => gone.push(name),
        }
    }
    for name in gone {
        report.say(Kind::Missing, name, None, |object| object.digests("expected", listing[name].iter().copied()));
    }
    for (name, candidate) in unlisted {
        report.say(Kind::New, name, None, |object| {
            if let Some((job, found)) = candidate {
                object.found(job.ids(), found);
            }
        });
    }
    Ok(report.end())
}

impl Plan {
    fn path(&self, name: &[u8]) -> PathBuf {
        self.root.join(OsString::from_vec(name.to_vec()))
    }
}

/// A manifest and a folder, `.` by default; or a bag, as a whole or by one of its manifests (RFC 8493), whose payload is in `data`.
fn plan(operands: &[OsString]) -> Result<Plan, String> {
    let (manifest, folder) = (Path::new(&operands[0]), operands.get(1).map(PathBuf::from));
    if manifest.is_dir() {
        if !manifest.join("bagit.txt").is_file() {
            return Err(format!("{}: a folder, and no bag: what is audited is MANIFEST and DIR", manifest.display()));
        }
        if folder.is_some() {
            return Err("a bag has its folder in itself: there is no DIR".to_owned());
        }
        let all = fs::read_dir(manifest).map_err(|error| format!("{}: {}", manifest.display(), reason(&error)))?;
        let names = all.filter_map(|entry| Some(entry.ok()?.path()));
        let mut manifests: Vec<PathBuf> = names.filter(|path| bag_of(path).is_some()).collect();
        manifests.sort_unstable();
        let payload = |path: &PathBuf| path.file_name().is_some_and(|name| is_manifest(name.as_bytes()));
        if !manifests.iter().any(payload) {
            return Err(format!("{}: a bag without a manifest", manifest.display()));
        }
        return Ok(Plan { root: manifest.into(), folder: manifest.join("data"), manifests, from_here: true });
    }
    let manifests = vec![manifest.to_owned()];
    if let (Some(bag), None) = (bag_of(manifest), &folder) {
        let bag = if bag.as_os_str().is_empty() { Path::new(".") } else { bag };
        return Ok(Plan { root: bag.into(), folder: bag.join("data"), manifests, from_here: true });
    }
    let folder = folder.unwrap_or_else(|| ".".into());
    if !folder.is_dir() {
        return Err(format!("{}: not a folder", folder.display()));
    }
    Ok(Plan { root: folder.clone(), folder, manifests, from_here: bag_of(manifest).is_some() })
}

/// All that the manifests say.
fn read(plan: &Plan, mut reading: Reading, report: &mut Report<'_>) -> Result<Listing, String> {
    let mut files = Vec::new();
    for manifest in &plan.manifests {
        let at = |error: io::Error| format!("{}: {}", manifest.display(), reason(&error));
        let mut reader = BufReader::new(File::open(manifest).map_err(at)?);
        reading.begin(manifest.as_os_str());
        let (mut line, mut number, before) = (Vec::new(), 0, files.len());
        while let Some(whole) = read_line(&mut reader, &mut line).map_err(at)? {
            number += 1;
            match if whole { reading.line(&line) } else { Listed::Improper } {
                Listed::Blank => {}
                Listed::File(expected) => files.push(expected),
                Listed::Improper => {
                    let words = format!(": {number}: improperly formatted checksum line");
                    report.trouble(&[quote(manifest.as_os_str().as_bytes()), words.into_bytes()].concat());
                }
            }
        }
        if files.len() == before {
            return Err(format!("{}: no properly formatted checksum lines found", manifest.display()));
        }
    }
    // `gantry sum -r DIR` names files from the current folder, and a list that lies in DIR from there.
    let below_folder =
        |name: &[u8]| normal(Path::new(&OsString::from_vec(name.to_vec()))).starts_with(normal(&plan.folder));
    let from_here = plan.from_here || files.iter().all(|file| below_folder(&file.name));
    let base = if from_here { Path::new(".") } else { &plan.root };
    let root = absolute(&plan.root);
    let mut listing = Listing::new();
    for file in files {
        let path = absolute(&base.join(OsString::from_vec(file.name.clone())));
        let Ok(name) = path.strip_prefix(&root) else {
            report.trouble(&[&quote(&file.name), b": listed, and not below the folder".as_slice()].concat());
            continue;
        };
        let room = || Vec::with_capacity(file.digests.len());
        let digests = listing.entry(name.as_os_str().as_bytes().to_vec()).or_insert_with(room);
        for (id, digest) in file.digests {
            match digests.iter().find(|(other, _)| *other == id) {
                None => digests.push((id, digest)),
                Some((_, other)) if *other == digest => {}
                Some(_) => report.trouble(&[&quote(&file.name), b": listed with two digests".as_slice()].concat()),
            }
        }
    }
    Ok(listing)
}

/// The path from the root of the file system, without `.` and `..`.
fn absolute(path: &Path) -> PathBuf {
    normal(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

/// The listed files that are there, and those that are not listed.
fn look_around(
    plan: &Plan,
    listing: &Listing,
    options: &Options,
    report: &mut Report<'_>,
) -> (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) {
    let identity = |data: &Metadata| (data.dev(), data.ino());
    let ours = plan.manifests.iter().map(PathBuf::as_path).chain(options.cache.as_deref().map(Path::new));
    let ours: BTreeSet<_> = ours.filter_map(|path| fs::metadata(path).ok()).map(|data| identity(&data)).collect();
    let (mut present, mut new) = (BTreeSet::new(), BTreeSet::new());
    walk(&[plan.folder.clone().into()], options, |step| match step {
        Step::File(path) => {
            let path = Path::new(&path);
            let name = path.strip_prefix(&plan.root).unwrap_or(path).as_os_str().as_bytes().to_vec();
            if listing.contains_key(&name) {
                present.insert(name);
            } else if !fs::metadata(path).is_ok_and(|data| ours.contains(&identity(&data))) {
                new.insert(name);
            }
        }
        Step::Skipped(path, what) => {
            report.console.error(&[&quote(path.as_bytes()), format!(": {what}, skipped").as_bytes()].concat());
        }
        Step::Failed(path, error) => report.unreadable(path.as_bytes(), &error),
    });
    // Listed links, and files of a bag beside its payload.
    for name in listing.keys() {
        let path = plan.path(name);
        if !present.contains(name) && wanted(&plan.folder, &path, options) && path.is_file() {
            present.insert(name.clone());
        }
    }
    (present, new)
}

/// A file to be hashed.
struct Job<'a> {
    name: &'a Vec<u8>,
    /// What is listed, if it is.
    expected: Option<&'a Vec<(Id, Digest)>>,
    functions: Functions,
}

impl Job<'_> {
    fn ids(&self) -> impl Iterator<Item = Id> {
        self.functions.iter().map(|function| function.id)
    }

    /// Whether the file has these digests.
    fn agrees(&self, expected: &[(Id, Digest)], found: &Found) -> bool {
        expected.iter().all(|one| self.ids().zip(found.digests.iter().copied()).any(|other| other == *one))
    }
}

/// Hashes files; judges those that are listed, and answers the others.
fn hash<'j>(
    run: &Run<'_>,
    plan: &Plan,
    jobs: &'j [Job<'j>],
    threads: Option<usize>,
    report: &mut Report<'_>,
) -> Vec<(&'j Job<'j>, Found)> {
    let bar = run.bar(|| progress::sizes(jobs.iter().map(|job| plan.path(job.name))));
    report.console.write_above(bar.clone());
    let first = jobs.first().map(|job| &job.functions);
    let engine = Engine::new(first, jobs.len(), threads, bar.clone());
    let mut sink = Judge { run, jobs, report, candidates: Vec::new(), cached: 0 };
    engine.run(&mut sink, |pipeline| {
        for (place, job) in jobs.iter().enumerate() {
            cache::feed(run.cache, plan.path(job.name).into(), job.functions.clone(), place, pipeline);
        }
    });
    bar.finish_and_clear();
    let Judge { candidates, cached, report, .. } = sink;
    if cached > 0 {
        let files = if cached == 1 { "file was" } else { "files were" };
        report.console.error(format!("{cached} {files} not read: their digests are from the cache").as_bytes());
    }
    candidates
}

struct Judge<'s, 'j, 'c> {
    run: &'s Run<'s>,
    jobs: &'j [Job<'j>],
    report: &'s mut Report<'c>,
    candidates: Vec<(&'j Job<'j>, Found)>,
    cached: u64,
}

impl Sink<usize> for Judge<'_, '_, '_> {
    fn file(&mut self, path: OsString, place: usize, result: io::Result<Found>) {
        let job = &self.jobs[place];
        let found = match result {
            Ok(found) => found,
            Err(error) => return self.report.unreadable(path.as_bytes(), &error),
        };
        self.cached += u64::from(found.cached);
        if let Some(cache) = self.run.cache {
            cache.borrow_mut().insert(path.as_bytes(), &job.functions, &found);
        }
        match job.expected {
            None => self.candidates.push((job, found)),
            Some(expected) if job.agrees(expected, &found) => {
                self.report.say(Kind::Ok, job.name, None, |object| object.found(job.ids(), &found));
            }
            Some(expected) => self.report.say(Kind::Changed, job.name, None, |object| {
                object.found(job.ids(), &found);
                object.digests("expected", expected.iter().copied());
            }),
        }
    }

    fn note(&mut self, _: usize) {}

    fn waiting(&mut self) {
        self.report.console.flush();
    }
}

/// What a file is beside the manifest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ok,
    Changed,
    Moved,
    Missing,
    New,
}

/// The words for each, in its order.
const KINDS: [(&str, &str); 5] =
    [("ok", "as listed"), ("changed", "changed"), ("moved", "moved"), ("missing", "missing"), ("new", "new")];

struct Report<'c> {
    options: &'c Options,
    console: &'c mut Console,
    counts: [u64; KINDS.len()],
    /// Something could not be compared.
    trouble: bool,
}

impl Report<'_> {
    fn say(&mut self, kind: Kind, name: &[u8], from: Option<&Vec<u8>>, more: impl FnOnce(&mut Object<'_>)) {
        self.counts[kind as usize] += 1;
        let word = KINDS[kind as usize].0;
        if kind == Kind::Ok && (self.options.quiet || !self.options.json) {
            return;
        }
        let line = self.console.line();
        if self.options.json {
            let mut object = Object::begin(line);
            object.name("path", name);
            object.text("verdict", word);
            if let Some(from) = from {
                object.name("from", from);
            }
            more(&mut object);
            object.end();
        } else {
            let escape = needs_escape(name) || from.is_some_and(|from| needs_escape(from));
            if escape {
                line.push(b'\\');
            }
            line.extend(word.as_bytes());
            line.extend(b": ");
            if let Some(from) = from {
                write_name(line, from, escape);
                line.extend(b" -> ");
            }
            write_name(line, name, escape);
        }
        self.console.end_line();
    }

    fn trouble(&mut self, words: &[u8]) {
        self.trouble = true;
        self.console.error(words);
    }

    fn unreadable(&mut self, path: &[u8], error: &io::Error) {
        self.trouble = true;
        self.console.io_error(&quote(path), error);
        if self.options.json {
            let mut object = Object::begin(self.console.line());
            object.name("path", path);
            object.text("verdict", "unreadable");
            object.error(error);
            object.end();
            self.console.end_line();
        }
    }

    /// The summary, and the exit status.
    fn end(self) -> u8 {
        if !self.options.quiet && !self.options.json {
            let counts = self.counts.iter().zip(KINDS).map(|(count, (_, words))| format!("{count} {words}"));
            self.console.text(&counts.collect::<Vec<_>>().join(", "));
        }
        let differs = self.counts[1..].iter().any(|count| *count > 0);
        if self.trouble { 2 } else { u8::from(differs) }
    }
}
