//! One request on its way through the devices, as steps. Each step is at most one request to core, and requests of several
//! tasks that can share a batch do.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use gantry_abi_cryptodev as abi;
use gantry_core::{Outcome, Request, Session, Stream};
use gantry_protocols::tls::{MacSearch, without_padding};
use nix::errno::Errno;
use zeroize::Zeroizing;

use crate::plan::{Form, Job, finishes};
use crate::session::{Chain, Cipher, Hash, Shape, State};
use crate::wiped::Wiped;

/// A job with everything that it needs.
pub(crate) struct Task {
    shape: Arc<Shape>,
    state: State,
    job: Job,
    /// What was read of the caller, and the data where it is worked on.
    got: Wiped,
    steps: VecDeque<Step>,
    /// What is done at the moment.
    step: Option<Step>,
    chain: Option<Chain>,
    digest: Zeroizing<[u8; abi::MAX_DIGEST]>,
    /// Of AEADs with tags of their own length.
    session: Option<Session>,
    /// A TLS record that is being opened.
    record: Option<MacSearch>,
    /// The copy of its message that ends where the MAC may begin.
    trial: Option<Stream>,
    failed: Option<Errno>,
}

/// Where `bytes[8..12]` of both structures say how long the output is.
const LEN_AT: Range<usize> = 8..12;

#[derive(Clone, Debug)]
enum Step {
    /// The whole message at once.
    Digest(Range<usize>),
    Update(Range<usize>),
    Finish,
    Cipher(Range<usize>),
    Seal,
    Open,
    /// Encryption of a TLS record: MAC and padding behind the data.
    CloseRecord,
    /// Decryption: what is padding and what is MAC.
    OpenRecord,
    /// The MAC of a record's message, if this is where it ends.
    Try(usize),
    /// Compares the MAC of a packet.
    Verify,
}

impl Task {
    pub(crate) fn new(shape: Arc<Shape>, mut state: State, job: Job, got: Wiped) -> Self {
        let mut session = None;
        let mut failed = None;
        let (hashes, ciphers) = (shape.hash.is_some(), shape.cipher.is_some());
        if !job.iv.is_empty() {
            let iv = &got[job.iv.clone()];
            state.iv[..iv.len()].copy_from_slice(iv);
        }
        let data = job.data.clone();
        let mut steps = Vec::with_capacity(5);
        match &job.form {
            Form::Plain => {
                if hashes && (job.flags == 0 || job.flags & abi::COP_FLAG_RESET != 0) {
                    state.stream = None;
                }
                let ends = finishes(job.flags, data.len());
                if ciphers && !job.encrypt && !data.is_empty() {
                    steps.push(Step::Cipher(data.clone()));
                }
                if hashes && ends && state.stream.is_none() {
                    steps.push(Step::Digest(data.clone()));
                } else if hashes {
                    steps.push(Step::Update(data.clone()));
                    steps.extend(ends.then_some(Step::Finish));
                }
                if ciphers && job.encrypt && !data.is_empty() {
                    steps.push(Step::Cipher(data));
                }
            }
            Form::Aead { tag, .. } => {
                if let Some(cipher) = &shape.cipher {
                    session = cipher.session.as_ref().and_then(|session| with_tag(session, *tag));
                }
                let nonce = shape.cipher.as_ref().and_then(|cipher| nonce(cipher, &state.iv));
                failed = (session.is_none() || nonce.is_none()).then_some(Errno::EINVAL);
                steps.push(if job.encrypt { Step::Seal } else { Step::Open });
            }
            Form::Tls { aad, .. } => {
                state.stream = None;
                let mac = [Step::Update(aad.clone()), Step::Update(data.clone()), Step::Finish];
                let mac = mac.into_iter().filter(|_| hashes);
                if job.encrypt {
                    steps.extend(mac);
                    steps.push(Step::CloseRecord);
                } else {
                    steps.extend([Step::Cipher(data), Step::OpenRecord]);
                }
            }
            Form::Srtp { packet, .. } => {
                state.stream = None;
                let mac = hashes.then(|| Step::Digest(packet.clone()));
                if job.encrypt {
                    steps.extend((!data.is_empty()).then_some(Step::Cipher(data)));
                    steps.extend(mac);
                } else {
                    steps.extend(mac);
                    steps.extend(hashes.then_some(Step::Verify));
                    steps.push(Step::Cipher(data));
                }
            }
        }
        let mut task = Self {
            steps: steps.into(),
            step: None,
            chain: None,
            digest: Zeroizing::new([0; abi::MAX_DIGEST]),
            record: None,
            trial: None,
            shape,
            state,
            job,
            got,
            session,
            failed,
        };
        task.room_for_chain();
        task
    }

    /// What the next request of the session goes on with.
    pub(crate) fn into_state(self) -> State {
        self.state
    }

    pub(crate) fn session_id(&self) -> u32 {
        self.job.session
    }

    /// Goes on to the next step that a device is needed for; false when there is none. `company` is the number of tasks
    /// that are done side by side.
    pub(crate) fn advance(&mut self, company: usize) -> bool {
        while self.failed.is_none() {
            self.step = self.steps.pop_front();
            match self.step.clone() {
                None => return false,
                Some(Step::CloseRecord) => self.close_record(),
                Some(Step::OpenRecord) => self.open_record(),
                Some(Step::Verify) => self.verify(),
                Some(Step::Update(_)) if self.state.stream.is_none() => {
                    let hash = self.shape.hash.as_ref();
                    self.state.stream = hash.and_then(|hash| hash.session.stream(company).ok());
                    if self.state.stream.is_some() {
                        return true;
                    }
                    self.failed = Some(Errno::EIO);
                }
                Some(Step::Try(_)) => {
                    self.trial.clone_from(&self.state.stream);
                    return true;
                }
                Some(Step::Cipher(range)) => {
                    if let Some(cipher) = &self.shape.cipher {
                        if cipher.session.is_none() {
                            continue;
                        }
                        let range = self.padded(cipher, &range);
                        self.chain = Some(Chain::before(cipher, self.job.encrypt, &self.got[range]));
                    }
                    return true;
                }
                Some(_) => return true,
            }
        }
        false
    }

    /// Where data comes last and its chain asks for it, zeros behind it.
    fn room_for_chain(&mut self) {
        if let Some(cipher) = &self.shape.cipher
            && matches!(self.job.form, Form::Plain | Form::Tls { .. })
        {
            let end = self.job.data.end;
            self.got.resize(end + Chain::padding(cipher, self.job.data.len()));
        }
    }

    /// MAC and padding behind the data (RFC 5246, 6.2.3.2): as many bytes as are missing, each with that number less one.
    fn close_record(&mut self) {
        let Form::Tls { tag, .. } = self.job.form else { return };
        let Some(cipher) = &self.shape.cipher else { return };
        let (data, block) = (&mut self.job.data, cipher.row.block);
        self.got.resize(data.end);
        self.got.append(&self.digest[..tag]);
        if block > 1 {
            let missing = block - (data.len() + tag) % block;
            self.got.append(&[(missing - 1) as u8; 256][..missing]);
        }
        data.end = self.got.len();
        self.steps.push_front(Step::Cipher(data.clone()));
        self.room_for_chain();
    }

    /// Looks for padding and MAC: the MAC of every message that the record may hold.
    fn open_record(&mut self) {
        let Form::Tls { aad, tag } = &self.job.form else { return };
        let Some(cipher) = &self.shape.cipher else { return };
        let data = self.job.data.clone();
        if self.shape.hash.is_none() {
            if cipher.row.block > 1 {
                self.say_length(without_padding(&self.got[data]) as u32);
            }
            return;
        }
        match MacSearch::new(&self.got[data.clone()], cipher.row.block, *tag) {
            None => self.failed = Some(Errno::EBADMSG),
            Some(search) => {
                let first = search.places().start;
                let message = data.start..data.start + first;
                self.steps = [Step::Update(aad.clone()), Step::Update(message), Step::Try(first)].into();
                self.record = Some(search);
            }
        }
    }

    /// The MAC of the message that ends here has been computed.
    fn tried(&mut self, place: usize) {
        let Some(search) = &mut self.record else { return };
        let data = self.job.data.clone();
        search.compare(&self.got[data.clone()], place, &*self.digest);
        if place + 1 < search.places().end {
            let next = data.start + place;
            self.steps = [Step::Update(next..next + 1), Step::Try(place + 1)].into();
            return;
        }
        self.state.stream = None;
        match search.message() {
            Some(length) => self.say_length(length),
            None => self.failed = Some(Errno::EBADMSG),
        }
    }

    fn say_length(&mut self, bytes: u32) {
        self.job.answer[LEN_AT].copy_from_slice(&bytes.to_ne_bytes());
    }

    fn verify(&mut self) {
        let Form::Srtp { given, .. } = &self.job.form else { return };
        if !gantry_core::tags_equal(&self.got[given.clone()], &self.digest[..given.len()]) {
            self.failed = Some(Errno::EBADMSG);
        }
    }

    /// The range with the zeros behind it that show how the chain goes on.
    fn padded(&self, cipher: &Cipher, range: &Range<usize>) -> Range<usize> {
        let padding = if range.end == self.job.data.end { Chain::padding(cipher, range.len()) } else { 0 };
        range.start..(range.end + padding).min(self.got.len())
    }

    /// The session of this step's request.
    fn owner(&self) -> Option<Session> {
        match self.step.as_ref()? {
            Step::Digest(_) => self.shape.hash.as_ref().map(|hash| hash.session.clone()),
            // A message that was copied from another session belongs to that one's, where there are keys.
            Step::Update(_) | Step::Finish | Step::Try(_) => self.state.stream.as_ref().map(Stream::session),
            Step::Cipher(_) => self.shape.cipher.as_ref().and_then(|cipher| cipher.session.clone()),
            _ => self.session.clone(),
        }
    }

    /// The request of this step.
    pub(crate) fn request(&mut self) -> Option<Request<'_>> {
        let step = self.step.clone()?;
        if let Step::Cipher(range) = &step {
            let cipher = self.shape.cipher.as_ref()?;
            let (range, iv) = (self.padded(cipher, range), &self.state.iv[..cipher.row.iv]);
            let data = &mut self.got[range];
            return Some(if self.job.encrypt { Request::encrypt(iv, data) } else { Request::decrypt(iv, data) });
        }
        let digest_bytes = self.shape.hash.as_ref().map_or(0, Hash::bytes);
        let Self { state, trial, job, got, digest, shape, .. } = self;
        Some(match (step, &job.form) {
            (Step::Digest(range), _) => {
                let keyed = shape.hash.as_ref()?.row.algorithm.kind() == gantry_core::Kind::Mac;
                let message = &got[range];
                let digest = &mut digest[..digest_bytes];
                if keyed { Request::mac(message, digest) } else { Request::digest(message, digest) }
            }
            (Step::Update(range), _) => Request::update(state.stream.as_mut()?, &got[range]),
            (Step::Finish, _) => Request::finish(state.stream.as_mut()?, &mut digest[..digest_bytes]),
            (Step::Try(_), _) => Request::finish(trial.as_mut()?, &mut digest[..digest_bytes]),
            (Step::Seal | Step::Open, Form::Aead { aad, tag }) => {
                let (aad, tag, cipher) = (aad.clone(), *tag, shape.cipher.as_ref()?);
                let nonce = nonce(cipher, &state.iv)?;
                let sealed = job.data.clone();
                let (before, behind) = got.split_at_mut(sealed.end);
                // Associated data comes behind the data, or not at all.
                let aad = if aad.is_empty() { &[][..] } else { &behind[aad.start - sealed.end..aad.end - sealed.end] };
                let data = &mut before[sealed.start..];
                if job.encrypt {
                    Request::seal(nonce, aad, data, &mut digest[..tag])
                } else {
                    let (data, given) = data.split_at_mut(sealed.len() - tag);
                    Request::open(nonce, aad, data, given)
                }
            }
            _ => return None,
        })
    }

    /// What became of the request; `None` when no device could run it.
    pub(crate) fn settle(&mut self, outcome: Option<Outcome>) {
        let ccm = self.shape.cipher.as_ref().is_some_and(|cipher| cipher.row.number == 51);
        self.failed = match outcome {
            Some(Outcome::Done) => None,
            Some(Outcome::BadTag) => Some(Errno::EBADMSG),
            Some(Outcome::BadLength) if ccm => Some(Errno::EOVERFLOW),
            Some(_) => Some(Errno::EINVAL),
            None => Some(Errno::EIO),
        };
        match (&self.step, self.chain.take()) {
            (Some(Step::Cipher(range)), Some(chain)) if self.failed.is_none() => {
                if let Some(cipher) = &self.shape.cipher {
                    let range = self.padded(cipher, range);
                    chain.after(cipher, &self.got[range], &mut self.state.iv);
                }
            }
            (Some(Step::Finish | Step::Digest(_)), _) => self.state.stream = None,
            (Some(Step::Update(_) | Step::Try(_)), _) if self.failed.is_some() => self.state.stream = None,
            (&Some(Step::Try(place)), _) => self.tried(place),
            _ => {}
        }
    }

    /// Does all steps.
    pub(crate) fn run(&mut self) {
        side_by_side([self]);
    }

    /// What the caller gets: the parts of the answer in the order of the ranges that were planned, or an errno.
    pub(crate) fn result(&self) -> Result<Vec<&[u8]>, Errno> {
        if let Some(errno) = self.failed {
            return Err(errno);
        }
        let data = &self.got[self.job.data.clone()];
        let mut parts = Vec::with_capacity(4);
        match &self.job.form {
            Form::Plain => {
                if self.shape.cipher.is_some() {
                    parts.push(data);
                }
                if let Some(hash) = &self.shape.hash
                    && finishes(self.job.flags, data.len())
                {
                    parts.push(&self.digest[..hash.bytes()]);
                }
            }
            Form::Aead { tag, .. } if self.job.encrypt => parts.extend([data, &self.digest[..*tag]]),
            Form::Aead { tag, .. } => parts.push(&data[..data.len() - tag]),
            Form::Tls { .. } => parts.push(data),
            Form::Srtp { tag, .. } => {
                parts.push(data);
                if self.job.encrypt && self.shape.hash.is_some() {
                    parts.push(&self.digest[..*tag]);
                }
            }
        }
        if !self.job.iv.is_empty() && self.job.flags & abi::COP_FLAG_WRITE_IV != 0 {
            parts.push(&self.state.iv[..self.job.iv.len()]);
        }
        parts.push(&self.job.answer);
        Ok(parts)
    }
}

/// Does all steps of all tasks, side by side.
pub(crate) fn side_by_side<'t>(tasks: impl IntoIterator<Item = &'t mut Task>) {
    let mut going: Vec<&mut Task> = tasks.into_iter().collect();
    let company = going.len();
    loop {
        going.retain_mut(|task| task.advance(company));
        if going.is_empty() {
            return;
        }
        step(&mut going);
    }
}

/// Does one step of all tasks.
fn step(going: &mut [&mut Task]) {
    let mut sessions = Vec::with_capacity(going.len());
    let mut requests = Vec::with_capacity(going.len());
    let mut asked = Vec::with_capacity(going.len());
    for task in going.iter_mut() {
        let step = task.owner().and_then(|session| Some((session, task.request()?)));
        asked.push(step.is_some());
        if let Some((session, request)) = step {
            sessions.push(session);
            requests.push(request);
        }
    }
    // All sessions are of the server's framework.
    let _ = Session::process_each(&sessions, &mut requests);
    let outcomes: Vec<Option<Outcome>> = requests.iter().map(Request::outcome).collect();
    let mut outcomes = outcomes.into_iter();
    for (task, asked) in going.iter_mut().zip(asked) {
        task.settle(if asked { outcomes.next().flatten() } else { None });
    }
}

/// The session of an AEAD with tags of so many bytes.
fn with_tag(session: &Session, tag: usize) -> Option<Session> {
    if session.params().tag_length() == tag {
        return Some(session.clone());
    }
    session.gantry().session(session.params().clone().tag_len(tag)).ok()
}

/// The nonce in an IV. Of CCM the kernel wants the whole first counter block: 14 less the nonce's length, the nonce, zeros
/// (RFC 3610, 2.3).
fn nonce<'s>(cipher: &Cipher, iv: &'s [u8; abi::MAX_IV]) -> Option<&'s [u8]> {
    if cipher.row.number != 51 {
        return Some(&iv[..cipher.row.iv]);
    }
    (1..=7).contains(&iv[0]).then(|| &iv[1..15 - usize::from(iv[0])])
}

#[cfg(test)]
mod tests;
