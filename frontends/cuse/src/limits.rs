//! The resources of each user, and their limits.

use std::collections::HashMap;

/// Most resources of a user at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of sessions in all files together. A further session fails with ENOMEM.
    pub sessions: usize,
    /// Bytes of long requests in progress. A single request above this limit fails with ENOMEM. A request within the limit waits if the
    /// requests in progress leave too few bytes.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 4096, bytes: 64 << 20 }
    }
}

/// Resources of all users.
#[derive(Debug)]
pub(crate) struct Users {
    limits: Limits,
    usage_by_uid: HashMap<u32, Usage>,
}

#[derive(Debug, Default)]
struct Usage {
    sessions: usize,
    bytes: usize,
}

/// The answer to a user that wants to begin a large request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    Later,
    Never,
}

impl Users {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, usage_by_uid: HashMap::new() }
    }

    /// Adds a session. Returns `false` if the limit is reached.
    pub(crate) fn add_session(&mut self, uid: u32) -> bool {
        let usage = self.usage_by_uid.entry(uid).or_default();
        let has_room = usage.sessions < self.limits.sessions;
        usage.sessions += usize::from(has_room);
        has_room
    }

    pub(crate) fn remove_sessions(&mut self, uid: u32, sessions: usize) {
        self.update(uid, |usage| usage.sessions -= sessions);
    }

    pub(crate) fn admission(&self, uid: u32, bytes: usize) -> Admission {
        let used = self.usage_by_uid.get(&uid).map_or(0, |usage| usage.bytes);
        match bytes {
            _ if bytes > self.limits.bytes => Admission::Never,
            _ if used + bytes > self.limits.bytes => Admission::Later,
            _ => Admission::Now,
        }
    }

    pub(crate) fn begin_request(&mut self, uid: u32, bytes: usize) {
        self.usage_by_uid.entry(uid).or_default().bytes += bytes;
    }

    pub(crate) fn end_request(&mut self, uid: u32, bytes: usize) {
        self.update(uid, |usage| usage.bytes -= bytes);
    }

    /// Changes the usage of a user, and forgets a user without resources.
    fn update(&mut self, uid: u32, update: impl Fn(&mut Usage)) {
        if let Some(usage) = self.usage_by_uid.get_mut(&uid) {
            update(usage);
            if usage.sessions == 0 && usage.bytes == 0 {
                self.usage_by_uid.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_apply_to_each_user_separately() {
        let mut users = Users::new(Limits { sessions: 2, bytes: 100 });
        assert!(users.add_session(1) && users.add_session(1) && !users.add_session(1) && users.add_session(2));
        users.remove_sessions(1, 1);
        assert!(users.add_session(1) && !users.add_session(1));
        assert_eq!(users.admission(1, 101), Admission::Never);
        users.begin_request(1, 60);
        assert_eq!(
            (users.admission(1, 40), users.admission(1, 41), users.admission(2, 100)),
            (Admission::Now, Admission::Later, Admission::Now)
        );
        users.end_request(1, 60);
        assert_eq!(users.admission(1, 100), Admission::Now);
        users.remove_sessions(1, 2);
        users.remove_sessions(2, 1);
        assert!(users.usage_by_uid.is_empty(), "users without resources are forgotten");
    }
}
